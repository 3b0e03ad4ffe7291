"""Windows of time for numbers about what happened, of the last half minute to minute.

As Kafka's client metrics count: two windows of 30 seconds, the older one dropped when the newer is
over. What is counted in a window is its owner's business. Times are handed in (seconds of any
clock that does not run backwards); nothing here has a timer.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Recent"]

WINDOW: Final = 30.0  # seconds (metrics.sample.window.ms)

WindowT = TypeVar("WindowT")


class Recent(Generic[WindowT]):
    """The window of now and the one before it.

    Who counts often looks whether `over` has come before it calls `turn`: that spares the call.

    Args:
        make: A window with nothing in it.

    Attributes:
        new: What happens now is counted here.
        old: What happened in the half minute before; nothing, if nobody counted or looked then.
        over: When `new` is.
    """

    __slots__ = ("_began", "_make", "_old_time", "new", "old", "over")

    def __init__(self, make: Callable[[], WindowT]) -> None:
        self.new = make()
        self.old = make()
        self.over = -1.0
        self._make = make
        self._began = -1.0  # when `new` did; -1 before the first turn
        self._old_time = 0.0  # seconds that `old` covers

    def turn(self, now: float) -> None:
        """Begin a new window if the newer one is over."""
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
        """Seconds that both windows cover, for a rate: at least 1, lest it begins too high."""
        return max(now - self._began + self._old_time, 1.0)
