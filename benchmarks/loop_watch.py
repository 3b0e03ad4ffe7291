"""Measures how long an event loop is blocked, that is, does not run its timers."""

from __future__ import annotations

import asyncio
import gc
import time

TICK = 0.001  # seconds


class Watch:
    """Ticks, and records how long ticks were delayed.

    Attributes:
        blocked: Maximum CPU seconds of the loop's thread between two ticks.
        without_gc: The same, without the time of Python's garbage collector.
        late: Maximum delay of a tick, in seconds.
    """

    def __init__(self) -> None:
        self.blocked = 0.0
        self.without_gc = 0.0
        self.late = 0.0
        self._collecting = 0.0  # seconds of collections since the last tick
        self._began = 0.0  # start of the collection in progress
        gc.callbacks.append(self._on_collection)
        self._loop = asyncio.get_running_loop()
        self._cpu = time.thread_time()
        self._due = self._loop.time()
        self._tick()

    def _tick(self) -> None:
        cpu, now = time.thread_time(), self._loop.time()
        self.blocked = max(self.blocked, cpu - self._cpu)
        self.without_gc = max(self.without_gc, cpu - self._cpu - self._collecting)
        self._collecting = 0.0
        self.late = max(self.late, now - self._due)
        self._cpu = cpu
        self._due = now + TICK
        self._timer = self._loop.call_later(TICK, self._tick)

    def reset(self) -> None:
        """Reset the maxima."""
        self.blocked = self.without_gc = self.late = 0.0
        self._collecting = 0.0
        self._cpu = time.thread_time()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._began

    def stop(self) -> None:
        """Stop ticking."""
        self._timer.cancel()
        gc.callbacks.remove(self._on_collection)
