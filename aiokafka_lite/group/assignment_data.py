"""What members tell each other through the coordinator: subscriptions and assignments. Bytes only.

The coordinator of the classic protocol carries both unread. Each begins with its version; a
version newer than ours is read as our newest, since newer ones only append (KIP-429 added the
owned partitions, KIP-792 the generation, KIP-881 the rack). What follows a known version's fields
is therefore not looked at.

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
"""What consumers call their kind of group in JoinGroup."""

NEWEST: Final = ConsumerProtocolSubscription.max_version
"""The version that is written; of subscriptions and of assignments, which Java keeps alike."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member as its leader sees it.

    Attributes:
        topics: What it subscribes to, each once.
        owned: What it holds while it joins: nothing, in the eager protocol.
        generation: In which it received `owned`; -1: unknown.
        rack: Where it is; None: untold.
        user_data: The assignor's own; None: nothing.
        instance_id: Of a static member. Not among the bytes: the coordinator tells it beside them.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    user_data: bytes | None = None
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a leader gives to one member.

    Attributes:
        partitions: Its partitions.
        user_data: The assignor's own; None: nothing.
    """

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def write_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """The bytes of a subscription, equal ones for equal subscriptions, as Java's.

    Args:
        version: 0 to 3; what it lacks is left out.
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
    """The subscription in these bytes.

    Raises:
        KafkaProtocolError: It is none.
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
    """The bytes of an assignment; topics in the order in which they first come.

    Args:
        version: 0 to 3; all are alike.
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
    """The assignment in these bytes; an empty one of no bytes.

    A coordinator answers no bytes to a member that the leader has forgotten.

    Raises:
        KafkaProtocolError: It is none.
    """
    if not data:
        return Assignment()
    reader = Reader(data)
    message = ConsumerProtocolAssignment.decode(reader, _version(reader))
    if any(
        number < 0 for assigned in message.assigned_partitions for number in assigned.partitions
    ):
        raise KafkaProtocolError("an assignment cannot have a negative partition")
    return Assignment(
        tuple(
            TopicPartition(assigned.topic, number)
            for assigned in message.assigned_partitions
            for number in assigned.partitions
        ),
        message.user_data,
    )


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str]:
    """All topics that members subscribe to: those whose metadata a leader needs.

    Raises:
        KafkaProtocolError: One of them is no subscription.
    """
    return frozenset(topic for each in subscriptions for topic in read_subscription(each).topics)


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """Numbers of partitions by their topic, in the order given."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise KafkaProtocolError(f"a consumer's data cannot have the version {version}")
    return min(version, NEWEST)
