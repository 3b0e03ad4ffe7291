"""Decides how many records a run may acquire, and when.

Non-obvious:

- A run acquires only as many records as it needs to reach `concurrency`, so a failing dependency
  slows down the acquisition instead of accumulating locks.
- An acquisition waits until half of the slots are free, because a request costs as much as many
  records, but only briefly, so that a free slot does not wait long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiokafka_lite.share.handling.slot import Tally

__all__ = ["Room"]

COALESCE: Final = 0.005
"""Seconds that a free slot waits for others before records are acquired."""


class Room:
    """The room for the records of one run: queried by links, or awaited by a task.

    Args:
        loop: The event loop.
        concurrency: Maximum records that are outstanding.
        on_room: Called when `left` may return more than before.
        on_full: Called when all handlers are busy, so that the next acquisition must wait.

    Attributes:
        tally: Counts the outstanding records.
    """

    __slots__ = (
        "_awaited",
        "_coalesced",
        "_coalescing",
        "_few",
        "_limit",
        "_loop",
        "_on_full",
        "_on_room",
        "tally",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        concurrency: int,
        on_room: Callable[[], None],
        on_full: Callable[[], None],
    ) -> None:
        self.tally = Tally(self._wake)
        self._loop = loop
        self._limit = concurrency
        self._few = concurrency // 2  # outstanding records: half of the slots are free
        self._on_room = on_room
        self._on_full = on_full
        self._coalescing: asyncio.TimerHandle | None = None  # a free slot waits for others
        self._coalesced = False  # it has waited
        # The acquiring task waits for free slots; or the end, for the last handler.
        self._awaited: asyncio.Future[None] | None = None

    def left(self) -> int:
        """Return how many records may be acquired: none until half of the slots are free, or a
        moment has passed since the first one was. Then `on_room` is called."""
        limit, tally = self._limit, self.tally
        outstanding = tally.outstanding
        if outstanding >= limit:
            tally.enough = limit - 1
            return 0
        if outstanding > self._few and not self._coalesced:
            tally.enough = self._few
            if self._coalescing is None:
                self._coalescing = self._loop.call_later(COALESCE, self._on_coalesced)
            return 0
        return limit - outstanding

    def fits(self, count: int) -> bool:
        """True if this many more records may be outstanding."""
        return self.tally.outstanding + count <= self._limit

    def on_acquired(self, count: int) -> None:
        """This many records were acquired."""
        self.tally.outstanding += count
        self._coalesced = False
        self.close()

    async def wait(self) -> int:
        """Wait until at most half of the slots are busy, or briefly after the first one is free;
        return how many records may be acquired."""
        limit, few, tally = self._limit, self._few, self.tally
        if tally.outstanding >= limit:
            self._on_full()
            await self.at_most(limit - 1)
        if tally.outstanding > few:
            timer = self._loop.call_later(COALESCE, self._wake)
            try:
                await self.at_most(few)
            finally:
                timer.cancel()
        return limit - tally.outstanding

    async def at_most(self, outstanding: int) -> None:
        """Wait until at most this many records are outstanding. The wait may end early."""
        awaited = self._awaited = self._loop.create_future()
        self.tally.enough = outstanding
        try:
            await awaited
        finally:
            if self._awaited is awaited:  # the end of the run may already wait
                self._awaited, self.tally.enough = None, -1

    def close(self) -> None:
        """Stop setting timers."""
        if self._coalescing is not None:
            self._coalescing.cancel()
            self._coalescing = None

    def _on_coalesced(self) -> None:
        self._coalescing, self._coalesced = None, True
        self._wake()

    def _wake(self) -> None:
        """Wake the task that waits for outstanding records, or make the links check `left`."""
        self.tally.enough = -1  # otherwise each further record would call this again
        self._on_room()
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
