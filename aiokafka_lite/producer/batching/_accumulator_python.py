"""`send -> partition -> append -> ack` in one call: the readable specification.

`AppendCore` is the part of the accumulator that runs for every record. `_batches_python.BatchCore`
runs for every batch (memory, readiness, draining).

Partitions are chosen as in Java: the explicit one; otherwise murmur2 of the key over all
partitions; without a key, the topic's sticky partition, until it has received a batch's worth of
records (KIP-480, KIP-794), so that a batch fills up before the next one is opened.
"""

import asyncio
import copy
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import index as as_int
from typing import Any, Protocol

from aiokafka_lite._arguments import check_headers, inert, partition_number
from aiokafka_lite._arguments import timestamp_ms as as_timestamp
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.producer.batching._ack_python import Ack, ProducerBatch
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.structs import TopicPartition

__all__ = ["AppendCore", "Blocked", "PartitionQueue", "TopicQueues"]

Headers = Sequence[tuple[str, bytes | None]]


class Blocked:
    """A serialized record that could not be appended yet.

    Either its topic (or its explicit partition) is not known, or there is no memory for the batch
    that it would open.
    """

    __slots__ = (
        "headers",
        "intercepted",
        "key",
        "partition",
        "queue",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int | None,
        queue: "PartitionQueue | None",
        timestamp: int,
        key: Any,
        value: Any,
        headers: Any,
    ) -> None:
        self.topic = topic
        self.partition = partition  # None: chosen when the record is appended
        self.queue = queue  # None: the topic or partition is not known
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.intercepted: Any = ()  # the interceptors' data, for the outcome of the record


class PartitionQueue:
    """The batches of one partition, oldest first: in flight, then waiting. The last may be open."""

    __slots__ = (
        "in_flight",
        "listed",
        "muted_until",
        "open",
        "outbox",
        "placed_at",
        "sequences",
        "topic_partition",
        "waiting",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.open: ProducerBatch | None = None  # takes records; always the last of `waiting`
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: deque[ProducerBatch] = deque()
        # Owned by the sender:
        self.outbox: Any = None  # of the partition's leader, None while there is no leader
        self.placed_at = 0  # the sender's count of metadata changes when `outbox` was set; 0: never
        self.listed = False  # in its outbox's ready list
        self.muted_until = 0.0  # loop time before which nothing is sent, after a failure
        self.sequences: Any = None  # idempotence.Sequences, None without idempotence

    @property
    def empty(self) -> bool:
        return not self.waiting and not self.in_flight


class TopicQueues:
    """One topic's partition queues by number, and its sticky partition for keyless records."""

    __slots__ = (
        "_turn",
        "available",
        "count",
        "forgotten",
        "produced",
        "queues",
        "sticky",
        "topic",
    )

    def __init__(self, topic: str, partitions: int, turn: int) -> None:
        self.topic = topic
        self.queues: list[PartitionQueue] = []
        self.count = 0  # partitions of the topic: fewer than queues if it was recreated with fewer
        self.available: list[int] = []  # partitions that have a leader
        self.produced = 0  # bytes of batches that left the sticky partition before they were full
        self.forgotten = False  # True once the accumulator has dropped it
        self._turn = turn  # start of the rotation: random, so that producers spread out
        self.grow(partitions)
        self.sticky = self.queues[0]
        self.move_on()

    def grow(self, partitions: int) -> None:
        """Set the number of partitions. Creates queues up to it; never removes any."""
        if partitions < 1:
            raise ValueError(f"{self.topic} has {partitions} partitions")
        self.count = partitions
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(TopicPartition(self.topic, partition)))

    def move_on(self) -> PartitionQueue:
        """Make the next partition that has a leader the sticky one."""
        self._turn += 1
        candidates: Sequence[int] = self.available or range(self.count)
        chosen = candidates[self._turn % len(candidates)]
        if not 0 <= chosen < len(self.queues):
            raise IndexError(f"{self.topic} has no partition {chosen}")
        self.sticky = self.queues[chosen]
        return self.sticky

    def stick_to(self, queue: PartitionQueue) -> None:
        """Make this partition the sticky one."""
        self.sticky = queue


def _hash(key: object) -> int:
    """Return murmur2 of a serialized key.

    Raises:
        TypeError: The key is not bytes.
    """
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(
            f"key must be bytes, bytearray, memoryview or None, not {type(key).__name__}"
        )
    return murmur2(key)


class Partitioner(Protocol):
    def __call__(
        self, key: bytes | None, all_partitions: list[int], available: list[int], /
    ) -> int: ...


class AppendCore:
    """Appends records to the open batch of their partition.

    Args:
        loop: The producer's event loop.
        key_serializer: Called with every key, None included; None: keys are already bytes.
        value_serializer: Likewise for values.
        partitioner: Called as in aiokafka; None: Java's algorithm.
        ignore_keys: Treat records with a key like those without.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        key_serializer: Callable[[Any], Any] | None,
        value_serializer: Callable[[Any], Any] | None,
        partitioner: Partitioner | None,
        ignore_keys: bool = False,
    ) -> None:
        self.loop = loop
        self.topics: dict[str, TopicQueues] = {}
        self.refusal: BaseException | None = None  # a copy is raised by every append
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = partitioner
        self._ignore_keys = ignore_keys

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
    ) -> Ack | Blocked:
        """Append one record; return its Ack, or a Blocked if it has to wait.

        Raises:
            TypeError: A topic, key, value, header, partition or timestamp has the wrong type.
            IllegalArgumentError: The partition or the timestamp is negative.
            MessageSizeTooLargeError: The record will never fit; nothing was changed.
        """
        if self.refusal is not None:
            raise copy.copy(self.refusal)
        if not isinstance(topic, str):
            raise TypeError(f"`topic` should be a str, not {topic!r}")
        if timestamp_ms is None:
            timestamp = time.time_ns() // 1_000_000
        else:
            timestamp = as_timestamp(timestamp_ms)
        if headers is not None:
            check_headers(headers)
            headers = inert(headers)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        return self.append_serialized(topic, partition, timestamp, key, value, headers)

    def append_many(
        self,
        sent: list[Any],
        topic: str,
        items: Iterator[Any],
        keyed: bool,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
        most: int,
    ) -> Blocked | int:
        """Append records, each as `append` does.

        Args:
            sent: The list to which the records are appended, as `SentRecords` takes them. The
                native build appends consecutive records of a batch as one entry. Unless code of
                the application runs between two records, some of them may share one reading of
                the clock.
            items: The records' values; with `keyed`, tuples of value and key. Each item is taken
                once the previous record has been appended.
            most: Maximum number of records, at least 1.

        Returns:
            `most` less the appended records if those are all items; 0 if there may be more; or the
            Blocked of a record that was taken from `items` and has to wait.

        Raises:
            BaseException: An error of `items` or `append`; earlier records are appended.
        """
        for item in items:
            value, key = item if keyed else (item, None)
            result = self.append(topic, value, key, partition, timestamp_ms, headers)
            if isinstance(result, Blocked):
                return result
            sent.append(result)
            most -= 1
            if most <= 0:
                return 0
        return most

    def append_serialized(
        self, topic: str, partition: int | None, timestamp: int, key: Any, value: Any, headers: Any
    ) -> Ack | Blocked:
        """Append a serialized record, in `append` or when a blocked record is retried."""
        topic_queues = self.topics.get(topic)
        if topic_queues is None:
            if partition is not None:
                partition = partition_number(partition)
            return Blocked(topic, partition, None, timestamp, key, value, headers)
        if partition is not None:
            number = partition_number(partition)
        elif self._partitioner is not None:
            number = self._ask(self._partitioner, topic_queues, key)
        elif key is not None and not self._ignore_keys:
            number = (_hash(key) & 0x7FFFFFFF) % topic_queues.count
        else:
            return self._append_sticky(topic_queues, timestamp, key, value, headers)
        if number >= len(topic_queues.queues):
            return Blocked(topic, number, None, timestamp, key, value, headers)
        queue = topic_queues.queues[number]
        ack = self._append_to(queue, timestamp, key, value, headers)
        if ack is None:
            return Blocked(topic, number, queue, timestamp, key, value, headers)
        return ack

    def _append_sticky(
        self, topic_queues: TopicQueues, timestamp: int, key: Any, value: Any, headers: Any
    ) -> Ack | Blocked:
        queue = topic_queues.sticky
        batch = queue.open
        if batch is not None:
            ack = batch.append(timestamp, key, value, headers)
            if ack is not None:
                return ack
            self.close_batch(queue)
        queue = self.next_sticky(topic_queues)
        ack = self._append_to(queue, timestamp, key, value, headers)
        if ack is None:
            return Blocked(topic_queues.topic, None, queue, timestamp, key, value, headers)
        return ack

    def _append_to(
        self, queue: PartitionQueue, timestamp: int, key: Any, value: Any, headers: Any
    ) -> Ack | None:
        batch = queue.open
        if batch is not None:
            ack = batch.append(timestamp, key, value, headers)
            if ack is not None:
                return ack
            self.close_batch(queue)
        return self.open_batch(queue, timestamp, key, value, headers)

    def _ask(self, partitioner: Partitioner, topic_queues: TopicQueues, key: Any) -> int:
        """Call the application's partitioner with copies, which it may keep or change."""
        everyone = list(range(topic_queues.count))
        chosen = as_int(partitioner(key, everyone, list(topic_queues.available)))
        if not 0 <= chosen < topic_queues.count:
            raise IllegalArgumentError(
                f"the partitioner chose {chosen} of {topic_queues.count} partitions"
            )
        return chosen

    def next_sticky(self, topic_queues: TopicQueues) -> PartitionQueue:
        """Return the sticky partition for the next batch, because the current one has none open."""
        raise NotImplementedError

    def close_batch(self, queue: PartitionQueue) -> None:
        """Close the open batch, which is full; it may be sent at once."""
        raise NotImplementedError

    def open_batch(
        self, queue: PartitionQueue, timestamp: int, key: Any, value: Any, headers: Any
    ) -> Ack | None:
        """Begin a batch with a record; return its Ack, or None if no memory is free."""
        raise NotImplementedError
