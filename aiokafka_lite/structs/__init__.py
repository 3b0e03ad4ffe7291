"""The value types of the public API, with the fields of aiokafka 0.14."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

from aiokafka_lite.errors import KafkaError

if TYPE_CHECKING:
    from aiokafka_lite._consumer_record import ConsumerRecord
    from aiokafka_lite.structs.health import ConsumerHealth, Health, HealthState, ProducerHealth

__all__ = [
    "BrokerMetadata",
    "ConsumerHealth",
    "ConsumerRecord",
    "Health",
    "HealthState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "ProducerHealth",
    "ProducerRecord",
    "RecordMetadata",
    "StoredColumns",
    "StoredRun",
    "TopicPartition",
    "UndeserializedRecord",
]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class BrokerMetadata(NamedTuple):
    """A broker as described by the cluster metadata."""

    nodeId: int | str
    """The broker's id; a string only for a bootstrap address whose id is not known yet."""
    host: str
    port: int
    rack: str | None
    """The broker's rack or availability zone, None if unknown."""


class PartitionMetadata(NamedTuple):
    """A partition as described by the cluster metadata."""

    topic: str
    partition: int
    leader: int
    """Id of the leader, -1 if there is none."""
    replicas: list[int]
    """Ids of the brokers that hold a replica."""
    isr: list[int]
    """Ids of the brokers whose replica is in sync."""
    error: KafkaError | None
    """The error that the broker reported for the partition, None if there is none."""


class _OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str


class OffsetAndMetadata(_OffsetAndMetadata):
    """The offset and metadata that a group commits for a partition.

    It is aiokafka's pair, equal to any such pair. The leader epoch that it can also carry takes no
    part in equality and unpacking: it validates the offset and is not part of the value.

    Args:
        offset: Offset of the next record to read.
        metadata: Any text from the application, "" for none.
        leader_epoch: Leader epoch of the record before the offset. A consumer that resumes here
            uses it to detect a truncated log (KIP-320). None, or the -1 of a `ConsumerRecord`:
            unknown. Not in aiokafka.
    """

    leader_epoch: int | None = None

    def __new__(cls, offset: int, metadata: str, leader_epoch: int | None = None) -> Self:
        self = tuple.__new__(cls, (offset, metadata))  # the base class's takes twice as long
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        return self


class _OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int | None


class OffsetAndTimestamp(_OffsetAndTimestamp):
    """The result of an offset lookup by timestamp.

    It is aiokafka's pair, equal to any such pair; the leader epoch takes no part in that.

    Args:
        offset: Offset of the record that was found.
        timestamp: Its timestamp in milliseconds since the epoch; None from brokers before 0.10.1.
        leader_epoch: Its leader epoch, for a later `seek` with an `OffsetAndMetadata` (KIP-320).
            None: unknown. Not in aiokafka.
    """

    leader_epoch: int | None = None

    def __new__(cls, offset: int, timestamp: int | None, leader_epoch: int | None = None) -> Self:
        self = tuple.__new__(cls, (offset, timestamp))
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        return self


class ProducerRecord(NamedTuple):
    """A record about to be sent, not yet serialized, as interceptors see it. Not in aiokafka."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    """None: the partitioner chooses."""
    timestamp_ms: int | None = None
    """Milliseconds since the epoch; None: now."""
    headers: Sequence[tuple[str, bytes | None]] | None = None


RECORD_OF_ERROR: Final = "_aiokafka_lite_record"
"""Name of the attribute in which an exception carries its `UndeserializedRecord`."""


class UndeserializedRecord(NamedTuple):
    """A record that a consumer's deserializer failed on, with its position. Not in aiokafka.

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
    """The raw key, not deserialized."""
    value: bytes | None
    timestamp: int
    """Milliseconds since the epoch; -1: none."""
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the record whose deserializer raised this error.

        Raises:
            LookupError: The error does not come from a consumer's deserializer.
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
    """Offset in the partition; -1 if the broker has the record but no longer returns its offset."""
    timestamp: int | None
    """Milliseconds since the epoch; None from brokers before 0.10."""
    timestamp_type: int
    """0: the producer's clock (CreateTime); 1: the broker's (LogAppendTime)."""
    log_start_offset: int | None
    """First offset that the partition still has; None if the broker does not return it."""


class StoredRun(NamedTuple):
    """Consecutive records of one partition that `send_columns` stored."""

    partition: int
    base_offset: int
    """Offset of the first record; -1 with `acks=0`, or if the broker did not return it."""
    rows: int
    """Number of rows, whose offsets are consecutive."""


class StoredColumns(NamedTuple):
    """Where the rows of one `send_columns` call were stored."""

    topic: str
    rows: int
    """Number of rows."""
    runs: tuple[StoredRun, ...]
    """The runs by partition, in offset order. Rows of a partition keep their order."""

    @property
    def counts(self) -> dict[int, int]:
        """Number of rows by partition."""
        counts: dict[int, int] = {}
        for run in self.runs:
            counts[run.partition] = counts.get(run.partition, 0) + run.rows
        return counts

    @property
    def base_offsets(self) -> dict[int, int]:
        """Offset of the first record by partition."""
        offsets: dict[int, int] = {}
        for run in self.runs:
            offsets.setdefault(run.partition, run.base_offset)
        return offsets


Acknowledged: TypeAlias = RecordMetadata | Any
"""The result of an ack. It is None with `acks=0`. The type leaves None out: with `acks=0` the
application ignores the result, and no other application should have to check for None."""


_ON_FIRST_USE: Final = {
    "ConsumerHealth": "structs.health",
    "ConsumerRecord": "_consumer_record",
    "Health": "structs.health",
    "HealthState": "structs.health",
    "ProducerHealth": "structs.health",
}
"""Name of a class -> its module. A producer sends its first record without these classes."""


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"aiokafka_lite.{_ON_FIRST_USE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
