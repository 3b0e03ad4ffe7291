"""The plain values of the public API, field for field as aiokafka 0.14 has them."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.errors import KafkaError

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "ProducerRecord",
    "RecordMetadata",
    "TopicPartition",
    "UndeserializedRecord",
]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class BrokerMetadata(NamedTuple):
    """A broker as the metadata names it."""

    nodeId: int | str
    """The broker's id; a string only for a bootstrap address whose id is not known yet."""
    host: str
    port: int
    rack: str | None
    """The broker's rack or availability zone, None when it was not told."""


class PartitionMetadata(NamedTuple):
    """A partition as the metadata describes it."""

    topic: str
    partition: int
    leader: int
    """Id of the leading broker, -1 when there is none."""
    replicas: list[int]
    """Ids of the brokers that hold a copy."""
    isr: list[int]
    """Ids of the brokers whose copy is in sync."""
    error: KafkaError | None
    """What the broker said about the partition, None when all is well."""


class _OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str


class OffsetAndMetadata(_OffsetAndMetadata):
    """What a group commits for a partition: the pair that aiokafka's is, equal to any like it.

    Ours can carry a leader epoch, too, which takes no part in equality and unpacking: it guards
    the offset, and says nothing about it.

    Args:
        offset: Offset of the next record to read.
        metadata: Any text of the application's, "" for none.
        leader_epoch: Of the record before it, by which who goes on from here notices that the log
            was cut below it (KIP-320); None: not known. (ours)
    """

    leader_epoch: int | None = None

    def __new__(cls, offset: int, metadata: str, leader_epoch: int | None = None) -> Self:
        self = tuple.__new__(cls, (offset, metadata))  # the base's own takes twice as long
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        return self


class OffsetAndTimestamp(NamedTuple):
    """The answer to a search by time."""

    offset: int
    timestamp: int | None
    """Milliseconds since the epoch; None from brokers before 0.10.1."""


class ProducerRecord(NamedTuple):
    """A record that is about to be sent, before its serializers: what interceptors see. (ours)"""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    """None: the partitioner chooses."""
    timestamp_ms: int | None = None
    """Milliseconds since the epoch; None: now."""
    headers: Sequence[tuple[str, bytes | None]] | None = None


RECORD_OF_ERROR: Final = "_aiokafka_lite_record"
"""Under which name an exception carries its `UndeserializedRecord`."""


class UndeserializedRecord(NamedTuple):
    """A record that a consumer's deserializer could not read, and where it is. (ours)

    try:
        record = await consumer.getone()
    except ValueError as error:  # what the deserializer raised
        bad = UndeserializedRecord.of(error)
        consumer.seek(bad.topic_partition, bad.offset + 1)  # skip it
    """

    topic_partition: TopicPartition
    offset: int
    part: str
    """Which deserializer failed: "key" or "value"."""
    key: bytes | None
    """As it was read."""
    value: bytes | None
    timestamp: int
    """Milliseconds since the epoch; -1 none."""
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The record on which a deserializer raised this.

        Raises:
            LookupError: No deserializer of a consumer raised it.
        """
        record = getattr(error, RECORD_OF_ERROR, None)
        if not isinstance(record, cls):
            raise LookupError(f"{error!r} was not raised by a consumer's deserializer")
        return record


class RecordMetadata(NamedTuple):
    """Where a record was stored."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    """Offset in the partition; -1 when the broker has it, but no longer tells where."""
    timestamp: int | None
    """Milliseconds since the epoch; None from brokers before 0.10."""
    timestamp_type: int
    """0: the producer's own time (CreateTime); 1: the broker's (LogAppendTime)."""
    log_start_offset: int | None
    """First offset that the partition still has; None when the broker does not tell."""


Acknowledged: TypeAlias = RecordMetadata | Any
"""What an ack comes to. It is None with `acks=0`, which the type leaves out: who sends like that
does not look, and nobody else has to check for it."""
