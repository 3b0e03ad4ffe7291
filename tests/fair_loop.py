"""An event loop whose clock stands still while the machine runs other processes.

A test waits for its condition by a deadline, and a group's session ends by a timer: on a busy
machine, both expire while the client is ready to run but does not get the processor. The result of
a test must not depend on other processes, so the seconds for which this thread was runnable without
a processor do not count. Linux reports them to the nanosecond; elsewhere, the clock is the ordinary
one.

The time for which the test itself waits, for a socket, a timer or another thread, counts as usual.
"""

import asyncio
import os
from pathlib import Path

from tests.jumping_loop import JUMPS, JumpingLoop

KEPT_WAITING = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a processor, nanoseconds ready without one, and turns."""

BLIND = 0.001
"""Seconds between two reads of it: other processes rarely run for less, and a read costs time."""


class FairLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, with a clock of the time during which its thread could have run."""

    def __init__(self) -> None:
        self._file = os.open(KEPT_WAITING, os.O_RDONLY)
        self._look_at = 0.0
        self._kept_waiting = 0.0
        self._latest = 0.0
        super().__init__()

    def time(self) -> float:
        """Seconds; it never goes back, although the time to omit is detected late."""
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
    """A fair loop if the machine reports the times, else an ordinary one.

    With a seed in the environment's `JUMPS`, a `JumpingLoop`.
    """
    if JUMPS in os.environ:
        return JumpingLoop()
    return FairLoop() if KEPT_WAITING.exists() else asyncio.new_event_loop()
