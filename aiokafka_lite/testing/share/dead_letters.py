"""The dead letters of share groups: archived records, written to a topic (KIP-1191). No I/O.

Source: Kafka's `ShareGroupDLQStateManager`. A letter's headers say which record it was and why it
was archived; key and value are copied only if the group wants that. The records' own headers and
timestamps are lost. If the topic cannot be written, the records are archived without a letter.

The name of the topic must begin with the brokers' prefix, and must not begin with `__`. The topic
must accept the letters of groups. If it does not exist, the brokers may create it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidTopicError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.topics import NO_LEADER, Partition, Topic

if TYPE_CHECKING:
    from aiokafka_lite.testing.log.conversion import StoredRecord

__all__ = ["DeadLetters", "Undeliverable"]

logger: Final = logging.getLogger(__name__)

ALL_IN_SYNC: Final = -1
ACCEPTS_LETTERS: Final = "errors.deadletterqueue.group.enable"
REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."


class Undeliverable(NamedTuple):
    """Records that a group archives.

    Attributes:
        group_id: The group.
        partition: Their partition.
        first: The first offset.
        last: The last offset, inclusive.
        deliveries: How often they were delivered.
        rejected: True if a member rejected them; False if they reached the delivery limit.
    """

    group_id: str
    partition: Partition
    first: int
    last: int
    deliveries: int
    rejected: bool


class DeadLetters:
    """Writes dead letters.

    Args:
        topics: The cluster's topics.
        create: Creates a topic with the default number of partitions: name, configurations.
        brokers: The configurations of the brokers.
        clock: The cluster's clock.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic],
        create: Callable[[str, Mapping[str, str]], Topic],
        brokers: BrokerConfigs,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._create = create
        self._brokers = brokers
        self._clock = clock

    def write(self, name: str, records: Undeliverable, *, copies: bool) -> bool:
        """Write a letter for each record; return True if all were written.

        Args:
            name: The topic for dead letters.
            records: The records.
            copies: True to copy keys and values.
        """
        try:
            topic = self._topic(name)
            target = topic.partitions[records.partition.index % len(topic.partitions)]
            if target.leader == NO_LEADER:
                raise LeaderNotAvailableError(f"{target} has no leader")
            now_ms = self._clock.now_ms()
            for batch in _batches(records, topic.max_message_bytes, now_ms, copies=copies):
                target.append(batch, BatchHeader.read(batch), ALL_IN_SYNC, now_ms)
        except (BrokerResponseError, OSError) as error:  # OSError: the disk is full
            logger.info("Dead letters of group %s were not written: %s", records.group_id, error)
            return False
        return True

    def _topic(self, name: str) -> Topic:
        """Return the topic for letters; create it if the brokers may.

        Raises:
            BrokerResponseError: The group cannot use it.
        """
        prefix = self._brokers("errors.deadletterqueue.topic.name.prefix")
        if name.startswith("__") or not name.startswith(prefix):
            raise InvalidTopicError(
                f"topic {name} cannot be a dead-letter topic: its name must begin with {prefix!r}"
                " and must not begin with '__'"
            )
        topic = self._topics.get(name)
        if topic is not None:
            if topic.config(ACCEPTS_LETTERS) != "true":
                raise InvalidTopicError(f"topic {name} does not have {ACCEPTS_LETTERS}=true")
            return topic
        if self._brokers("errors.deadletterqueue.auto.create.topics.enable") != "true":
            raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
        return self._create(name, {ACCEPTS_LETTERS: "true", "message.timestamp.type": "CreateTime"})


def _batches(
    records: Undeliverable, most: int, now_ms: int, *, copies: bool
) -> Iterator[memoryview]:
    """Yield batches of letters of at most `most` bytes; a larger letter has its own batch."""
    from aiokafka_lite.record.batch import BatchBuilder  # rare: import late

    originals = _read(records) if copies else {}
    builder = BatchBuilder(most)
    for offset in range(records.first, records.last + 1):
        original = originals.get(offset)
        key, value = (original.key, original.value) if original else (None, None)
        headers = _headers(records, offset)
        if builder.append(now_ms, key, value, headers) < 0:
            yield memoryview(builder.seal(Compression.NONE))
            builder = BatchBuilder(most)
            builder.append(now_ms, key, value, headers)
    yield memoryview(builder.seal(Compression.NONE))


def _headers(records: Undeliverable, offset: int) -> list[tuple[str, bytes]]:
    texts = {
        "topic": records.partition.topic.name,
        "partition": str(records.partition.index),
        "offset": str(offset),
        "group": records.group_id,
        "delivery.count": str(records.deliveries),
        "message": REJECTED if records.rejected else EXCEEDED,
    }
    return [(f"__dlq.errors.{name}", text.encode()) for name, text in texts.items()]


def _read(records: Undeliverable) -> "dict[int, StoredRecord]":
    """Return the records by offset; those that the log no longer has are missing."""
    from aiokafka_lite.testing.log.conversion import records_of  # decodes: import late

    found: dict[int, StoredRecord] = {}
    for batch in records.partition.log.batches():
        header = BatchHeader.read(batch)
        if header.base_offset > records.last or header.last_offset < records.first:
            continue
        for record in records_of(batch, records.first):
            if records.first <= record.offset <= records.last:
                found[record.offset] = record
    return found
