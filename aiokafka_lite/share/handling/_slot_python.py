"""The pure-Python twin of the slots of `run`: the specification, and the build without a
compiler."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from math import inf
from types import CoroutineType
from typing import Any, Final, Generic, TypeVar

from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.share.handling.work import Work

__all__ = ["LOOK_EVERY", "Slot", "Tally", "awaiting"]

LOOK_EVERY: Final = 32
"""Records between two reads of the clock."""

_W = TypeVar("_W", bound=Work)


class Tally:
    """Counts the records of a run that are acquired, but neither acknowledged nor lost.

    Args:
        on_enough: Called once `outstanding` is so low that the waiting task continues.

    Attributes:
        outstanding: Their number.
        enough: The number at which the wait is over; -1 if no task waits. `on_enough` changes it:
            otherwise each further record would call it again.
    """

    __slots__ = ("_on_enough", "enough", "outstanding")

    def __init__(self, on_enough: Callable[[], object]) -> None:
        self.outstanding = 0
        self.enough = -1
        self._on_enough = on_enough

    def done(self) -> None:
        """A record is no longer outstanding."""
        self.outstanding = outstanding = self.outstanding - 1
        if outstanding <= self.enough:
            self._on_enough()


class Slot(Generic[_W]):
    """One handler at a time, in a long-lived task.

    Args:
        queue: The records to be handled, shared by all slots.
        handler: Called with each record.
        tally: The tally of the run.
        clock: Returns seconds.

    Attributes:
        task: Runs the handlers.
        record: The record in its handler; None between two.
        waiter: What an idle slot awaits.
        lost: Why the lock of `record` is lost; its handler was cancelled.
        misfit: True once the handler turned out not to be a coroutine function of one record.
    """

    __slots__ = (
        "_clock",
        "_handler",
        "_queue",
        "_tally",
        "lost",
        "misfit",
        "record",
        "task",
        "waiter",
    )

    def __init__(
        self,
        queue: deque[_W],
        handler: Callable[[_W], Awaitable[object]],
        tally: Tally,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._handler = handler
        self._tally = tally
        self.task: asyncio.Task[None] | None = None
        self.record: _W | None = None
        self.waiter: Waiter | None = None
        self.lost: str | None = None
        self.misfit = False

    async def handle(self, most: int, within: float = inf) -> None:
        """Handle records of the queue, and accept each whose handler returns.

        It stops early, with `record` set, after a handler whose lock is lost.

        Args:
            most: Maximum records.
            within: Seconds after which no further record is started; the clock is read once in
                `LOOK_EVERY` records.

        Raises:
            BaseException: Any exception of a handler, including a cancellation; `record` is its
            record.
        """
        queue, tally = self._queue, self._tally
        until, unlooked = self._clock() + within, LOOK_EVERY
        while most > 0 and queue:
            most -= 1
            unlooked -= 1
            if unlooked < 0:
                if self._clock() >= until:
                    return
                unlooked = LOOK_EVERY - 1
            self.record = record = queue.popleft()
            await self._begin(record)
            if self.lost is not None:
                return
            record._accept_undecided()
            tally.done()

    def _begin(self, record: _W) -> Awaitable[object]:
        awaitable: Any
        try:
            awaitable = self._handler(record)
        except TypeError as error:
            trace = error.__traceback__
            self.misfit = trace is None or trace.tb_next is None  # it was raised by the call
            raise
        if type(awaitable) is not CoroutineType and not isawaitable(awaitable):
            self.misfit = True
            raise TypeError(_not_awaitable(awaitable))
        began: Awaitable[object] = awaitable
        return began

    def take_back(self) -> None:
        """Undo the cancellation of the task, which continues."""
        task = self.task
        while task is not None and task.cancelling():
            task.uncancel()


def _not_awaitable(value: object) -> str:
    return f"it returned {value!r}, which cannot be awaited"


def awaiting(value: Any) -> Any:
    """Return the iterator that `await value` sends to, for a `value` that is not a coroutine.

    Raises:
        LookupError: The value cannot be awaited.
    """
    if not isawaitable(value):
        raise LookupError(_not_awaitable(value))
    make = getattr(type(value), "__await__", None)
    return value if make is None else make(value)  # a generator of `types.coroutine` has none
