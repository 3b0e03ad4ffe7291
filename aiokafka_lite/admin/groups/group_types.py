"""The results of describing groups: aiokafka's tuples, and typed descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka_lite.admin.core.authorized_operations import AclOperation
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "ConsumerGroupDescription",
    "DescribeGroupsResult",
    "DescribedGroup",
    "DescribedMember",
    "GroupMemberDescription",
]


# --- aiokafka's results


class DescribedMember(NamedTuple):
    """aiokafka's description of a member."""

    member_id: str
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(NamedTuple):
    """aiokafka's description of a group."""

    error_code: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: list[DescribedMember]
    authorized_operations: int


class DescribeGroupsResult(NamedTuple):
    """aiokafka's result of one coordinator."""

    throttle_time_ms: int
    groups: list[DescribedGroup]

    def to_object(self) -> dict[str, Any]:
        """Return the result as dicts and lists."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "groups": [
                {**each._asdict(), "members": [member._asdict() for member in each.members]}
                for each in self.groups
            ],
        }


# --- Java's results


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member of a consumer group.

    Attributes:
        group_instance_id: None for a dynamic member.
        rack_id: None from the classic protocol, and if the member has none.
        assignment: The partitions that it has.
        target_assignment: What it should have; None in the classic protocol.
        member_epoch: None in the classic protocol.
        upgraded: True if it uses the consumer protocol, False for the classic one; None from
            brokers before 4.0.
        subscribed_topics: The topics that it subscribes to by name; None in the classic protocol.
        subscribed_pattern: Its regular expression; None in the classic protocol, or without one.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    rack_id: str | None = None
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    upgraded: bool | None = None
    subscribed_topics: frozenset[str] | None = None
    subscribed_pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group that consumes, of either protocol.

    Attributes:
        type: "classic" or "consumer".
        state: "Stable", "Empty", "PreparingRebalance", "Assigning", "Dead", ...
        assignor: The name of the assignor, "" for none.
        coordinator_id: Node id of the group's coordinator.
        is_simple: True if the group only commits offsets, without a membership.
        group_epoch, assignment_epoch: None in the classic protocol.
        authorized_operations: What the client may do with the group; None if not requested.
    """

    group_id: str
    type: str
    state: str
    assignor: str
    members: tuple[GroupMemberDescription, ...]
    coordinator_id: int
    is_simple: bool = False
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ClassicMemberDescription:
    """A member of a classic group, with the bytes of its protocol type."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A classic group of any protocol type: "consumer", "connect", ...

    Attributes:
        protocol: The protocol that the leader chose, such as an assignor's name.
        coordinator_id, authorized_operations: As in `ConsumerGroupDescription`.
    """

    group_id: str
    protocol_type: str
    protocol: str
    state: str
    members: tuple[ClassicMemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple(self) -> bool:
        """True if the group only commits offsets, without a membership."""
        return not self.protocol_type
