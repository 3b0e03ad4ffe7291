"""Schedules heartbeats and coordinator lookups of the consumer protocol (KIP-848). Sans-IO."""

from __future__ import annotations

from typing import Final

from aiokafka_lite._backoff import Backoff

FIRST_WAIT: Final = 0.25
"""Seconds until a member that joined and got no partitions sends the next heartbeat; doubles each
time.

Other members must revoke first, or the coordinator does not have a topic yet. Java waits for the
interval."""

SHORTEST_INTERVAL: Final = 0.1
LONGEST_INTERVAL: Final = 15.0
"""Bounds of the interval, in seconds. Brokers allow 5 to 15 by default
(`group.consumer.max.heartbeat.interval.ms`). Extra heartbeats do no harm; without any, a member
would not detect its removal."""

__all__ = ["Pace"]


class Pace:
    """The coordinator's heartbeat interval, urgent heartbeats, and pauses after failures.

    Args:
        backoff: Pauses after consecutive failures.
    """

    __slots__ = (
        "_backoff",
        "_failures",
        "_interval",
        "_not_before",
        "_sent_at",
        "_settled",
        "_urgent",
        "_wait",
        "coordinator",
        "searching",
    )

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures = 0
        self._interval = 0.0
        self._not_before = float("-inf")
        self._sent_at = float("-inf")
        self._settled = False  # True once a heartbeat after the last join was answered
        self._urgent = False
        self._wait = float("inf")
        self.coordinator = False
        """The coordinator is known."""
        self.searching = False
        """True while the driver looks for the coordinator."""

    @property
    def heartbeat_at(self) -> float:
        """Loop time of the next heartbeat."""
        due = self._sent_at
        if not self._urgent:
            due += min(self._interval, self._wait)
        return max(due, self._not_before)

    @property
    def search_at(self) -> float:
        """Loop time of the next lookup of an unknown coordinator."""
        return self._not_before

    def hasten(self) -> None:
        """Send the next heartbeat at once."""
        self._urgent = True

    def on_joined(self) -> None:
        """The coordinator admitted the member: its target may arrive soon."""
        self._wait = FIRST_WAIT

    def on_supplied(self) -> None:
        """The member has a target: the normal interval is enough."""
        self._wait = float("inf")

    def on_sent(self, now: float) -> None:
        """A heartbeat is sent."""
        self._sent_at = now
        self._wait *= 2  # values beyond the interval make no difference
        self._urgent = False

    def on_answered(self, interval: float, *, joins: bool) -> None:
        """A heartbeat was answered; the coordinator sets the interval, in seconds.

        Args:
            joins: True if the heartbeat joined the group.
        """
        self._settled = not joins
        if not joins:
            self._failures = 0
        self._interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)

    def on_fenced(self, now: float, *, joins: bool) -> None:
        """The member must join again: at once, unless it has just joined.

        A coordinator that admits a member and fences it with its next heartbeat would otherwise
        receive thousands of requests a second.

        Args:
            joins: True if the heartbeat was to join the group.
        """
        if joins or not self._settled:
            self.on_failed(now)

    def on_failed(self, now: float, *, at_once: bool = False) -> None:
        """Retry after a pause that grows with each failure.

        Args:
            at_once: The first retry needs no pause, because it goes to another broker.
        """
        self._failures += 1
        self._not_before = now + self._backoff.delay(self._failures - at_once)
        self._urgent = True
