"""How a member stands with its group: the part of `health()` that consumers of all kinds share."""

from __future__ import annotations

from typing import Final, NamedTuple

from aiokafka_lite.errors import AuthenticationFailedError, KafkaError
from aiokafka_lite.group.membership_driver import GroupDriver
from aiokafka_lite.structs import HealthState

__all__ = ["Standing", "standing"]

_NOT_POLLED: Final = frozenset({"idle", "stale"})
_ENDED: Final = frozenset({"failed", "fatal"})
_OUT: Final = frozenset({"unsubscribed", "leaving", "prepare leaving", "closed"})


class Standing(NamedTuple):
    """The state of a membership, and the reason for it ("" if it is stable)."""

    state: HealthState
    reason: str

    def explained_by(self, error: KafkaError | None) -> KafkaError | None:
        """Return the membership's last error, or None if its cause has ended.

        A failed authentication keeps the membership, so no new assignment shows that it has ended.
        """
        over = self.state is HealthState.STABLE and isinstance(error, AuthenticationFailedError)
        return None if over else error


def standing(driver: GroupDriver, *, joined: bool) -> Standing:
    """Judge a membership.

    Args:
        driver: The driver of the membership.
        joined: True if the member has its place: it got an assignment and did not lose it since.
    """
    membership, group = driver.membership, driver.group_id
    value = membership.state.value
    if value in _ENDED or (value == "fenced" and not membership.broker_assigns):
        return Standing(HealthState.FAILED, f"the membership in group {group} has ended")
    if value in _NOT_POLLED:
        return Standing(
            HealthState.JOINING,
            f"no read for max_poll_interval_ms: left group {group} until the next read",
        )
    if value in _OUT:
        return Standing(HealthState.JOINING, "no topic is subscribed to")
    if not driver.coordinator_known:
        state = HealthState.RECONNECTING if joined else HealthState.JOINING
        return Standing(state, f"the coordinator of group {group} is unknown")
    if not joined:
        return Standing(HealthState.JOINING, f"waiting for an assignment of group {group}")
    if value == "stable" and not membership.rejoin_needed:
        return Standing(HealthState.STABLE, "")
    return Standing(HealthState.REBALANCING, f"group {group} is rebalancing")
