"""An event loop that skips the time in which nothing happens.

Where it would sleep until its next timer, its clock goes on to that timer instead. So a test passes
through hours of timeouts in moments, and what happens at which second does not depend on how busy
the machine is. Sockets work as ever, as long as both ends live in this loop; what another thread
does takes no time here at all.
"""

import asyncio
import selectors
from selectors import SelectorKey

__all__ = ["SkippingLoop"]

_ON_ITS_WAY = 0.0002
"""Real seconds for which the kernel may have bytes that one end has written and the other end
cannot read yet."""


class _Selector(selectors.DefaultSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(0) or super().select(_ON_ITS_WAY)
        if not events:
            self.skipped += timeout
        return events


class SkippingLoop(asyncio.SelectorEventLoop):
    """asyncio's own, with a clock that advances only while the loop would sleep."""

    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Seconds."""
        return 1000.0 + self._skipping.skipped
