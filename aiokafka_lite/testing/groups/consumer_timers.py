"""The timers of a consumer group's members; each fires once unless set again. No I/O."""

from collections.abc import Callable
from enum import Enum, auto

from aiokafka_lite.testing.clock import Clock, Timer

__all__ = ["MemberTimers", "Timeout"]


class Timeout(Enum):
    """The kinds of timeouts of a member."""

    SESSION = auto()  # to send any request
    REBALANCE = auto()  # to revoke partitions
    JOIN = auto()  # to rejoin, for a classic member during a rebalance
    SYNC = auto()  # to send SyncGroup, for a classic member that joined


class MemberTimers:
    """Timers of members, at most one of each kind per member.

    Args:
        clock: The cluster's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[str, Timeout], Timer] = {}

    def set(
        self, member_id: str, kind: Timeout, delay_ms: int, callback: Callable[[], None]
    ) -> None:
        """Set a timer in milliseconds, replacing an earlier one of its kind."""
        self.cancel(member_id, kind)

        def on_time() -> None:
            del self._timers[member_id, kind]
            callback()

        self._timers[member_id, kind] = self._clock.call_later(delay_ms / 1000, on_time)

    def is_set(self, member_id: str, kind: Timeout) -> bool:
        """Return True if the timer is set."""
        return (member_id, kind) in self._timers

    def cancel(self, member_id: str, kind: Timeout) -> None:
        """Cancel a timer."""
        timer = self._timers.pop((member_id, kind), None)
        if timer is not None:
            timer.cancel()

    def cancel_member(self, member_id: str) -> None:
        """Cancel all timers of a removed member."""
        for kind in Timeout:
            self.cancel(member_id, kind)

    def close(self) -> None:
        """Cancel all timers."""
        for member_id, kind in list(self._timers):
            self.cancel(member_id, kind)
