"""Spreads requests to many brokers over time, so that their responses do not arrive together.

Otherwise, a consumer of 1,000 brokers would connect to all of them in one iteration of the event
loop, and process all of their responses in a few more. With few brokers, no request waits.
"""

from __future__ import annotations

from typing import Final

STEP: Final = 0.001
"""Seconds between two requests; about the CPU time of connecting, or of sending a request for 100
partitions and processing its response."""

AT_ONCE: Final = 16
"""Number of requests that do not wait, after a pause."""


class Pace:
    """Lets `AT_ONCE` requests pass, and then one every `STEP` seconds. Sans-IO."""

    __slots__ = ("_free_at",)

    def __init__(self) -> None:
        # When the last request passed, or would have passed without the burst.
        self._free_at = float("-inf")

    def next_delay(self, now: float) -> float:
        """Return the seconds that the next request has to wait.

        Args:
            now: Monotonic seconds.
        """
        self._free_at = max(self._free_at + STEP, now - (AT_ONCE - 1) * STEP)
        return max(self._free_at - now, 0.0)
