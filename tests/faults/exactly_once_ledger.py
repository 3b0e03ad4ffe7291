"""The expected output of the judged exactly-once run, and the actual output as read by Java."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.kafka import jars, jvm
from tools.kafka.process import Child
from tools.kafka.releases import FALLBACK

__all__ = ["OutputLedger", "Transactions", "console", "lines"]

CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
QUIET: Final = 20.0
"""Seconds without a record after which the console consumer assumes that there are no more."""
_LAST_WORD: Final = b"Processed a total of "

Mark = tuple[bytes, int]
"""A process and the number of its transaction."""


async def console(bootstrap: str, topic: str, to: Path, within: float) -> None:
    """Let Java's console consumer write a topic's read_committed records into a file.

    Args:
        within: Seconds.

    Raises:
        AssertionError: It did not end in time.
    """
    command = [jars.java(), *jvm.options(FALLBACK), "-Xmx256m", "-cp", jars.class_path(FALLBACK)]
    command += ["-Dorg.apache.logging.log4j.level=OFF", CONSOLE]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    command += ["--isolation-level", "read_committed", "--timeout-ms", str(int(QUIET * 1000))]
    for each in ("print.partition=true", "print.offset=true", "print.key=true"):
        command += ["--formatter-property", each]
    child = Child(command, to)
    try:
        deadline = time.monotonic() + within
        while child.exit_status is None:
            assert time.monotonic() < deadline, f"{topic} was not read in {within:.0f} s"
            await asyncio.sleep(0.2)
    finally:
        child.kill()


def lines(path: Path) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Partition, offset, key and value of each record that the console consumer wrote down.

    Raises:
        AssertionError: Its own count differs.
    """
    count, told = 0, None
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"Partition:"):
                partition, offset, key, value = line.rstrip(b"\n").split(b"\t")
                count += 1
                yield int(partition[10:]), int(offset[7:]), key, value
            elif line.startswith(_LAST_WORD):
                told = int(line.split()[4])
    assert told == count, f"the console consumer tells of {told} records, and wrote {count}"


class Transactions:
    """The processes' journals of their transactions.

    Attributes:
        events: Number of lines of each kind.
        mistakes: Violations reported by the processes.
    """

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self._outcomes: dict[Mark, str] = {}
        self._records: dict[Mark, int] = {}

    def take(self, process: str, journal: Path) -> None:
        """Read the journal of a process."""
        name = process.encode()
        for line in journal.read_text().splitlines():
            verb, _, rest = line.partition(" ")
            if verb == "mistake":
                self.mistakes.append(f"{process}: {rest}")
            elif verb in ("error", "anew"):
                self.events[rest] += 1
                continue
            elif rest:
                number, *counts = map(int, rest.split())
                self._outcomes[name, number] = verb
                for count in counts:
                    self._records[name, number] = count
            self.events[verb] += 1

    def judge(self, seen: Counter[Mark]) -> list[str]:
        """Compare the journals with the output, in which each transaction is complete or absent.

        Args:
            seen: Records by transaction.
        """
        wrong = []
        for mark, told in self._outcomes.items():
            there, sent = seen[mark], self._records.get(mark, 0)
            fine = {"committed": (sent,), "aborted": (0,), "commits": (0, sent)}[told]
            if there not in fine:
                wrong.append(f"{mark}, told {told!r}: {there} of {sent} records are there")
        for mark in seen.keys() - self._outcomes.keys():
            wrong.append(f"{mark}: nobody has committed it, and {seen[mark]} are there")
        return wrong


class OutputLedger:
    """Follows the numbers of each key through the output.

    Attributes:
        seen: Records by transaction.
        count: Of all.
    """

    def __init__(self) -> None:
        self.seen: Counter[Mark] = Counter()
        self.count = 0
        self.wrong: list[str] = []
        self._next: dict[bytes, int] = {}

    def take(self, records: Iterable[tuple[int, int, bytes, bytes]]) -> None:
        """Add the output, each partition in order."""
        following, seen, wrong = self._next, self.seen, self.wrong
        for partition, offset, key, value in records:
            number, process, transaction = value.split(b" ")
            mark = process, int(transaction)
            seen[mark] += 1
            self.count += 1
            expected = following.get(key, 0)
            if int(number) != expected:
                wrong.append(
                    f"{key!r} of {partition}@{offset}: {int(number)} follows {expected - 1}, by "
                    f"{mark}"
                )
            following[key] = int(number) + 1

    def judge(self, keys: Iterable[bytes], each: int) -> list[str]:
        """All problems, given the number of records per key."""
        short = [
            f"{key!r} ends at {self._next.get(key, 0)} of {each}"
            for key in keys
            if self._next.get(key, 0) != each
        ]
        return [*self.wrong, *short]
