"""The journal of a process whose members share a topic: entries of 32 bytes in a mapped file.

Millions of records are handled one by one, so a system call for each would measure the journal.
A store into a shared mapping is in the kernel's page cache at once, and survives SIGKILL. Rare
events are written as text, to the journal of `consumer_journal`.
"""

import mmap
import os
import struct
import time
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["Deed", "Entry", "ShareJournal", "read_entries"]

ROOM = 1 << 30  # bytes; the file is sparse
_ENTRY = struct.Struct("<qqqiHBB")  # the deed comes last: an entry without it was not completed


class Deed(IntEnum):
    """An action of a member on records, or an event reported to it."""

    ALIVE = 1  # the process runs; no records
    GIVEN = 2  # the application has the records
    ACCEPTING = 3  # it is about to mark them as accepted
    RELEASING = 4  # it releases them: their next delivery needs no other cause
    CONFIRMED = 5  # the broker has their acceptance
    REFUSED = 6  # it did not accept the acceptance: the locks were gone
    UNKNOWN = 7  # the acceptance has no answer
    LEAVING = 8  # this life of the member ends: it releases what it holds


class Entry(NamedTuple):
    """One line.

    Attributes:
        time: Nanoseconds of the machine's monotonic clock.
        first: The first offset.
        last: The last one.
        life: The member's number in its process, times 1,000, and which life of it this is.
        place: The index of the topic, times 1,000, and the partition.
        count: Minimum number of deliveries of the records.
        deed: What happened.
    """

    time: int
    first: int
    last: int
    life: int
    place: int
    count: int
    deed: Deed


class ShareJournal:
    """The file of one process.

    Args:
        path: Created if it does not exist; no other process writes to it.
    """

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(file, ROOM)
        self._map = mmap.mmap(file, ROOM)
        os.close(file)
        self._at = 0

    def tell(
        self, deed: Deed, life: int, place: int = 0, first: int = 0, last: int = 0, count: int = 0
    ) -> None:
        """Write one entry."""
        now = time.monotonic_ns()
        _ENTRY.pack_into(self._map, self._at, now, first, last, life, place, min(count, 255), deed)
        self._at += _ENTRY.size


def read_entries(path: Path) -> Iterator[Entry]:
    """All entries written so far."""
    deeds = {deed.value: deed for deed in Deed}
    with path.open("rb") as file:
        while chunk := file.read(_ENTRY.size * 4096):
            for found in _ENTRY.iter_unpack(chunk):
                if not found[-1]:
                    return
                yield Entry(*found[:-1], deeds[found[-1]])
