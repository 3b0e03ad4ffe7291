"""Decides when a record's acquisition lock must be renewed, and when it is lost.

The broker holds the lock; `lock_deadline` is this client's estimate of its expiry. All locks of a
group last equally long, so one duration serves all records. Sans-IO: the caller owns the clock, the
timer and the renewals.
"""

from enum import Enum
from typing import Final, Protocol

__all__ = ["Due", "LockWatch", "Locked"]

_AGAIN: Final = 0.1  # of the lock duration: time between a failed renewal and the next attempt


class Locked(Protocol):
    """A record with an acquisition lock."""

    @property
    def lock_deadline(self) -> float:
        """End of the lock in loop time; it moves when a renewal succeeds."""

    @property
    def _lock_duration(self) -> float:
        """Seconds that a lock lasts, as the broker reported."""


class Due(Enum):
    """What a lock needs now."""

    NOTHING = 0
    RENEWAL = 1
    EXPIRED = 2


class LockWatch:
    """Decides for each record; tracks the renewals in flight.

    Args:
        renews: False if locks are not renewed: they only expire.

    Attributes:
        duration: Seconds that a lock lasts, 0 before the first record.
    """

    __slots__ = ("_not_before", "_renewing", "_renews", "duration")

    def __init__(self, *, renews: bool = True) -> None:
        self.duration = 0.0
        self._renews = renews
        self._renewing: dict[int, Locked] = {}  # by id: records are not hashable
        self._not_before: dict[int, float] = {}  # after a renewal that failed and may be repeated

    def on_acquired(self, record: Locked) -> None:
        """A record was acquired: its broker has reported how long locks last."""
        self.duration = record._lock_duration

    def next_action(self, record: Locked, now: float) -> Due:
        """Return what the record's lock needs; `on_renewing` must follow a renewal."""
        left = record.lock_deadline - now
        if left <= 0:
            return Due.EXPIRED
        if not self._renews or left > self.duration / 2 or id(record) in self._renewing:
            return Due.NOTHING
        if self._not_before and self._not_before.get(id(record), now) > now:
            return Due.NOTHING
        return Due.RENEWAL

    def next_check(self, record: Locked, now: float) -> float:
        """Return the time at which the record's lock may need something."""
        end = record.lock_deadline
        if not self._renews or id(record) in self._renewing:
            return end
        again = self._not_before.get(id(record), 0.0)
        return min(end, max(end - self.duration / 2, again))

    def on_renewing(self, record: Locked) -> None:
        """A renewal was requested; the record is kept until `on_renewed` or `on_failed`."""
        self._renewing[id(record)] = record
        self._not_before.pop(id(record), None)

    def on_renewed(self, record: Locked) -> None:
        """The renewal succeeded, or failed for good."""
        self._renewing.pop(id(record), None)

    def on_failed(self, record: Locked, now: float) -> None:
        """The renewal failed, but another may succeed."""
        if self._renewing.pop(id(record), None) is not None:
            self._not_before[id(record)] = now + self.duration * _AGAIN

    def forget(self, record: Locked) -> None:
        """The record no longer needs a lock."""
        self._not_before.pop(id(record), None)
