"""An event loop that skips idle time.

Instead of sleeping until its next timer, its clock advances to that timer. So a test passes through
hours of timeouts in moments, and the second at which something happens does not depend on how busy
the machine is. Sockets work as usual if both ends are in this loop. The work of another thread
takes no time here.
"""

import asyncio
import math
import selectors
import threading
from collections.abc import Callable
from contextvars import Context
from selectors import SelectorKey
from typing import Any

__all__ = ["SkippingLoop"]

LOOPBACK_DELAY = 0.0002
"""Real seconds that the kernel may need to deliver what one end of a TCP connection has written."""

_Events = list[tuple[SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    def __init__(self, delay: float) -> None:
        super().__init__()
        self.now = 1000.0
        self.latency = 0.0
        self.intruded = False
        self._delay = delay
        self._due: dict[int, float] = {}  # when a socket's delivery arrives, by descriptor

    def select(self, timeout: float | None = None) -> _Events:
        if self.intruded and not self._delay:
            raise AssertionError("another thread did some work, which the clock has skipped")
        arrived = self._arrived(super().select(0))
        if arrived or (timeout is not None and timeout <= 0):
            return arrived
        if self._delay:
            arrived = self._arrived(super().select(self._delay))
        if arrived:
            return arrived
        waits = [due - self.now for due in self._due.values()]
        if timeout is not None:
            waits.append(timeout)
        if waits:
            self.now += min(waits)
            return []
        if not self._delay:
            raise AssertionError("the event loop waits forever: no timer is set")
        return super().select(None)  # another thread may wake it

    def _arrived(self, events: _Events) -> _Events:
        """Return the events whose latency has passed."""
        if not self.latency and not self._due:
            return events
        for key, _ in events:
            self._due.setdefault(key.fd, self.now + self.latency)
        arrived = [(key, mask) for key, mask in events if self._due[key.fd] <= self.now]
        held = {key.fd for key, _ in events} - {key.fd for key, _ in arrived}
        self._due = {fd: due for fd, due in self._due.items() if fd in held}
        return arrived


class SkippingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with a clock that advances only while the loop would sleep.

    Args:
        delay: Real seconds to wait for a delivery before time is skipped. With `local_sockets` it
            is 0: the loop then depends on nothing outside its thread. A loop that has nothing to
            wait for fails, and so does one that another thread calls.
    """

    def __init__(self, delay: float = LOOPBACK_DELAY) -> None:
        self._skipping = _Selector(delay)
        self._owner = threading.get_ident()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Seconds."""
        return self._skipping.now

    @property
    def _clock_resolution(self) -> float:
        """asyncio runs timers that are due within this many seconds; its usual value is 1 ns.

        Code whose timer fires early sets it again. Here that would repeat forever: the clock stands
        still while the loop has work.
        """
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """Ignore the resolution of the system's clock."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the loop, as asyncio does; see `delay`."""
        if threading.get_ident() != self._owner:
            self._skipping.intruded = True
        return super().call_soon_threadsafe(callback, *arguments, context=context)

    def set_latency(self, seconds: float) -> None:
        """Let every delivery on a socket take this many seconds of the loop's time."""
        self._skipping.latency = seconds
