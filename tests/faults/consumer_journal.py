"""The journal of the members of a chaos run, one file per process.

Each event is a line, written by one system call before anything else happens, so that a killed
process has recorded everything that it did. Times are those of the machine's monotonic clock, which
all processes share.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Event", "Journal", "Place", "Spread", "Verb", "follow", "read"]

AT_ONCE = 1 << 22  # bytes

Place = tuple[str, int]
"""Topic and partition: either client's TopicPartition is one."""
Spread = dict[Place, tuple[int, int]]
"""Partition to the first and the last offset of something, or an offset and the next."""


class Verb(StrEnum):
    """An event of a member."""

    STARTING = "starting"  # `spread` is empty; `number` is the count of the member's lives
    STARTED = "started"
    ASSIGNED = "assigned"  # the new partitions; HOLDS follows with those that it holds
    HOLDS = "holds"  # all its partitions; `number` is its generation
    REVOKING = "revoking"  # the revoked partitions, while the listener is called
    LOST = "lost"  # the lost partitions
    GIVEN = "given"  # partition: first and last offset handed out
    COMMITTED = "committed"  # partition: the offset that the group has acknowledged, twice
    REFUSED = "refused"  # a commit; `text` is the error
    ERROR = "error"  # a read raised a KafkaError; `text` is the error
    ACT = "act"  # `text`: something it does to its group by itself
    STOPPING = "stopping"
    STOPPED = "stopped"  # `number`: milliseconds that took
    MISTAKE = "mistake"  # a violation; `text` describes it


class Event(NamedTuple):
    """One line.

    Attributes:
        time: Nanoseconds.
        member: Its name and, after a slash, which life of it this is.
    """

    time: int
    member: str
    verb: Verb
    spread: Spread
    number: int
    text: str

    def __str__(self) -> str:
        where = " ".join(f"{t}-{p}:{a}..{b}" for (t, p), (a, b) in sorted(self.spread.items()))
        told = f"{self.time / 1e9:.3f} {self.member} {self.verb} {where} {self.number} {self.text}"
        return told[:300]


class Journal:
    """The file of one process.

    Args:
        path: Created, or appended to.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(
        self,
        member: str,
        verb: Verb,
        spread: Mapping[Any, tuple[int, int]] | Collection[Any] = (),
        number: int = 0,
        text: str = "",
    ) -> None:
        """Write one event; partitions that have no offsets here may be given alone."""
        pairs = spread.items() if isinstance(spread, Mapping) else ((tp, (0, 0)) for tp in spread)
        packed = ",".join(f"{t}:{p}:{a}:{b}" for (t, p), (a, b) in pairs)
        words = text.replace("\n", " ")
        line = f"{time.monotonic_ns()}\t{member}\t{verb}\t{packed}\t{number}\t{words}\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        os.close(self._file)


def follow(path: Path) -> Iterator[list[Event]]:
    """Endless: each time some of the lines written since, complete ones only; empty at the end."""
    while not path.exists():
        yield []
    rest = b""
    with path.open("rb") as file:
        while True:
            *lines, rest = (rest + file.read(AT_ONCE)).split(b"\n")
            yield [_parse(line.decode()) for line in lines]


def read(path: Path) -> Iterator[Event]:
    """All events written so far."""
    journal = follow(path)
    while events := next(journal):
        yield from events


def _parse(line: str) -> Event:
    stamp, member, verb, packed, number, text = line.split("\t", 5)
    spread: Spread = {}
    for each in packed.split(",") if packed else ():
        topic, partition, first, last = each.split(":")
        spread[topic, int(partition)] = int(first), int(last)
    return Event(int(stamp), member, Verb(verb), spread, int(number), text)
