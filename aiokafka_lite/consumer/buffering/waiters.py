"""Reads that wait for records: calls of getone(), getmany() and `async for`.

A waiter is woken when records that it may want have arrived, and then takes them itself. Records
are not passed to waiters, so a waiter can be cancelled at any moment without losing any.

Non-obvious: a waiting task is woken within the call that received a record (`Waiters.wake_now`).
The next iteration of the event loop would take longer than everything else between a single
record's arrival and its delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from aiokafka_lite._stats import Recent
from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.structs import TopicPartition


class Waiters:
    """The waiters of one consumer. True while there are any.

    Args:
        on_wait: Called when a read begins to wait.
    """

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._idle = Recent(_Idle)
        self._idle_since = 0.0  # loop time since when a read waits, if one does
        self._waiters: dict[_Waiter, Collection[TopicPartition]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def awaited(self) -> Iterable[Collection[TopicPartition]]:
        """The partitions that each waiter wants; empty for all."""
        return self._waiters.values()

    def wake(self) -> None:
        """Wake all waiters in the next iteration of the event loop. Callable from anywhere."""
        for waiter in self._waiters:
            waiter.wake()

    def wake_now(self) -> None:
        """Run all waiters until they await again, before this returns. Call it from an event loop
        callback whose state is consistent. (Not from a task: only one task runs at a time.)
        """
        for waiter in list(self._waiters):
            waiter.wake_now()

    def _on_idle(self, now: float) -> None:
        """Count the time since `_idle_since`, in which a read waited."""
        self._idle.turn(now)
        self._idle.new.seconds += now - self._idle_since
        self._idle_since = now

    def idle_ratio(self, now: float) -> float:
        """Return the part of the last 30 to 60 seconds in which a read waited for records.

        Args:
            now: In loop time.
        """
        if self._waiters:
            self._on_idle(now)
        idle = self._idle
        idle.turn(now)
        return min((idle.new.seconds + idle.old.seconds) / idle.elapsed(now), 1.0)

    async def wait(self, among: Collection[TopicPartition], deadline: float | None) -> bool:
        """Wait to be woken.

        Args:
            among: The partitions wanted; empty for all.
            deadline: In loop time, or None.

        Returns:
            False if the deadline passed first.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop)
        timer = None
        if deadline is not None:
            timer = loop.call_at(deadline, waiter.expire)
        if not self._waiters:
            self._idle_since = now = loop.time()
            if now >= self._idle.over:
                self._idle.turn(now)
        self._waiters[waiter] = among
        try:
            self._on_wait()
            await waiter
        finally:
            del self._waiters[waiter]
            if not self._waiters:
                self._on_idle(loop.time())
            if timer is not None:
                timer.cancel()
        return not waiter.expired


class _Idle:
    """The time in which a read waited, in one time window."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class _Waiter(Waiter):
    """What a waiting read awaits.

    Attributes:
        expired: True if the timeout passed before it was woken.
    """

    __slots__ = ("expired",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.expired = False

    def expire(self) -> None:
        """The timeout has passed."""
        if not self._done:
            self.expired = True
            self.wake()
