"""Many short judged exactly-once runs, each with its own schedule.

`make chaos-exactly-once`. One long run meets few of the orders in which a session, an outage, a
rebalance and a transaction can meet. So each run here draws its seed, length, Kafka release, group
protocol, API and load at random, and outages last from a fraction of the session to more than twice
as long. Each run is `test_exactly_once_judged` in its own process; several run in parallel.

    python -m tests.faults.exactly_once_runs --runs 60 --parallel 2 --seed 1 --output FOLDER

Prints a row for each run as it ends, and a table by release, protocol and API at the end. The exit
status is 1 if a run failed; the output of every run is kept in the folder.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp

RELEASES = ("4.4.0", "3.9.2", "2.8.2")
TEST = "tests/faults/test_exactly_once_judged.py"
LONGEST_RUN = 1_500  # seconds, on a busy machine


@dataclass(frozen=True)
class Run:
    """The parameters of one run.

    Attributes:
        seconds: The seconds of faults.
        api: "hand" or "once".
    """

    number: int
    seed: int
    seconds: int
    records: int
    release: str
    protocol: str
    api: str
    static: bool

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the test."""
        return {
            "CHAOS_SEED": str(self.seed),
            "CHAOS_MINUTES": str(self.seconds / 60),
            "CHAOS_RECORDS": str(self.records),
            "CHAOS_VERSION": self.release,
            "CHAOS_PROTOCOL": self.protocol,
            "CHAOS_API": self.api,
            "CHAOS_STATIC": "1" if self.static else "",
            "CHAOS_OUTAGES": "1",
        }

    @property
    def title(self) -> str:
        kind = f"{self.protocol}{', static' if self.static else ''}"
        return f"{self.release} {kind} {self.api} seed {self.seed}, {self.seconds} s"


def draw(seed: int, count: int) -> list[Run]:
    """The runs of a seed: every release, protocol and API in turn, the rest random."""
    chance = random.Random(seed)
    kinds = [
        (release, protocol, api)
        for release in RELEASES
        for protocol in ("eager", "cooperative", "consumer")
        for api in ("hand", "once")
        if not (protocol == "consumer" and release < "4")
    ]
    runs: list[Run] = []
    while len(runs) < count:
        for release, protocol, api in chance.sample(kinds, len(kinds)):
            runs.append(
                Run(
                    len(runs),
                    chance.randrange(1, 10**6),
                    chance.randint(60, 90),
                    chance.choice([20_000, 40_000, 80_000]),
                    release,
                    protocol,
                    api,
                    chance.random() < 0.25,
                )
            )
    return runs[:count]


def play(run: Run, folder: Path, slots: Queue[int]) -> tuple[Run, str]:
    """One run.

    Args:
        run: The parameters of the run.
        folder: For its output.
        slots: It takes one of them, and with it a range of ports, so that a killed broker never
            finds its port taken by another run.

    Returns:
        The run, and "passed" or the problem in one line.
    """
    output = folder / f"run-{run.number:03}.txt"
    command = [sys.executable, "-m", "pytest", TEST, "-s", "-q", "-p", "no:cacheprovider"]
    command.append(f"--basetemp={folder / f'files-{run.number:03}'}")
    slot = slots.get()
    ports = f"{12_000 + 4_000 * slot}-{16_000 + 4_000 * slot}"
    began = time.monotonic()
    with output.open("w") as file:
        try:
            status = subprocess.run(
                command,
                env={**os.environ, **run.environment, "AIOKAFKA_LITE_PORTS": ports},
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_RUN,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        finally:
            slots.put(slot)
    text = output.read_text()
    result = "passed" if status == 0 else _first_complaint(text, status)
    print(f"{run.number:3}  {run.title}: {result}  ({time.monotonic() - began:.0f} s)", flush=True)
    return run, result


def _first_complaint(text: str, status: int) -> str:
    found = re.search(r"^E +(?:AssertionError: )?(.+)$", text, re.MULTILINE)
    return f"FAILED ({found.group(1)[:160] if found else f'exit status {status}'})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=60, help="how many runs")
    parser.add_argument(
        "--parallel", type=int, default=2, choices=range(1, 6), help="how many at a time"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn")
    parser.add_argument("--first", type=int, default=0, help="number of the first run to play")
    parser.add_argument("--output", type=Path, help="folder for the runs' output")
    given = parser.parse_args(arguments)
    folder: Path = given.output or Path(mkdtemp(prefix="exactly-once-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{given.runs} runs of seed {given.seed}; their output is in {folder}", flush=True)
    runs = draw(given.seed, given.first + given.runs)[given.first :]
    slots: Queue[int] = Queue()
    for slot in range(given.parallel):
        slots.put(slot)
    with ThreadPoolExecutor(given.parallel) as threads:
        played = list(threads.map(lambda run: play(run, folder, slots), runs))
    passed: Counter[tuple[str, str, str]] = Counter()
    failed: Counter[tuple[str, str, str]] = Counter()
    for run, result in played:
        (passed if result == "passed" else failed)[run.release, run.protocol, run.api] += 1
    print("\n| release | protocol | API | passed | failed |\n|---|---|---|---|---|")
    for kind in sorted(passed.keys() | failed.keys()):
        print(f"| {' | '.join(kind)} | {passed[kind]} | {failed[kind]} |")
    print(f"{passed.total()} passed, {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
