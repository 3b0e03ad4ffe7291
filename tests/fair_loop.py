"""An event loop whose clock stands still while the machine runs others.

A test waits for its condition by a deadline, and a group's session ends by a timer: on a busy
machine both pass while the client, ready to run, is not let. What a test proves shall not hang on
its neighbours, so the seconds for which this thread had work and no processor do not count here.
Linux tells them to the nanosecond; where it does not, the clock is the ordinary one.

What the test itself waits for, a socket, a timer, another thread, counts as ever.
"""

import asyncio
import os
from pathlib import Path

from tests.jumping_loop import JUMPS, JumpingLoop

KEPT_WAITING = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a processor, nanoseconds ready without one, and turns."""

BLIND = 0.001
"""Seconds between two looks at it: a turn of others is rarely shorter, and a look has a price."""


class FairLoop(asyncio.SelectorEventLoop):
    """asyncio's own, by the time that the thread which makes it could have run."""

    def __init__(self) -> None:
        self._file = os.open(KEPT_WAITING, os.O_RDONLY)
        self._look_at = 0.0
        self._kept_waiting = 0.0
        self._latest = 0.0
        super().__init__()

    def time(self) -> float:
        """Seconds; it never goes back, though what it leaves out is learnt of later."""
        now = super().time()
        if now >= self._look_at:
            self._look_at = now + BLIND
            self._kept_waiting = int(os.pread(self._file, 64, 0).split()[1]) / 1e9
        self._latest = max(self._latest, now - self._kept_waiting)
        return self._latest

    def close(self) -> None:
        """Close the loop, as asyncio does."""
        if not self.is_closed():
            os.close(self._file)
        super().close()


def new_loop() -> asyncio.AbstractEventLoop:
    """A fair loop where the machine can tell, else an ordinary one.

    With a seed in the environment's `JUMPS`, a `JumpingLoop`.
    """
    if JUMPS in os.environ:
        return JumpingLoop()
    return FairLoop() if KEPT_WAITING.exists() else asyncio.new_event_loop()
