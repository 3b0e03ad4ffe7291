"""aiokafka's classes for subscriptions and assignments, which its assignors read and return.

They hold the fields of version 0, with which every version begins, regardless of `version`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple, Self

from aiokafka_lite.group.assignment_data import PROTOCOL_TYPE
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedPartitions,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.primitives import INT16, Reader
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "ConsumerProtocol",
    "ConsumerProtocolMemberAssignment",
    "ConsumerProtocolMemberMetadata",
]


@dataclass(repr=True)
class ConsumerProtocolMemberMetadata:
    """The subscription that a member sends to its group's leader.

    Attributes:
        version: Sent to the leader unchanged.
        subscription: Names of the topics.
        user_data: Data of the assignor, or None.
    """

    version: int
    subscription: list[str]
    user_data: bytes | None

    __hash__ = object.__hash__  # aiokafka's instances are hashable, by identity

    def encode(self) -> bytes:
        """The bytes for JoinGroup."""
        out = bytearray(INT16.pack(self.version))
        ConsumerProtocolSubscription(list(self.subscription), self.user_data).encode(out, 0)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes | BytesIO) -> Self:
        """Decode what `encode` or any other client wrote; ignores fields of later versions.

        Raises:
            KafkaProtocolError: The bytes are not a subscription.
        """
        reader = Reader(data if isinstance(data, bytes) else data.read())
        version = reader.int16()
        message = ConsumerProtocolSubscription.decode(reader, 0)
        return cls(version, message.topics, message.user_data)


@dataclass(repr=True)
class ConsumerProtocolMemberAssignment:
    """The assignment that the leader sends to a member.

    Attributes:
        version: Sent to the member unchanged.
        assignment: Pairs of a topic and its partition numbers.
        user_data: Data of the assignor, or None.
    """

    class Assignment(NamedTuple):
        """Partitions of one topic."""

        topic: str
        partitions: list[int]

    version: int
    assignment: Iterable[tuple[str, list[int]]]
    user_data: bytes | None

    __hash__ = object.__hash__

    def partitions(self) -> list[TopicPartition]:
        """All assigned partitions."""
        return [
            TopicPartition(topic, partition)
            for topic, partitions in self.assignment
            for partition in partitions
        ]

    def encode(self) -> bytes:
        """The bytes for SyncGroup."""
        out = bytearray(INT16.pack(self.version))
        assigned = [AssignedPartitions(topic, list(numbers)) for topic, numbers in self.assignment]
        ConsumerProtocolAssignment(assigned, self.user_data).encode(out, 0)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes | BytesIO) -> Self:
        """Decode what `encode` or any other client wrote.

        Raises:
            KafkaProtocolError: The bytes are not an assignment.
        """
        reader = Reader(data if isinstance(data, bytes) else data.read())
        version = reader.int16()
        message = ConsumerProtocolAssignment.decode(reader, 0)
        assigned = [
            cls.Assignment(each.topic, each.partitions) for each in message.assigned_partitions
        ]
        return cls(version, assigned, message.user_data)


class ConsumerProtocol:
    """aiokafka's names for the classes and constants of the consumer protocol."""

    PROTOCOL_TYPE = PROTOCOL_TYPE
    ASSIGNMENT_STRATEGIES = ("range", "roundrobin")
    METADATA = ConsumerProtocolMemberMetadata
    ASSIGNMENT = ConsumerProtocolMemberAssignment
