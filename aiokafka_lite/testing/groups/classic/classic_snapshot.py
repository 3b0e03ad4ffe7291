"""The persistent state of a classic group, which a new coordinator restores.

Kafka persists a group after an assignment, when a static member gets a new id, and when the group
becomes empty, but not during a rebalance. A new coordinator starts with the last of these states.
"""

from typing import NamedTuple

from aiokafka_lite.testing.groups.classic.classic_roster import (
    EMPTY,
    STABLE,
    ClassicMember,
    ClassicRoster,
    MemberProtocol,
)

__all__ = ["Snapshot"]


class _Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes  # for the selected protocol only
    assignment: bytes


class Snapshot(NamedTuple):
    """A group's persistent state."""

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    members: tuple[_Member, ...]

    @classmethod
    def of(cls, group: ClassicRoster) -> "Snapshot":
        """Return the current state of a group."""
        members = [
            _Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        ]
        return cls(
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader,
            tuple(members),
        )

    def restore(self, group: ClassicRoster) -> None:
        """Restore an emptied group; its members have no sessions yet."""
        group.generation = self.generation
        for saved in self.members:
            group.add(
                ClassicMember(
                    saved.member_id,
                    saved.instance_id,
                    saved.client_id,
                    saved.client_host,
                    saved.rebalance_timeout_ms,
                    saved.session_timeout_ms,
                    self.protocol_type or "",
                    [MemberProtocol(self.protocol_name or "", saved.metadata)],
                    saved.assignment,
                )
            )
        group.protocol_type = self.protocol_type
        group.protocol_name = self.protocol_name
        group.leader = self.leader
        group.read_subscriptions()
        group.enter(STABLE if self.members else EMPTY)
