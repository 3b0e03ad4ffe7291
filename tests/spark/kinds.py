"""Topics of every kind that a reader has to support, written by this package's clients."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tools.kafka import RealKafka

START = 1_700_000_000_000
"""Milliseconds since the epoch: the timestamp of the first record of these topics."""
STEP = 1_000
"""Milliseconds between consecutive records of a partition."""
PATIENCE = 60.0  # seconds that the broker's background work may take

CHUNK = 20_000
"""Records written to one partition before the next partition's turn."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Written:
    """One record to write."""

    partition: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None


def numbered(partition: int, count: int, first: int = 0) -> list[Written]:
    """Records, a second apart, whose values contain their topic and position."""
    return [
        Written(
            partition,
            b"key-%d" % (number % 10),
            b"%d/%d" % (partition, number),
            timestamp=START + number * STEP,
        )
        for number in range(first, first + count)
    ]


class Kinds:
    """The topics, each created on first use.

    Args:
        kafka: The cluster in which they are created.
    """

    def __init__(self, kafka: RealKafka) -> None:
        self._kafka = kafka
        self._name = f"kinds-{uuid.uuid4().hex[:8]}"

    @property
    def bootstrap_servers(self) -> str:
        """The cluster's address."""
        return self._kafka.bootstrap_servers

    # -- for all tests

    @cached_property
    def plain(self) -> str:
        """Six partitions of 100, 90, 80, 70, 0 and 0 records, a second apart from START on."""
        records = [record for number in range(4) for record in numbered(number, 100 - 10 * number)]
        return self._made("plain", 6, records)

    @cached_property
    def odd(self) -> str:
        """Null, empty and non-UTF-8 keys and values; headers doubled, empty, null and many."""
        headers: list[Headers] = [
            (),
            (("one", b"1"),),
            (("twice", b"a"), ("twice", b"b")),
            (("", b""), ("null", None), ("ключ", "значение".encode())),
            tuple((f"h{number}", b"x" * number) for number in range(40)),
        ]
        keys = [None, b"", b"k", b"\xff\x00\xfe"]
        values = [None, b"", b"v", b"\x80\xff", b"z" * 70_000]
        records = [
            Written(0, key, value, each, START + number)
            for number, (key, value, each) in enumerate(
                (key, value, each) for key in keys for value in values for each in headers
            )
        ]
        return self._made("odd", 1, records)

    @cached_property
    def compressed(self) -> str:
        """A partition for each codec, and one with batches of all of them."""
        codecs = ["gzip", "snappy", "lz4", "zstd"]
        name = self._create("compressed", len(codecs) + 1)
        for number, codec in enumerate(codecs):
            self.write(name, numbered(number, 300), compression_type=codec)
            self.write(name, numbered(len(codecs), 40, 40 * number), compression_type=codec)
        return name

    @cached_property
    def transactional(self) -> str:
        """Committed, aborted and plain records in turns; the second partition ends in an aborted
        transaction, the third holds nothing else."""
        name = self._create("transactional", 3)

        async def write(producer: AIOKafkaProducer) -> None:
            for number in range(8):
                await producer.begin_transaction()
                await _send(producer, name, numbered(number % 2, 10, 10 * number))
                if number % 4 == 3:
                    await _send(producer, name, numbered(2, 5, 5 * number))
                if number % 4 in (2, 3):
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

        self._with_producer(write, transactional_id=f"{name}-id")
        self.write(name, numbered(0, 3, 1000))
        self._await_markers(name, 3)
        return name

    @cached_property
    def trimmed(self) -> str:
        """Two partitions of 50 records of which the first 20, and all, are deleted."""
        name = self._made("trimmed", 2, [*numbered(0, 50), *numbered(1, 50)])
        self.delete_before(name, {0: 20, 1: 50})
        return name

    @cached_property
    def stamped_by_the_broker(self) -> str:
        """Its timestamps are those of the append."""
        records = [*numbered(0, 20), *numbered(1, 20)]
        return self._made("stamped", 2, records, **{"message.timestamp.type": "LogAppendTime"})

    @cached_property
    def compacted(self) -> str:
        """Most offsets of its partition are gone; the last record of every key remains."""
        settings = {
            "cleanup.policy": "compact",
            "segment.ms": 100,
            "min.cleanable.dirty.ratio": 0.001,
            "min.compaction.lag.ms": 0,
            "max.compaction.lag.ms": 100,
        }
        name = self._made("compacted", 1, numbered(0, 500), **settings)
        deadline = time.monotonic() + 3 * PATIENCE
        while self.count(name, 0) > 300:
            # Only a closed segment is compacted, and only a write closes one.
            self.write(name, [Written(0, b"tick", b"tock")])
            if time.monotonic() > deadline:
                raise TimeoutError("the broker has compacted nothing")
            time.sleep(0.5)
        return name

    # -- by hand

    def create(self, name: str, partitions: int, **settings: object) -> str:
        """Create a topic for a single test; return its full name."""
        return self._create(f"{name}-{uuid.uuid4().hex[:6]}", partitions, **settings)

    def create_exactly(self, name: str, partitions: int) -> None:
        """Create a topic with exactly this name."""
        self._kafka.create_topic(name, partitions, None, {})

    def write(self, topic: str, records: Iterable[Written], **options: Any) -> None:
        """Write records in order; return once they are stored."""

        async def write(producer: AIOKafkaProducer) -> None:
            await _send(producer, topic, records)

        self._with_producer(write, **options)

    def fill(self, topic: str, partitions: int, each: int, size: int = 100, **options: Any) -> None:
        """Write `each` records with values of `size` bytes to each of the partitions."""

        async def write(producer: AIOKafkaProducer) -> None:
            value = bytes(index * 7 % 251 for index in range(size))
            for first in range(0, each, CHUNK):
                acks = [
                    (await producer.send_many(topic, [value] * count, partition=partition))[-1]
                    for partition in range(partitions)
                    for count in [min(CHUNK, each - first)]
                ]
                for ack in acks:
                    await ack

        self._with_producer(write, **options)

    def delete_before(self, topic: str, offsets: dict[int, int]) -> None:
        """Move the start of partitions (as retention does in the background)."""
        partitions = [DeleteRecordsPartition(*each) for each in offsets.items()]
        request = DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)], 30_000)

        async def delete(client: AIOKafkaClient) -> None:
            response = await client.send(_any_node(client), request)
            for partition in response.topics[0].partitions:
                if partition.error_code:
                    raise for_code(partition.error_code)(str(partition))

        self._with_client(delete)

    def add_partitions(self, topic: str, count: int) -> None:
        """Give `topic` `count` partitions; return once the broker leads them."""
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 30_000)

        async def add(client: AIOKafkaClient) -> None:
            response = await client.send(_any_node(client), request)
            if response.results[0].error_code:
                raise for_code(response.results[0].error_code)(str(response.results[0]))
            deadline = time.monotonic() + PATIENCE
            while True:
                known = await client.fetch_all_metadata()
                if len(known.available_partitions_for_topic(topic) or ()) == count:
                    return
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} has not got its {count} partitions")
                await asyncio.sleep(0.1)

        self._with_client(add)

    def count(self, topic: str, partition: int) -> int:
        """The number of records in that partition."""
        place = TopicPartition(topic, partition)

        async def count(consumer: AIOKafkaConsumer) -> int:
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end, found = (await consumer.end_offsets([place]))[place], 0
            while await consumer.position(place) < end:
                found += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
            return found

        servers = self.bootstrap_servers
        found: int = asyncio.run(
            _within(lambda: AIOKafkaConsumer(bootstrap_servers=servers), count)
        )
        return found

    # -- making them

    def _create(self, name: str, partitions: int, **settings: object) -> str:
        full = f"{self._name}-{name}"
        self._kafka.create_topic(full, partitions, None, settings)
        return full

    def _made(
        self, name: str, partitions: int, records: Iterable[Written], **settings: object
    ) -> str:
        topic = self._create(name, partitions, **settings)
        self.write(topic, records)
        return topic

    def _await_markers(self, topic: str, partitions: int) -> None:
        """Wait until all transactions have their markers: Kafka writes them after it has answered.

        Until then two readers may see different ends.
        """
        places = [TopicPartition(topic, number) for number in range(partitions)]
        servers = self.bootstrap_servers

        async def wait(committed: AIOKafkaConsumer) -> None:
            async with (
                AIOKafkaConsumer(bootstrap_servers=servers) as every,
                asyncio.timeout(PATIENCE),
            ):
                while await committed.end_offsets(places) != await every.end_offsets(places):
                    await asyncio.sleep(0.05)

        options: dict[str, Any] = {"isolation_level": "read_committed"}
        asyncio.run(_within(lambda: AIOKafkaConsumer(bootstrap_servers=servers, **options), wait))

    def _with_client(self, use: Callable[[AIOKafkaClient], Awaitable[None]]) -> None:
        servers = self.bootstrap_servers
        asyncio.run(_within(lambda: AIOKafkaClient(bootstrap_servers=servers), use))

    def _with_producer(
        self, write: Callable[[AIOKafkaProducer], Awaitable[None]], **options: Any
    ) -> None:
        servers = self.bootstrap_servers
        asyncio.run(_within(lambda: AIOKafkaProducer(bootstrap_servers=servers, **options), write))


async def _within(
    make: Callable[[], AbstractAsyncContextManager[Any]], use: Callable[[Any], Awaitable[Any]]
) -> Any:
    async with make() as running:  # made in the loop in which it runs
        return await use(running)


async def _send(producer: AIOKafkaProducer, topic: str, records: Iterable[Written]) -> None:
    acks = [
        await producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp,
            headers=list(record.headers) or None,
        )
        for record in records
    ]
    for ack in acks:
        await ack


def _any_node(client: AIOKafkaClient) -> int:
    node = client.get_random_node()
    if node is None:
        raise RuntimeError("no broker is known")
    return node
