"""The resources and log lines of the processes of an endurance piece: nothing may grow without
limit.

The watch repeatedly measures all processes that this one has started, and theirs. The memory of a
process that lives long enough must not grow; no process may have many descriptors or threads.
Processes that keep a ledger of all records, and brokers, are only recorded.
"""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Use", "Watch", "growth", "repeated", "trend"]

EVERY: Final = 5.0  # seconds
WARM_UP: Final = 600.0  # seconds of a process in which its memory may grow
GROWTH: Final = 0.05  # of the memory after that
SLACK: Final = 2048  # KiB: pages that the allocator takes for a burst
ENOUGH: Final = 30  # measurements after the warm-up
DESCRIPTORS: Final = 250
THREADS: Final = 60
LINES_A_MINUTE: Final = 120  # of one message, of one process
LEDGERS: Final = frozenset(
    {"endurance", *(f"lane {lane}" for lane in ("producer", "group", "exactly-once"))}
    | {f"lane {lane}" for lane in ("share", "recreated", "spark")}
)
"""Processes that store every record."""
_MODULE: Final = re.compile(r"-m (tests\.faults\.|pyspark\.)(\w+)(?: ([\w-]+))?")
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d):\d\d,\d{3} (.*)")
_VARIES: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


@dataclass
class Use:
    """One process.

    Attributes:
        role: The program that it runs.
        samples: Seconds since it was first seen, and KiB of resident memory.
        descriptors: The most that it had.
        threads: The most that it had.
    """

    role: str
    samples: list[tuple[float, int]] = field(default_factory=list)
    descriptors: int = 0
    threads: int = 0

    def judge(self) -> list[str]:
        """Its problems."""
        wrong = []
        if self.role != "java":
            if self.descriptors > DESCRIPTORS:
                wrong.append(f"{self.role} had {self.descriptors} descriptors")
            if self.threads > THREADS:
                wrong.append(f"{self.role} had {self.threads} threads")
            warm = [size for at, size in self.samples if at >= WARM_UP]
            if self.role not in LEDGERS and len(warm) >= ENOUGH and (grown := growth(warm)):
                wrong.append(f"{self.role}: {grown}")
        return wrong


def growth(sizes: list[int]) -> str | None:
    """By how much memory has grown, in words; None if by no more than is allowed.

    Args:
        sizes: KiB, after the warm-up.
    """
    early, late = trend(sizes)
    if late > early * (1 + GROWTH) + SLACK:
        return f"memory grew from {early:.0f} to {late:.0f} KiB"
    return None


def trend(values: list[int]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    third = len(values) // 3
    first, last = sorted(values[:third]), sorted(values[-third:])
    return float(first[third // 2]), float(last[third // 2])


class Watch:
    """Watches the processes below one.

    Args:
        root: Its process id.

    Attributes:
        uses: By process id.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._first: dict[int, float] = {}
        self.uses: dict[int, Use] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        """Measure all processes now."""
        now = time.monotonic()
        for pid in _below(self._root):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                descriptors = len(os.listdir(f"/proc/{pid}/fd"))
                threads = len(os.listdir(f"/proc/{pid}/task"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            if not command:
                continue  # a zombie: its exit status was not read
            role = role_of(command)
            use = self.uses.get(pid)
            if use is None or use.role != role:  # it has now executed its program
                use = self.uses[pid] = Use(role)
                self._first[pid] = now
            size = pages * os.sysconf("SC_PAGE_SIZE") // 1024
            use.samples.append((now - self._first[pid], size))
            use.descriptors = max(use.descriptors, descriptors)
            use.threads = max(use.threads, threads)

    def judge(self) -> list[str]:
        """The problems of all of them."""
        return [each for use in self.uses.values() for each in use.judge()]

    def summary(self) -> dict[str, tuple[int, int, int, int]]:
        """By role: processes, and the most KiB, descriptors and threads of one."""
        found: dict[str, tuple[int, int, int, int]] = {}
        for use in self.uses.values():
            count, size, descriptors, threads = found.get(use.role, (0, 0, 0, 0))
            most = max((size, *(kib for _, kib in use.samples)))
            found[use.role] = (
                count + 1,
                most,
                max(descriptors, use.descriptors),
                max(threads, use.threads),
            )
        return found


def role_of(command: str) -> str:
    """The role of a process, by its command line."""
    if found := _MODULE.search(command):
        _, module, first = found.groups()
        if module == "endurance_lane":
            return f"lane {first}"
        return str(module)
    return Path(command.split(" ", 1)[0]).name


def _below(root: int) -> Iterator[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:  # the list grows during the iteration
        found += [child for child, parent in parents.items() if parent == pid]
    yield from found[1:]


def repeated(lines: Iterable[str]) -> list[str]:
    """The messages that a process has logged too often within a minute.

    Args:
        lines: Of its output; those without a time of day do not count.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if found := _STAMP.match(line):
            minute, message = found.groups()
            counts[minute, _VARIES.sub("#", message)] += 1
    worst: dict[str, int] = {}
    for (_, message), count in counts.items():
        worst[message] = max(count, worst.get(message, 0))
    return [
        f"logged {count} times in a minute: {message[:200]}"
        for message, count in worst.items()
        if count > LINES_A_MINUTE
    ]
