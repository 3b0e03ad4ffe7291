"""`exactly_once` on a real Kafka: several workers of one group that join, leave and fail."""

import asyncio
import uuid
from collections.abc import Callable
from random import Random

import pytest

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
    exactly_once,
)
from aiokafka_lite.read_process_write import TransactionBatch
from tools.kafka import RealKafka

TopicFactory = Callable[..., str]

PARTITIONS, RECORDS, WORKERS = 6, 6_000, 3


class Worker:
    """One transactional id, used by one member after the other."""

    def __init__(
        self, kafka: RealKafka, source: str, sink: str, group: str, number: int, protocol: str
    ) -> None:
        self.bootstrap = kafka.bootstrap_servers
        self.source, self.sink, self.group = source, sink, group
        self.name = f"{group}-{number}"
        self.protocol = protocol
        self.random = Random(number)
        self.lives = self.stumbles = 0

    async def run(self, end: asyncio.Event) -> None:
        while not end.is_set():
            self.lives += 1
            consumer = AIOKafkaConsumer(
                self.source,
                bootstrap_servers=self.bootstrap,
                group_id=self.group,
                group_protocol=self.protocol,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
            )
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=self.name
            )
            async with producer, consumer:
                await self._live(consumer, producer, end)

    async def _live(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, end: asyncio.Event
    ) -> None:
        life = self.random.randint(5, 15)

        async def process(batch: TransactionBatch) -> None:
            nonlocal life
            life -= 1
            for record in batch:
                await producer.send(self.sink, record.value, partition=record.partition)
            if self.random.random() < 0.2:
                raise ZeroDivisionError
            await asyncio.sleep(0.02)

        async def stop_in_time() -> None:
            while life > 0 and not end.is_set():
                await asyncio.sleep(0.05)
            await consumer.stop()

        stopping = asyncio.create_task(stop_in_time())
        while not stopping.done():
            try:
                await exactly_once(consumer, producer, max_records=100).run(process)
                break
            except ZeroDivisionError:
                self.stumbles += 1
        await stopping


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_workers_joining_and_leaving(
    kafka: RealKafka, topic: TopicFactory, protocol: str
) -> None:
    bootstrap, group = kafka.bootstrap_servers, f"workers-{uuid.uuid4().hex[:10]}"
    source, sink = topic(PARTITIONS), topic(PARTITIONS)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as feeder:
        for partition in range(PARTITIONS):
            numbers = range(partition, RECORDS, PARTITIONS)
            await feeder.send_many(source, [b"%d" % n for n in numbers], partition=partition)
        await feeder.flush()
    workers = [Worker(kafka, source, sink, group, number, protocol) for number in range(WORKERS)]
    end = asyncio.Event()
    places = [TopicPartition(source, number) for number in range(PARTITIONS)]
    async with (
        asyncio.timeout(240),
        AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        ) as watcher,
        asyncio.TaskGroup() as tasks,
    ):
        watcher.assign(places)
        for worker in workers:
            tasks.create_task(worker.run(end))
        ends = await watcher.end_offsets(places)
        while any([(await watcher.committed(place) or 0) < ends[place] for place in places]):
            await asyncio.sleep(0.1)
        end.set()
    found = await committed(bootstrap, sink)
    for partition, seen in found.items():
        assert seen == list(range(partition, RECORDS, PARTITIONS))
    assert sum(worker.stumbles for worker in workers)
    assert sum(worker.lives for worker in workers) > WORKERS


async def committed(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The records visible to a read_committed consumer, by partition."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    async with (
        AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
        AIOKafkaConsumer(bootstrap_servers=bootstrap) as other,
    ):
        consumer.assign(places)
        ends = await other.end_offsets(places)  # of all records, committed or not
        async with asyncio.timeout(30):
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, records in (await consumer.getmany(timeout_ms=100)).items():
                    found[place.partition] += [int(record.value or b"") for record in records]
    return found
