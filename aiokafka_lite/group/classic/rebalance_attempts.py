"""A classic member's attempts to join the next generation: reason, time and failures. Sans-IO."""

from __future__ import annotations

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.group.membership import Counters


class Rebalance:
    """Why a member must join, and when it may.

    Attributes:
        wanted: The reason to rejoin; None: no need.
        retry_at: Loop time before which no JoinGroup is sent.

    Args:
        backoff: Pause between attempts.
        counters: Counters of the member.
    """

    __slots__ = ("_backoff", "_begun_at", "_counters", "_failures", "_reason", "retry_at", "wanted")

    def __init__(self, backoff: Backoff, counters: Counters) -> None:
        self._backoff = backoff
        self._counters = counters
        self.wanted: str | None = None
        self.retry_at = 0.0
        self._reason = ""
        self._failures = 0  # in a row
        self._begun_at: float | None = None

    def want(self, reason: str | None) -> None:
        """Record a reason to rejoin (or None); the first one is kept."""
        if self.wanted is None:
            self.wanted = reason

    def begin(self, now: float) -> str:
        """Begin a JoinGroup; returns the reason to send."""
        if self._begun_at is None:
            self._begun_at = now
        if self.wanted is not None:
            self._reason, self.wanted = self.wanted, None
        return self._reason

    def on_refused(self, now: float, *, at_once: bool) -> None:
        """The attempt failed: retry after a pause.

        Args:
            at_once: Retry without a pause, unless the previous attempt failed too.
        """
        self._failures += 1
        pause = self._backoff.delay(self._failures)
        self.retry_at = now if at_once and self._failures == 1 else now + pause

    def on_failed(self) -> None:
        """Count a failed attempt in the metrics."""
        self._counters.failed_rebalances += 1

    def on_done(self, now: float) -> None:
        """The assignment arrived."""
        took = 0.0 if self._begun_at is None else now - self._begun_at
        self.abandon()
        self._failures = 0
        counters = self._counters
        counters.rebalances += 1
        counters.last_rebalance = now
        counters.rebalance_time += took
        counters.slowest_rebalance = max(counters.slowest_rebalance, took)

    def abandon(self) -> None:
        """The attempt is no longer needed."""
        self._begun_at = None
