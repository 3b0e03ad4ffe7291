"""Time windows for statistics over the last 30 to 60 seconds.

As in Kafka's client metrics, there are two windows of 30 seconds, and the older one is dropped when
the newer one ends. The owner decides what a window counts. The caller passes the time (seconds of
any monotonic clock); nothing here has a timer.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Recent"]

WINDOW: Final = 30.0  # seconds (metrics.sample.window.ms)

WindowT = TypeVar("WindowT")


class Recent(Generic[WindowT]):
    """The current window and the previous one.

    A caller that counts often compares the time with `over` first, to save a call of `turn`.

    Args:
        make: Returns an empty window.

    Attributes:
        new: The current window.
        old: The window of the 30 seconds before; empty if `turn` was not called in time.
        over: When `new` ends.
    """

    __slots__ = ("_began", "_make", "_old_time", "new", "old", "over")

    def __init__(self, make: Callable[[], WindowT]) -> None:
        self.new = make()
        self.old = make()
        self.over = -1.0
        self._make = make
        self._began = -1.0  # when `new` began; -1 before the first turn
        self._old_time = 0.0  # seconds that `old` covers

    def turn(self, now: float) -> None:
        """Begin a new window if the current one has ended."""
        if self._began < 0:
            self._began = now
        elif now >= self.over:
            fresh = now - self.over < WINDOW
            self.old = self.new if fresh else self._make()
            self._old_time = WINDOW if fresh else 0.0
            self.new = self._make()
            self._began += (now - self._began) // WINDOW * WINDOW
        self.over = self._began + WINDOW

    def elapsed(self, now: float) -> float:
        """Return the seconds that both windows cover, at least 1 to bound early rates."""
        return max(now - self._began + self._old_time, 1.0)
