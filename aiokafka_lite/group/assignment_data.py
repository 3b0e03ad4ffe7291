"""Encodes and decodes the subscriptions and assignments that members exchange. Sans-IO.

The coordinator of the classic protocol passes both on without reading them. Each begins with its
version. A newer version is read as the newest known one, because newer versions only append fields
(KIP-429 added the owned partitions, KIP-792 the generation, KIP-881 the rack). Bytes after the
known fields are therefore ignored.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedPartitions,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedPartitions,
)
from aiokafka_lite.protocol.primitives import INT16, Reader
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "NEWEST",
    "NO_GENERATION",
    "PROTOCOL_TYPE",
    "Assignment",
    "Subscription",
    "by_topic",
    "read_assignment",
    "read_subscription",
    "subscribed_topics",
    "write_assignment",
    "write_subscription",
]

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumer groups in JoinGroup."""

NEWEST: Final = ConsumerProtocolSubscription.max_version
"""The version written, of subscriptions and of assignments; Java keeps them equal."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription as the leader reads it.

    Attributes:
        topics: Names of the topics, without duplicates.
        owned: Partitions that it holds while it joins; empty in the eager protocol.
        generation: The generation in which it received `owned`; -1: unknown.
        rack: The member's rack, or None.
        user_data: Data of the assignor, or None.
        instance_id: Id of a static member, or None. Not encoded: the coordinator sends it
            separately.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's assignment for one member.

    Attributes:
        partitions: The member's partitions.
        user_data: Data of the assignor, or None.
    """

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def write_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Encode a subscription as Java does; equal subscriptions give equal bytes.

    Args:
        version: 0 to 3; fields that it lacks are omitted.
    """
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedPartitions(topic, numbers)
            for topic, numbers in by_topic(sorted(subscription.owned)).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    out = bytearray(INT16.pack(version))
    message.encode(out, version)
    return bytes(out)


def read_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Decode a subscription.

    Raises:
        KafkaProtocolError: The bytes are not a subscription.
    """
    reader = Reader(data)
    message = ConsumerProtocolSubscription.decode(reader, _version(reader))
    return Subscription(
        topics=tuple(dict.fromkeys(message.topics)),
        owned=tuple(
            dict.fromkeys(
                TopicPartition(owned.topic, number)
                for owned in message.owned_partitions
                for number in owned.partitions
            )
        ),
        generation=max(message.generation_id, NO_GENERATION),
        rack=message.rack_id or None,
        user_data=message.user_data,
        instance_id=instance_id,
    )


def write_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Encode an assignment; topics are in the order of their first occurrence.

    Args:
        version: 0 to 3; all have the same fields.
    """
    message = ConsumerProtocolAssignment(
        [
            AssignedPartitions(topic, numbers)
            for topic, numbers in by_topic(assignment.partitions).items()
        ],
        assignment.user_data,
    )
    out = bytearray(INT16.pack(version))
    message.encode(out, version)
    return bytes(out)


def read_assignment(data: bytes) -> Assignment:
    """Decode an assignment; empty bytes give an empty assignment.

    A coordinator sends empty bytes to a member that the leader left out.

    Raises:
        KafkaProtocolError: The bytes are not an assignment.
    """
    if not data:
        return Assignment()
    reader = Reader(data)
    message = ConsumerProtocolAssignment.decode(reader, _version(reader))
    if any(
        number < 0 for assigned in message.assigned_partitions for number in assigned.partitions
    ):
        raise KafkaProtocolError("the assignment has a negative partition")
    return Assignment(
        tuple(
            TopicPartition(assigned.topic, number)
            for assigned in message.assigned_partitions
            for number in assigned.partitions
        ),
        message.user_data,
    )


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str]:
    """All topics that members subscribe to, whose metadata the leader needs.

    It reads the fields of version 0 only: an application's assignor in aiokafka's form writes no
    others, whatever version it names.

    Raises:
        KafkaProtocolError: An entry is not a subscription.
    """
    return frozenset(topic for each in subscriptions for topic in _topics(each))


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """Partition numbers by topic, in the order given."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _topics(subscription: bytes) -> list[str]:
    reader = Reader(subscription)
    _version(reader)
    return ConsumerProtocolSubscription.decode(reader, 0).topics


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise KafkaProtocolError(f"consumer protocol data has the invalid version {version}")
    return min(version, NEWEST)
