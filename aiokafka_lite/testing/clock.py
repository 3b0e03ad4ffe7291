"""The brokers' clock: the system clock, or one that a test advances.

The clock governs log append times, group member sessions, rebalances, transaction timeouts, the
expiry of offsets and producer ids, and retention. It does not govern a fetch's `max_wait_ms` or
the delays of faults, because the client waits for those in real time.
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
    """A scheduled call."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the call; does nothing if it has run or was cancelled before."""


class Clock(ABC):
    """Source of time and timers.

    Attributes:
        failures: Exceptions from callbacks without a caller to receive them;
            `FakeCluster.failures` reports them.
    """

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    @abstractmethod
    def now_ms(self) -> int:
        """Return the current time in milliseconds since the epoch."""

    @abstractmethod
    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` after `delay` seconds in the cluster's event loop."""

    def begin(self) -> None:  # noqa: B027 (not every clock needs a loop)
        """Start timers in the running loop; called when the cluster starts."""

    @abstractmethod
    def close(self) -> None:
        """Cancel every timer; called when the cluster stops."""


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
            logger.error("A timer of the embedded broker raised an exception", exc_info=failure)
            self._clock.failures.append(failure)

    def cancel(self) -> None:
        self._clock.timers.discard(self)
        if self._handle is not None:
            self._handle.cancel()


class SystemClock(Clock):
    """The system clock; its timers run in the cluster's event loop.

    Timers set before `begin` wait for it: inspecting a stopped cluster may set some.
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
    """A clock that stands still until it is advanced.

    `FakeCluster.advance` advances it in the cluster's loop and may be called from any thread.

    Args:
        start_ms: Initial time in ms since the epoch. The default is the system time, because
            clients timestamp their records with it and Kafka rejects records that are an hour
            ahead of the broker (`message.timestamp.after.max.ms`).
    """

    def __init__(self, start_ms: int | None = None) -> None:
        super().__init__()
        if start_ms is None:
            start_ms = time.time_ns() // 1_000_000
        self._now = start_ms / 1000  # seconds since the epoch
        self._order = itertools.count()  # timers due at the same time run in order of creation
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._swept_at = FEW_TIMERS  # sweep cancelled timers beyond this count

    def now_ms(self) -> int:
        return round(self._now * 1000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = _VirtualTimer(callback)
        if len(self._timers) >= self._swept_at:
            # Each heartbeat leaves a cancelled timer, and none falls due while time stands still.
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._swept_at = max(FEW_TIMERS, 2 * len(self._timers))
        heapq.heappush(self._timers, (self._now + max(delay, 0.0), next(self._order), timer))
        return timer

    def close(self) -> None:
        self._timers.clear()

    def advance(self, seconds: float) -> None:
        """Advance the time and run each timer that falls due at its own time.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"advance({seconds}): seconds must not be negative")
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self._now = until
