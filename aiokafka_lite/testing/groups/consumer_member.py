"""A member of a consumer group, as it stands between two of its heartbeats. No I/O.

A member is never changed but replaced, so that what a heartbeat changed is a comparison.
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
"""partition -> the member epoch in which it was assigned, by topic id; no topic without any."""


class MemberState(Enum):
    """How far a member is on its way to the target assignment."""

    STABLE = auto()
    UNREVOKED_PARTITIONS = auto()  # it has yet to give up some
    UNRELEASED_PARTITIONS = auto()  # others have yet to give up some that it shall have


@dataclass(frozen=True, slots=True)
class ClassicMembership:
    """What a member that speaks the classic protocol said when it joined.

    Attributes:
        session_timeout_ms: Its own, instead of the group's.
        protocols: Name and subscription of each assignor that it could use, preferred first.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member.

    Attributes:
        epoch: Of its current assignment; `STATIC_LEAVE_EPOCH` while a static member is away.
        previous_epoch: The one before: a member that never got the last answer still names it.
        subscribed_regex: "" without one.
        server_assignor: The assignor that it asks for; None: it does not mind.
        assigned: What it owns, or was told to.
        revoking: What it must give up before it gets on.
        classic: Of a member that speaks the classic protocol.
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
        """Whether it has all that the target assignment of an epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def in_epoch(self, epoch: int) -> "ConsumerMember":
        """The member in an epoch, the one before remembered."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which it owns a partition; None: it does not.

        A commit may name any epoch from then on (KIP-1251).
        """
        for owned in (self.assigned, self.revoking):
            if partition in owned.get(topic_id, {}):
                return owned[topic_id][partition]
        return None
