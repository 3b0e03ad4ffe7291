"""The time that brokers go by: the machine's, or one that a test moves by hand.

What follows the clock: log append times, sessions of group members, rebalances, transactions that
are left open, the expiry of offsets and producer ids, retention. What does not: a fetch's
`max_wait_ms` and the delays of faults, which a client outside waits for in its own time.
"""

import asyncio
import heapq
import itertools
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

__all__ = ["Clock", "SystemClock", "Timer", "VirtualClock"]

logger: Final = logging.getLogger(__name__)

FEW_TIMERS: Final = 100


class Timer(ABC):
    """A call that is due later."""

    @abstractmethod
    def cancel(self) -> None:
        """Let it never happen; nothing if it has, or was cancelled before."""


class Clock(ABC):
    """Tells the time, and calls back when some has passed.

    Attributes:
        failures: What callbacks raised where there was nobody to raise it to;
            `FakeCluster.failures` tells them.
    """

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    @abstractmethod
    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in `delay` seconds, in the cluster's own loop."""

    def begin(self) -> None:  # noqa: B027 (not every clock needs a loop)
        """The cluster starts, in the running loop."""

    @abstractmethod
    def close(self) -> None:
        """Cancel every timer: the cluster stops."""


class _SystemTimer(Timer):
    __slots__ = ("_callback", "_clock", "_delay", "_handle")

    def __init__(self, delay: float, callback: Callable[[], None], clock: "SystemClock") -> None:
        self._delay = delay
        self._callback = callback
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None
        clock.timers.add(self)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._handle is None:
            self._handle = loop.call_later(self._delay, self._run)

    def _run(self) -> None:
        self._clock.timers.discard(self)
        try:
            self._callback()
        except Exception as failure:
            logger.error("a timer of the embedded broker failed", exc_info=failure)
            self._clock.failures.append(failure)

    def cancel(self) -> None:
        self._clock.timers.discard(self)
        if self._handle is not None:
            self._handle.cancel()


class SystemClock(Clock):
    """The machine's own time; timers are those of the event loop that the cluster runs in.

    They wait for `begin`: who only looks at a cluster that does not run may set some, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers: set[_SystemTimer] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = _SystemTimer(delay, callback, self)
        if self._loop is not None:
            timer.begin(self._loop)
        return timer

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        for timer in self.timers:
            timer.begin(self._loop)

    def close(self) -> None:
        self._loop = None
        for timer in list(self.timers):
            timer.cancel()


class _VirtualTimer(Timer):
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock(Clock):
    """A time that stands still until it is advanced.

    Through `FakeCluster.advance` it is moved in the cluster's own loop, from any thread.

    Args:
        start_ms: Where it begins, in ms since the epoch; by default at the machine's time, which
            clients stamp their records with: Kafka refuses those that are an hour ahead of it
            (`message.timestamp.after.max.ms`).
    """

    def __init__(self, start_ms: int | None = None) -> None:
        super().__init__()
        if start_ms is None:
            start_ms = time.time_ns() // 1_000_000
        self._now = start_ms / 1000  # seconds since the epoch
        self._order = itertools.count()  # timers of one instant run in the order they were set
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._swept_at = FEW_TIMERS  # how many there may be before the cancelled ones go

    def now_ms(self) -> int:
        return round(self._now * 1000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = _VirtualTimer(callback)
        if len(self._timers) >= self._swept_at:
            # Each heartbeat leaves one, and nothing falls due while the time stands still.
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._swept_at = max(FEW_TIMERS, 2 * len(self._timers))
        heapq.heappush(self._timers, (self._now + max(delay, 0.0), next(self._order), timer))
        return timer

    def close(self) -> None:
        self._timers.clear()

    def advance(self, seconds: float) -> None:
        """Move on, and run what falls due on the way, each at its own instant.

        Raises:
            ValueError: Time does not run backwards.
        """
        if seconds < 0:
            raise ValueError(f"advance({seconds}): time does not run backwards")
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self._now = until
