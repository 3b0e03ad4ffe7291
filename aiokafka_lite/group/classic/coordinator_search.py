"""Tracks whether a member knows its coordinator, and when it looks for it next. Sans-IO."""

from __future__ import annotations

from aiokafka_lite._backoff import Backoff


class CoordinatorSearch:
    """The search for a coordinator; one at a time, with growing pauses between failures.

    Args:
        backoff: Between attempts.
    """

    __slots__ = ("_backoff", "_failures", "known", "next_at", "searching")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures = 0
        self.known = False
        self.searching = False
        """A search is under way: its outcome is to come."""
        self.next_at = 0.0
        """Loop time before which no search begins."""

    def begin(self, now: float) -> bool:
        """Whether to search now; then it is under way."""
        if self.known or self.searching or now < self.next_at:
            return False
        self.searching = True
        return True

    def on_found(self) -> None:
        """It is known."""
        self.known = True
        self.searching = False
        self._failures = 0

    def on_failed(self, now: float) -> None:
        """The search came to nothing; the next one begins after a pause."""
        self.searching = False
        self._failures += 1
        self.next_at = now + self._backoff.delay(self._failures)

    def on_lost(self, now: float) -> None:
        """It is not there any more, or never was the right one."""
        if self.known:
            self.known = False
            self.next_at = now
