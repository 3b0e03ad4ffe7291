"""Tracks whether a member's coordinator is known, and when the next lookup is due. Sans-IO."""

from __future__ import annotations

from aiokafka_lite._backoff import Backoff


class CoordinatorSearch:
    """The coordinator lookups of a member: one at a time, with a growing pause after failures.

    Args:
        backoff: Pause between attempts.
    """

    __slots__ = ("_backoff", "_failures", "known", "next_at", "searching")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures = 0
        self.known = False
        self.searching = False
        """True while a lookup is in progress."""
        self.next_at = 0.0
        """Loop time before which no lookup begins."""

    def begin(self, now: float) -> bool:
        """Begin a lookup if one is due; True if it began."""
        if self.known or self.searching or now < self.next_at:
            return False
        self.searching = True
        return True

    def on_found(self) -> None:
        """The coordinator was found."""
        self.known = True
        self.searching = False
        self._failures = 0

    def on_failed(self, now: float) -> None:
        """The lookup failed; the next one begins after a pause."""
        self.searching = False
        self._failures += 1
        self.next_at = now + self._backoff.delay(self._failures)

    def on_lost(self, now: float) -> None:
        """The coordinator is gone or was the wrong one."""
        if self.known:
            self.known = False
            self.next_at = now
