"""One timer for all instants at which something has to be looked at.

It is armed for the earliest that it has heard of. Whoever is called then looks at everything and
arms it again; so what is over before its instant costs nothing, not even a cancelled timer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

NEVER: Final = float("inf")


class Alarm:
    """The timer of one connection.

    Args:
        loop: Its event loop.
        on_due: Called when an instant has come that was armed for.

    Attributes:
        at: Loop time at which it goes off; infinite while it is not armed.
    """

    __slots__ = ("_loop", "_on_due", "_over", "_timer", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self.at = NEVER
        self._loop = loop
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def arm(self, at: float) -> None:
        """Go off no later than `at`."""
        if self._over or at >= self.at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.at = at
        self._timer = self._loop.call_at(at, self._go_off)

    def cancel(self) -> None:
        """Never go off again."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self.at = NEVER
        self._on_due()
