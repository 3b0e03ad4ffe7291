"""Measures for how long an event loop does not come back to its timers."""

from __future__ import annotations

import asyncio
import time

TICK = 0.001  # seconds


class Watch:
    """Ticks, and remembers by how much ticks were kept waiting.

    Attributes:
        blocked: Most CPU seconds of the loop's thread between two ticks.
        late: Most seconds by which a tick came late.
    """

    def __init__(self) -> None:
        self.blocked = 0.0
        self.late = 0.0
        self._loop = asyncio.get_running_loop()
        self._cpu = time.thread_time()
        self._due = self._loop.time()
        self._tick()

    def _tick(self) -> None:
        cpu, now = time.thread_time(), self._loop.time()
        self.blocked = max(self.blocked, cpu - self._cpu)
        self.late = max(self.late, now - self._due)
        self._cpu = cpu
        self._due = now + TICK
        self._timer = self._loop.call_later(TICK, self._tick)

    def reset(self) -> None:
        """Begin again."""
        self.blocked = self.late = 0.0
        self._cpu = time.thread_time()

    def stop(self) -> None:
        """Tick no more."""
        self._timer.cancel()
