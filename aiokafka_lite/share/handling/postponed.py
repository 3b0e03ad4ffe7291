"""Delays the release of records, so that a failing record is not redelivered at once.

The protocol has no delay: a released record is available at once, so a record that keeps failing
would reach the group's delivery limit within milliseconds. So the member keeps the lock for the
delay, and releases the record afterwards.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["Postponed"]

_T = TypeVar("_T")


class Postponed(Generic[_T]):
    """A heap of records by the time of their release, with one timer.

    Args:
        release: Called with each record at its time.
    """

    __slots__ = ("_count", "_fires_at", "_heap", "_loop", "_release", "_timer")

    def __init__(self, release: Callable[[_T], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._release = release
        self._heap: list[tuple[float, int, _T]] = []
        self._count = 0  # breaks ties: records cannot be ordered
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0  # not `_timer.when()`: uvloop's handle of a past time has none

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[_T]:
        return (record for _, _, record in self._heap)

    def add(self, record: _T, due: float) -> None:
        """Release the record at a time of the loop's clock."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, record))
        self._set_timer()

    def take_all(self) -> list[_T]:
        """Remove and return all records, the earliest first; none is released."""
        records = [record for _, _, record in sorted(self._heap)]
        self._heap.clear()
        self._set_timer()
        return records

    def remove(self, record: _T) -> bool:
        """Drop a record; False if it is not here."""
        left = [entry for entry in self._heap if entry[2] is not record]
        found = len(left) < len(self._heap)
        if found:
            self._heap = left
            heapq.heapify(left)
            self._set_timer()
        return found

    def _set_timer(self) -> None:
        timer, due = self._timer, self._heap[0][0] if self._heap else None
        if timer is not None:
            if self._fires_at == due:
                return
            timer.cancel()
            self._timer = None
        if due is not None:
            self._fires_at = due
            self._timer = self._loop.call_at(due, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            self._release(heapq.heappop(self._heap)[2])
        self._set_timer()
