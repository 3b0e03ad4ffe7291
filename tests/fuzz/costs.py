"""Limits on what hostile bytes may cost their reader: CPU time, and memory in proportion to their
size.

A peer that sends n bytes must not make the client work or allocate out of proportion: decoding
blocks the event loop, and a few frames with absurd counts could exhaust the process.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

__all__ = ["CPU_LIMIT", "SANITIZER_FACTOR", "Costs", "is_sanitized"]

CPU_LIMIT: Final = 0.010
"""Seconds of CPU time that reading one input may take: the time that the loop is blocked.

A sanitizer makes native code several times slower; `Costs` raises the limit accordingly.
"""

BYTES_PER_BYTE: Final = 200
"""Bytes of Python objects that one byte may become. The worst honest case is an array of structs
whose fields are all absent: one byte each, which becomes an object with its fields."""

FIXED_BYTES: Final = 32 * 1024
"""Bytes that any input may allocate: the first use of a class or codec fills its caches."""

SANITIZER_FACTOR: Final = 10
"""How much slower a sanitizer may make the code."""

_REPEATS: Final = 5
_SAMPLED: Final = 16  # every 16th input is read under tracemalloc, which is slow


class Costs:
    """Checks the cost of each read, and remembers the worst.

    Args:
        sanitized: True if the native modules run under a sanitizer.

    Attributes:
        slowest: CPU seconds of the slowest read.
        fattest: Highest number of bytes allocated per byte read, beyond `FIXED_BYTES`.
    """

    def __init__(self, sanitized: bool = False) -> None:
        self.slowest = 0.0
        self.fattest = 0.0
        self._limit = CPU_LIMIT * (SANITIZER_FACTOR if sanitized else 1)
        self._number = 0

    def check(self, size: int, read: Callable[[], Any]) -> Any:
        """Read once, and return the result; read again if the measurement needs it.

        Args:
            size: Bytes of the input.
            read: Reads it; must have no effects.

        Raises:
            AssertionError: It takes too long each time, or allocates too much.
        """
        began = time.thread_time()
        result = read()
        took = time.thread_time() - began
        for _ in range(_REPEATS if took > self._limit else 0):  # a cache may have been cold
            began = time.thread_time()
            read()
            took = min(took, time.thread_time() - began)
        assert took <= self._limit, f"{size} bytes took {took * 1000:.1f} ms to read"
        self.slowest = max(self.slowest, took)
        self._number += 1
        if self._number % _SAMPLED == 0:
            self._check_memory(size, read)
        return result

    def _check_memory(self, size: int, read: Callable[[], Any]) -> None:
        tracemalloc.start()
        try:
            result = read()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        del result
        allowed = FIXED_BYTES + BYTES_PER_BYTE * size
        assert peak <= allowed, f"{size} bytes allocated {peak}; {allowed} are allowed"
        if size:
            self.fattest = max(self.fattest, (peak - FIXED_BYTES) / size)

    def __str__(self) -> str:
        slowest, fattest = self.slowest * 1000, max(0.0, self.fattest)
        return (
            f"slowest {slowest:.2f} ms of CPU, "
            f"most memory {fattest:.0f} bytes per byte beyond {FIXED_BYTES >> 10} KiB"
        )


def is_sanitized() -> bool:
    """True if this process runs under AddressSanitizer."""
    if not sys.platform.startswith("linux"):
        return False
    with open("/proc/self/maps") as maps:
        return any("libasan" in line for line in maps)
