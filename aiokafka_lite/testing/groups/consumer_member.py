"""The state of a consumer group's member between two heartbeats. No I/O.

Members are immutable, so comparing two states shows what a heartbeat changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, TypeAlias
from uuid import UUID

__all__ = [
    "LEAVE_EPOCH",
    "STATIC_LEAVE_EPOCH",
    "ClassicMembership",
    "ConsumerMember",
    "MemberState",
    "OwnedPartitions",
]

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

OwnedPartitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""By topic id: partition -> member epoch of its assignment; topics are never empty."""


class MemberState(Enum):
    """A member's progress towards its target assignment."""

    STABLE = auto()
    UNREVOKED_PARTITIONS = auto()  # it must still revoke some
    UNRELEASED_PARTITIONS = auto()  # others must still release some of its target


@dataclass(frozen=True, slots=True)
class ClassicMembership:
    """The JoinGroup data of a member that uses the classic protocol.

    Attributes:
        session_timeout_ms: Its own session timeout, in place of the group's.
        protocols: Name and subscription of each assignor that it supports, in preference order.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member.

    Attributes:
        epoch: Epoch of its current assignment; `STATIC_LEAVE_EPOCH` while a static member is
            away.
        previous_epoch: The epoch before, which a member that missed the last response sends.
        subscribed_regex: "" if there is none.
        server_assignor: The assignor that it requests; None for no preference.
        assigned: The partitions that it owns or has been assigned.
        revoking: The partitions that it must revoke before it can advance.
        classic: Set for a member that uses the classic protocol.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    server_assignor: str | None = None
    assigned: OwnedPartitions = field(default_factory=dict)
    revoking: OwnedPartitions = field(default_factory=dict)
    classic: ClassicMembership | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return True if it has its complete target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def in_epoch(self, epoch: int) -> "ConsumerMember":
        """Return the member in a new epoch, with its old one as the previous epoch."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Return the epoch since which it owns a partition, or None.

        A commit may carry any epoch from then on (KIP-1251).
        """
        for owned in (self.assigned, self.revoking):
            if partition in owned.get(topic_id, {}):
                return owned[topic_id][partition]
        return None
