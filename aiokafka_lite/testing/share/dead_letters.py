"""The dead letters of share groups: archived records, written to a topic (KIP-1191). No I/O.

Source: Kafka's `ShareGroupDLQStateManager`. A letter's headers say which record it was and why it
was archived; key and value are copied only if the group wants that. The records' own headers and
timestamps are lost. If the topic cannot be written, the records are archived without a letter.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka_lite.errors import BrokerResponseError
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
ANY_SIZE: Final = 2**31 - 1
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
        brokers: The configurations of the brokers.
        clock: The cluster's clock.
    """

    def __init__(self, topics: Mapping[str, Topic], brokers: BrokerConfigs, clock: Clock) -> None:
        self._topics = topics
        self._brokers = brokers
        self._clock = clock

    def write(self, name: str, records: Undeliverable, *, copies: bool) -> bool:
        """Write a letter for each record; return True if all were written.

        Args:
            name: The topic for dead letters.
            records: The records.
            copies: True to copy keys and values.
        """
        topic = self._topics.get(name)
        if topic is None or not topic.partitions:
            logger.info("Group %s has no dead-letter topic %s", records.group_id, name)
            return False
        if topic.config("errors.deadletterqueue.group.enable") != "true":
            logger.info("Topic %s does not accept the dead letters of groups", name)
            return False
        target = topic.partitions[records.partition.index % len(topic.partitions)]
        if target.leader == NO_LEADER:
            return False
        now_ms = self._clock.now_ms()
        batch = memoryview(self._batch(records, now_ms, copies=copies))
        try:
            target.append(batch, BatchHeader.read(batch), ALL_IN_SYNC, now_ms)
        except BrokerResponseError as error:
            logger.info("Dead letters of group %s were not written: %s", records.group_id, error)
            return False
        return True

    def _batch(self, records: Undeliverable, now_ms: int, *, copies: bool) -> bytes:
        from aiokafka_lite.record.batch import BatchBuilder  # rare: import late

        originals = _read(records) if copies else {}
        builder = BatchBuilder(ANY_SIZE)
        for offset in range(records.first, records.last + 1):
            original = originals.get(offset)
            key, value = (original.key, original.value) if original else (None, None)
            builder.append(now_ms, key, value, _headers(records, offset))
        return bytes(builder.seal(Compression.NONE))


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
