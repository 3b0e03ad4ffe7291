"""One timer for all deadlines of a connection.

It is armed for the earliest deadline. Its callback checks all deadlines and arms it again. So a
request that completes before its deadline costs nothing, not even a cancelled timer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

NEVER: Final = float("inf")


class Alarm:
    """The timer of one connection.

    Args:
        loop: Its event loop.
        on_due: Called when the armed deadline passes.

    Attributes:
        at: Loop time at which it fires; infinite while it is not armed.
    """

    __slots__ = ("_loop", "_on_due", "_over", "_timer", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self.at = NEVER
        self._loop = loop
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def arm(self, at: float) -> None:
        """Fire no later than `at`."""
        if self._over or at >= self.at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.at = at
        self._timer = self._loop.call_at(at, self._go_off)

    def cancel(self) -> None:
        """Disarm for good."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self.at = NEVER
        self._on_due()
