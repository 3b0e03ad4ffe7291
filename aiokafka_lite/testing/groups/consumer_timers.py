"""The timers of a consumer group's members: each runs out once, unless it is set again. No I/O."""

from collections.abc import Callable
from enum import Enum, auto

from aiokafka_lite.testing.clock import Clock, Timer

__all__ = ["MemberTimers", "Timeout"]


class Timeout(Enum):
    """What a member may be late with."""

    SESSION = auto()  # any sign of life
    REBALANCE = auto()  # to give up partitions
    JOIN = auto()  # to join again, of a classic member that was told to
    SYNC = auto()  # to fetch its assignment, of a classic member that joined


class MemberTimers:
    """At most one of each kind for a member.

    Args:
        clock: What they go by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[str, Timeout], Timer] = {}

    def set(
        self, member_id: str, kind: Timeout, delay_ms: int, callback: Callable[[], None]
    ) -> None:
        """Call back in so many milliseconds; what was set before does not happen."""
        self.cancel(member_id, kind)

        def on_time() -> None:
            del self._timers[member_id, kind]
            callback()

        self._timers[member_id, kind] = self._clock.call_later(delay_ms / 1000, on_time)

    def is_set(self, member_id: str, kind: Timeout) -> bool:
        """Whether it runs."""
        return (member_id, kind) in self._timers

    def cancel(self, member_id: str, kind: Timeout) -> None:
        """Let it not happen."""
        timer = self._timers.pop((member_id, kind), None)
        if timer is not None:
            timer.cancel()

    def cancel_member(self, member_id: str) -> None:
        """Of a member that is gone."""
        for kind in Timeout:
            self.cancel(member_id, kind)

    def close(self) -> None:
        """Cancel them all."""
        for member_id, kind in list(self._timers):
            self.cancel(member_id, kind)
