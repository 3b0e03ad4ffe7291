"""Runs several Makefile targets in parallel and prints a summary: `python -m tools.gates PART...`.

A part is a target of the Makefile, such as `lint` or `test-real`. Each part runs to its end even if
others fail. Its output goes to a file and is printed as a whole when the part ends, so that the
outputs of two parts never mix. The last lines are a table of all parts and the number of tests that
passed and failed.

Options:
    --slots N   Number of parts that run at a time (2 by default). They start in the given order,
                so list the longest first.
    --made FILE A prerequisite that `make` must not remake, because two parts would do so at once.
    --logs DIR  Directory for the output.
    --limit S   Seconds that one part may take (2,700 by default). A part that exceeds them is
                interrupted and counted as failed, so that the run ends with a summary.
    --again N   If at most N tests failed in all parts (0 by default), run those tests once more
                when the parts are done, alone. A test that passes then is listed as flaky, and
                does not fail the run: something else on the machine can make a test of real time
                fail. A crash, a time limit and an error outside of tests fail the run at once.

For `--again`, a part writes the ids of its failed tests to the file that the environment variable
AIOKAFKA_LITE_FAILED_TESTS names, a line for each report (tests/conftest.py). Such a part takes the
variable TESTS of make: a file with the ids of the tests to run.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOTHING_SELECTED: Final = 5
"""pytest's exit status if no test was selected, which is allowed for one part of a run."""

GRACE: Final = 8.0
"""Seconds that an interrupted part may take to end before the next stronger signal."""

FAILED_TESTS: Final = "AIOKAFKA_LITE_FAILED_TESTS"
"""The environment variable with the file to which pytest writes the ids of failed tests."""

TESTS_FAILED: Final = 1
"""pytest's exit status if tests failed and nothing else did."""

_TICK: Final = 0.5
"""Seconds of one wait in the main thread. Python runs a signal's handler before or after a wait: a
signal that arrives just before a wait without a timeout would have no effect until it ends."""

INTERRUPTED: Final = 130
"""The exit status of a run that was ended by a signal."""

TIMED_OUT: Final = 124
"""The exit status of a part that exceeded its time limit, as in timeout(1)."""

_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
_CLOSING: Final = re.compile(r"^(?:=+ )?(?:no tests ran|.*\d+ [a-z]+.*) in \d+\.\d+s\b")
_MAKE_FAILED: Final = re.compile(r"^make.*: \*\*\* \[.*\] Error (\d+)", re.MULTILINE)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Outcome:
    """The result of one part.

    Attributes:
        part: The target.
        status: The exit status of the target's tool; 0 is success.
        seconds: The duration.
        counts: Number of tests by result; empty for a part that does not run pytest.
        failed_tests: The ids of failed tests, one for each report; empty if they are unknown.
    """

    part: str
    status: int
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    failed_tests: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """True if the part failed, in a test or otherwise."""
        return bool(self.status) and not self.empty

    @property
    def empty(self) -> bool:
        """True if the part had no test to run."""
        return self.status == NOTHING_SELECTED and not self.counts

    @property
    def repeatable(self) -> bool:
        """True if the part failed in known tests only, so that they can run again."""
        failures = self.counts["failed"] + self.counts["error"]
        return self.status == TESTS_FAILED and 0 < failures == len(self.failed_tests)

    def after(self, again: Outcome) -> Outcome:
        """This outcome after its failed tests ran again.

        Args:
            again: The result of the second run, which decides.
        """
        tests = len(set(self.failed_tests))
        if again.status or again.counts["passed"] != tests:
            return self
        kept = {what: n for what, n in self.counts.items() if what not in ("failed", "error")}
        counts = Counter(kept)
        counts["passed"] += self.counts["failed"]
        counts["flaky"] = tests
        return Outcome(self.part, 0, self.seconds + again.seconds, counts, self.failed_tests)

    def summary(self) -> str:
        """One line of the table."""
        details = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        if self.empty:
            details = "no test selected"
        elif self.failed and not self.counts["failed"] and not self.counts["error"]:
            details = ", ".join(filter(None, [details, f"exit status {self.status}"]))
        mark = "FAILED" if self.failed else "ok"
        return f"{self.part:<18} {mark:<7} {self.seconds:6.0f} s  {details}".rstrip()


def outcome(part: str, make_status: int, seconds: float, output: str) -> Outcome:
    """Read the result of a part from its output.

    Args:
        part: The target.
        make_status: The exit status of `make`, which is 2 for any status of the tool but 0.
        seconds: The duration.
        output: The complete output.
    """
    output = _COLOUR.sub("", output)
    counts: Counter[str] = Counter()
    closing = [line for line in output.splitlines() if _CLOSING.match(line)]
    for count, what in _COUNT.findall(closing[-1]) if closing else ():
        counts["error" if what == "errors" else what] += int(count)
    status = make_status
    if status and (found := _MAKE_FAILED.findall(output)):
        status = int(found[-1])
    if make_status == TIMED_OUT:
        status = TIMED_OUT  # ignore the status of the interrupted tool
    return Outcome(part, status, seconds, counts)


def total(outcomes: Sequence[Outcome]) -> str:
    """The last line: tests of all parts, and parts that failed without a failed test."""
    counts: Counter[str] = Counter()
    for each in outcomes:
        counts += each.counts
    broken = [
        each.part
        for each in outcomes
        if each.failed and not each.counts["failed"] and not each.counts["error"]
    ]
    wrong = counts["failed"] + counts["error"] + len(broken)
    line = f"{counts['passed']} passed, {wrong} failed, {counts['skipped']} skipped"
    return line + (f" (parts that failed outside of tests: {', '.join(broken)})" if broken else "")


class Run:
    """Runs parts in parallel.

    Args:
        parts: The targets, in the order in which they start.
        slots: Number of parts that run at a time.
        made: Prerequisites that `make` treats as up to date.
        logs: Directory for the output.
        limit: Seconds that one part may take.
        again: Number of failed tests up to which they run again.
    """

    def __init__(
        self,
        parts: Sequence[str],
        slots: int,
        made: Sequence[str],
        logs: Path,
        limit: float = math.inf,
        again: int = 0,
    ) -> None:
        self._parts = parts
        self._limit = limit
        self._again = again
        self._slots = slots
        self._made = [f"--old-file={name}" for name in made]
        self._logs = logs
        self._printing = threading.Lock()
        self._starting = threading.Lock()
        self._interrupted = False
        self._processes: list[subprocess.Popen[bytes]] = []

    def __call__(self) -> list[Outcome]:
        """Run all parts and return their results."""
        self._logs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self._slots) as threads:
            try:
                runs = [threads.submit(self._run, part) for part in self._parts]
                running: Collection[Future[Outcome]] = runs
                while running:
                    ended, running = wait(running, _TICK, FIRST_EXCEPTION)
                    for run in ended:
                        run.result()
                return self._repeat([run.result() for run in runs])
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._interrupt()
                raise

    def _repeat(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Run the failed tests again if there are few of them, one part after the other."""
        failed = [each for each in outcomes if each.failed]
        tests = sum(len(set(each.failed_tests)) for each in failed)
        if not all(each.repeatable for each in failed) or tests > self._again:
            return outcomes
        return [each.after(self._run_again(each)) if each.failed else each for each in outcomes]

    def _run_again(self, failed: Outcome) -> Outcome:
        tests = self._logs.absolute() / f"{failed.part}.again"
        tests.write_text("".join(f"{test}\n" for test in dict.fromkeys(failed.failed_tests)))
        return self._run(failed.part, "-again", [f"TESTS={tests}", "FLAGS=-n 0"])

    def _run(self, part: str, suffix: str = "", variables: Sequence[str] = ()) -> Outcome:
        log = self._logs / f"{part}{suffix}.log"
        tests = log.absolute().with_suffix(".failed")
        tests.unlink(missing_ok=True)
        self._print(f"{part}{suffix}: started; its output is in {log} until it ends")
        began = time.monotonic()
        with log.open("wb") as output:
            with self._starting:  # after `_interrupt`, no process starts
                if self._interrupted:
                    return Outcome(part, INTERRUPTED, 0.0)
                process = subprocess.Popen(
                    ["make", "--no-print-directory", *self._made, part, *variables],
                    env={**os.environ, FAILED_TESTS: str(tests)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a process group, which is interrupted as a whole
                )
                self._processes.append(process)
            status = self._wait(process, part)
        text = log.read_text(errors="replace")
        found = outcome(part, status, time.monotonic() - began, text)
        if tests.exists():
            found.failed_tests = tests.read_text().splitlines()
        self._print(f"\n===== {part}{suffix} =====\n{text}\n{found.summary()}\n")
        return found

    def _wait(self, process: subprocess.Popen[bytes], part: str) -> int:
        """Wait for a part's exit status; interrupt the part if it exceeds its time."""
        try:
            return process.wait(None if math.isinf(self._limit) else self._limit)
        except subprocess.TimeoutExpired:
            self._print(f"{part}: did not end within {self._limit:.0f} s; interrupting it")
        _end([process])
        process.wait()
        return TIMED_OUT

    def _print(self, text: str) -> None:
        with self._printing:
            print(text, flush=True)

    def _interrupt(self) -> None:
        """Interrupt all running parts, and start no more."""
        with self._starting:
            self._interrupted = True
        _end([process for process in self._processes if process.returncode is None])


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupt parts as Ctrl-C does, so that they stop the brokers they started.

    A shell can miss that signal while it starts a program: a part that continues gets SIGTERM, and
    finally SIGKILL.
    """
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for process in running:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.killpg(process.pid, ending)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in running):
                return
            time.sleep(0.05)


def main() -> int:
    """Run the parts given on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gates",
        description="Run several Makefile targets in parallel and print a summary.",
        epilog="example: python -m tools.gates --logs /tmp/logs test-real test-fast lint",
    )
    parser.add_argument("parts", nargs="+", metavar="PART", help="a Makefile target")
    parser.add_argument(
        "--slots", type=int, default=2, help="parts that run at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--made",
        action="append",
        default=[],
        metavar="FILE",
        help="a prerequisite that make must not remake; may be repeated",
    )
    parser.add_argument("--logs", type=Path, required=True, help="directory for the output")
    parser.add_argument(
        "--limit",
        type=float,
        default=2700.0,
        metavar="S",
        help="seconds that one part may take (default: %(default)s)",
    )
    parser.add_argument(
        "--again",
        type=int,
        default=0,
        metavar="N",
        help="run the failed tests again, alone, if they are at most N (default: %(default)s)",
    )
    given = parser.parse_args()
    began = time.monotonic()
    for ending in (signal.SIGTERM, signal.SIGHUP):  # the parts end with this process
        signal.signal(ending, signal.default_int_handler)
    try:
        run = Run(given.parts, given.slots, given.made, given.logs, given.limit, given.again)
        outcomes = run()
    except KeyboardInterrupt:
        return INTERRUPTED
    print("=" * 72)
    for each in outcomes:
        print(each.summary())
    for each in outcomes:
        for test in dict.fromkeys(each.failed_tests) if each.counts["flaky"] else ():
            print(f"flaky: {test} failed in {each.part}, and passed when it ran alone")
    print(f"{total(outcomes)} in {time.monotonic() - began:.0f} s")
    return int(any(each.failed for each in outcomes) or all(each.empty for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
