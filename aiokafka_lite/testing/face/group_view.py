"""`GroupView`: the same snapshot for groups of all kinds."""

from typing import Final, NamedTuple

from aiokafka_lite.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.consumer_group_protocol import ConsumerGroup
from aiokafka_lite.testing.share.embedded_share_group import ShareGroup

__all__ = ["GroupView", "view_of"]

CONSUMERS: Final = "consumer"  # protocol type of a classic group of consumers


class GroupView(NamedTuple):
    """A snapshot of a group.

    Attributes:
        kind: "classic", "consumer" (KIP-848) or "share" (KIP-932).
        state: Kafka's name of the state: "Empty", "Stable", "PreparingRebalance", ...
        members: The assigned partitions of each member, by member id.
    """

    kind: str
    state: str
    members: dict[str, set[TopicPartition]]


def view_of(group: Group) -> GroupView:
    """Return a snapshot of the group."""
    members: dict[str, set[TopicPartition]] = {}
    if isinstance(group, ClassicGroup):
        of_consumers = group.protocol_type == CONSUMERS
        for classic in group.members.values():
            assignment = classic.assignment if of_consumers else b""
            members[classic.member_id] = _read(assignment)
    elif isinstance(group, ConsumerGroup):
        names = group.topic_names()
        for member in group.members.values():
            members[member.member_id] = {
                TopicPartition(names[topic_id], partition)
                for topic_id, partitions in member.assigned.items()
                for partition in partitions
                if topic_id in names
            }
    elif isinstance(group, ShareGroup):
        names = group.topic_names()
        for sharing in group.members.values():
            members[sharing.member_id] = {
                TopicPartition(names[topic_id], partition)
                for topic_id, partitions in sharing.assigned.items()
                for partition in partitions
                if topic_id in names
            }
    return GroupView(group.kind, group.state, members)


def _read(assignment: bytes) -> set[TopicPartition]:
    """Return the partitions of a classic assignment; all versions start like version 0."""
    if not assignment:
        return set()
    reader = Reader(assignment)
    reader.int16()  # the version
    topics = ConsumerProtocolAssignment.decode(reader, 0).assigned_partitions
    return {
        TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions
    }
