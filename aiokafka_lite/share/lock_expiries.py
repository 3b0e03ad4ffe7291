"""Tracks when the locks of acquisitions have certainly expired. Sans-IO."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from aiokafka_lite.share.acquisition import Acquisition

__all__ = ["LockExpiries"]

_SPARE: Final = 64
"""Number of discarded entries up to which dropping them is not worthwhile."""


class LockExpiries:
    """A heap of the times at which the locks of acquisitions have certainly expired.

    A renewal moves that time, and most acquisitions are discarded long before it. So an entry is
    corrected or dropped when it becomes the first one, and all discarded entries are dropped
    together once they are the majority.
    """

    __slots__ = ("_count", "_heap", "_members")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Acquisition]] = []
        self._members: set[Acquisition] = set()
        self._count = 0  # breaks ties: acquisitions have no order

    def __len__(self) -> int:
        """The number of entries, including discarded ones."""
        return len(self._heap)

    def add(self, acquisition: Acquisition) -> None:
        """Watch the locks of an acquisition."""
        self._members.add(acquisition)
        self._push(acquisition)

    def discard(self, acquisition: Acquisition) -> None:
        """Stop watching an acquisition; does nothing for one that is not watched."""
        self._members.discard(acquisition)
        if len(self._heap) > 2 * len(self._members) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[2] in self._members]
            heapify(self._heap)

    def next(self) -> float:
        """The time at which the first lock has expired; infinite without any."""
        heap = self._heap
        while heap:
            latest, _, acquisition = heap[0]
            if acquisition not in self._members:
                heappop(heap)
            elif acquisition.latest > latest:
                heappop(heap)
                self._push(acquisition)
            else:
                return latest
        return inf

    def take(self, now: float) -> list[Acquisition]:
        """Remove and return the acquisitions whose locks have expired."""
        taken = []
        while self.next() < now:
            acquisition = heappop(self._heap)[2]
            self._members.discard(acquisition)
            taken.append(acquisition)
        return taken

    def _push(self, acquisition: Acquisition) -> None:
        self._count += 1
        heappush(self._heap, (acquisition.latest, self._count, acquisition))
