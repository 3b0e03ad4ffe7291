"""Spreads a burst of work over iterations of the event loop.

When the leaders of many partitions move, or when a consumer of many brokers starts, hundreds of
responses arrive in one iteration of the event loop. Processed at once, they would block every other
task of the application. So each iteration processes responses for `BUDGET` seconds, and leaves the
rest to the following ones, in the order of arrival. To the rest of the client, they arrive later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

BUDGET: Final = 0.003
"""Seconds of work in one iteration. The last item that begins in it may exceed them."""


class LoopBudget:
    """Limits the time that one consumer's bursts take in an iteration of the event loop.

    There is no event at the beginning of an iteration, and a callback per response would cost an
    idle consumer more than the response. So the time of several iterations is added up, until it
    comes to half of the budget: from there on, the next iteration begins a new count.

    Args:
        loop: The event loop.
        clock: Returns seconds; only differences count.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._spent = 0.0  # since `_next`, in this iteration and perhaps earlier ones
        self._scheduled = False  # True if `_next` runs in the next iteration
        self._waiting: deque[Callable[[], None]] = deque()

    def is_used_up(self) -> bool:
        """True if work passed to `run` now would wait."""
        return bool(self._waiting) or self._spent >= BUDGET

    def run(self, work: Callable[[], None]) -> None:
        """Run `work` now, or in a later iteration if time has run out or other work waits.

        Work runs in the order of the calls.

        Args:
            work: Must not raise.
        """
        if self.is_used_up():
            self._waiting.append(work)
        else:
            self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        begin = self._clock()
        work()
        self._spent += self._clock() - begin
        if self._spent >= BUDGET / 2 and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Begin an iteration."""
        self._scheduled = False
        self._spent = 0.0
        while self._waiting and self._spent < BUDGET:
            self._run(self._waiting.popleft())
