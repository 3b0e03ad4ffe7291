"""The metadata and assignments of consumers in the classic protocol. No I/O.

They identify topics by name, a consumer group by id; conversion omits topics that do not exist.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.primitives import INT16, Reader
from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.topics import Topic

__all__ = [
    "PROTOCOL_TYPE",
    "by_topic_id",
    "read_assignment",
    "read_subscription",
    "write_assignment",
]

PROTOCOL_TYPE: Final = "consumer"
NEWEST: Final = ConsumerProtocolSubscription.max_version  # newer versions are read as this one


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription.

    Raises:
        KafkaProtocolError: The bytes are not a consumer's metadata.
    """
    reader = Reader(metadata)
    return ConsumerProtocolSubscription.decode(reader, _version(reader))


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode a member's assignment; empty bytes give an empty one.

    Raises:
        KafkaProtocolError: The bytes are not a consumer's assignment.
    """
    if not assignment:
        return ConsumerProtocolAssignment()
    reader = Reader(assignment)
    return ConsumerProtocolAssignment.decode(reader, _version(reader))


def write_assignment(
    partitions: Mapping[UUID, Iterable[int]], names: Mapping[UUID, str], metadata: bytes
) -> bytes:
    """Encode an assignment in the version of the member's metadata.

    Raises:
        KafkaProtocolError: The metadata has no version.
    """
    version = _version(Reader(metadata))
    out = bytearray(INT16.pack(version))
    ConsumerProtocolAssignment(
        [
            TopicPartition(names[topic_id], sorted(numbers))
            for topic_id, numbers in partitions.items()
            if topic_id in names
        ]
    ).encode(out, version)
    return bytes(out)


def by_topic_id(
    partitions: Iterable[tuple[str, Iterable[int]]], topics: Mapping[str, Topic]
) -> Partitions:
    """Return partitions by topic id."""
    return {
        topics[name].topic_id: frozenset(numbers) for name, numbers in partitions if name in topics
    }


def _version(reader: Reader) -> int:
    return max(0, min(reader.int16(), NEWEST))
