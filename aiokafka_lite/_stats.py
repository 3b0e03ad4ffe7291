"""Numbers about what happened: averages and rates over the last half minute to minute.

As Kafka's client metrics count: two windows of 30 seconds, the older one dropped when the newer is
over. Times are handed in (seconds of any clock that does not run backwards); nothing here has a
timer, and recording costs a few additions.
"""

from typing import Final

__all__ = ["Windowed"]

WINDOW: Final = 30.0  # seconds (metrics.sample.window.ms)


class Windowed:
    """Values that came lately: how many, how much, how large; and all that ever came.

    Attributes:
        count: How many values ever came.
        total: Their sum.
    """

    __slots__ = ("_began", "_new", "_old", "_over", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._began = -1.0  # of the newer window; -1 before the first value
        self._over = -1.0  # when the newer window is
        self._new = [0, 0.0, 0.0]  # count, sum, largest
        self._old = [0, 0.0, 0.0]

    def record(self, value: float, now: float) -> None:
        """A value, 0 or more, came."""
        self.record_many(1, value, value, now)

    def record_many(self, count: int, total: float, largest: float, now: float) -> None:
        """Several values came at once."""
        if now >= self._over:
            self._turn(now)
        self.count += count
        self.total += total
        window = self._new
        window[0] += count
        window[1] += total
        if largest > window[2]:
            window[2] = largest

    def average(self, now: float) -> float:
        """Of the values that came lately; nan without any."""
        self._turn(now)
        count = self._new[0] + self._old[0]
        return (self._new[1] + self._old[1]) / count if count else float("nan")

    def maximum(self, now: float) -> float:
        """Of the values that came lately; nan without any."""
        self._turn(now)
        return max(self._new[2], self._old[2]) if self._new[0] + self._old[0] else float("nan")

    def rate(self, now: float) -> float:
        """Sum of what came lately, a second."""
        return self._per_second(1, now)

    def count_rate(self, now: float) -> float:
        """How many values came lately, a second."""
        return self._per_second(0, now)

    def _per_second(self, what: int, now: float) -> float:
        self._turn(now)
        elapsed = now - self._began + (WINDOW if self._old[0] else 0.0)
        return (self._new[what] + self._old[what]) / max(elapsed, 1.0)

    def _turn(self, now: float) -> None:
        """Begin a new window if the newer one is over."""
        if self._began < 0:
            self._began = now
        elif now - self._began >= WINDOW:
            fresh = now - self._began < 2 * WINDOW
            self._old = self._new if fresh else [0, 0.0, 0.0]
            self._new = [0, 0.0, 0.0]
            self._began += (now - self._began) // WINDOW * WINDOW
        self._over = self._began + WINDOW
