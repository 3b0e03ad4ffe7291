"""Read, process, write, in a group whose members die and fall asleep, on a cluster in trouble: the
output of each input is there exactly once, and in order.

CHAOS_SEED is the first of the seeds, CHAOS_SEEDS how many of them are played.
"""

import asyncio
import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaError, ProducerFenced
from aiokafka_lite.testing import FakeCluster
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Embedded

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CHAOS_SEEDS", "1")))
SECONDS = 6.0
INPUT, OUTPUT, GROUP = "input", "output", "workers"
PARTITIONS, WORKERS = 4, 3
SESSION = 1.0  # seconds
CONFIG = {
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
}


class Worker:
    """A member that dies and comes back, under one transactional id."""

    def __init__(self, cluster: FakeCluster, number: int, seed: int, protocol: str) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.name = f"worker-{number}"
        self.random = Random(f"{seed} {number}")
        self.protocol = protocol
        self.events: Counter[str] = Counter()

    async def run(self, end: asyncio.Event, calm: asyncio.Event) -> None:
        while not end.is_set():
            self.events["lives"] += 1
            try:
                await self._live(end, calm)
            except KafkaError as error:
                self.events[f"ended by {type(error).__name__}"] += 1

    async def _live(self, end: asyncio.Event, calm: asyncio.Event) -> None:
        timeouts: dict[str, Any] = {}
        if self.protocol == "classic":
            timeouts = {"session_timeout_ms": SESSION * 1000, "heartbeat_interval_ms": 200}
        consumer = AIOKafkaConsumer(
            INPUT,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            group_protocol=self.protocol,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=2_000,
            retry_backoff_ms=10,
            max_poll_records=20,
            max_poll_interval_ms=1_000,  # who sleeps for longer is out
            **timeouts,
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.name,
            request_timeout_ms=400,
            delivery_timeout_ms=3_000,
            retry_backoff_ms=10,
            max_block_ms=10_000,
        )
        try:
            await producer.start()
            await consumer.start()
            await self._work(consumer, producer, end, calm)
        finally:
            if self.random.random() < 0.3:
                producer._sender.abort()  # as a SIGKILL: nothing is said
            await producer.stop(timeout=1)
            await consumer.stop()

    async def _work(
        self,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        end: asyncio.Event,
        calm: asyncio.Event,
    ) -> None:
        life = self.random.randint(3, 40)
        while not end.is_set() and (life > 0 or calm.is_set()):
            batches = await consumer.getmany(timeout_ms=100)
            if not batches:
                continue
            life -= 1
            try:
                async with producer.transaction():
                    group = consumer.group_metadata()
                    for tp, records in batches.items():
                        for record in records:
                            await producer.send(OUTPUT, record.value, partition=tp.partition)
                    if self.random.random() < 0.05 and not calm.is_set():
                        self.events["slept"] += 1
                        await asyncio.sleep(SESSION * 1.5)  # others may have its partitions by now
                    offsets = {tp: records[-1].offset + 1 for tp, records in batches.items()}
                    await producer.send_offsets_to_transaction(offsets, group)
                self.events["committed"] += 1
            except ProducerFenced:
                raise
            except KafkaError as error:
                self.events[type(error).__name__] += 1
                if consumer.assignment():
                    await consumer.seek_to_committed()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_inputs_output_is_there_once(seed: int, protocol: str) -> None:
    happenings = Happenings()
    topics = {INPUT: PARTITIONS, OUTPUT: PARTITIONS, "grows": 1}
    async with FakeCluster(3, topics, broker_configs=CONFIG) as cluster:
        stage = Embedded(cluster, seed)
        stage.topics = ["grows"]  # where an output goes is its input's number: those are fixed
        stop_faults, calm, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        workers = [Worker(cluster, number, seed, protocol) for number in range(WORKERS)]
        places = [TopicPartition(INPUT, number) for number in range(PARTITIONS)]
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(seed, [0, 1, 2], 0.4, 0.3),
                wire_faults(seed, [0, 1, 2], 0.3, 0.3),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            for worker in workers:
                group.create_task(worker.run(end, calm))
            written = await write(cluster, SECONDS)
            stop_faults.set()
            calm.set()
            async with asyncio.timeout(60):
                while await left(cluster, places):
                    await asyncio.sleep(0.2)
            end.set()
        found = await read(cluster)
    events = sum((worker.events for worker in workers), Counter[str]())
    print(f"seed {seed}: {happenings.count}, {sum(written.values())} inputs, {events}")
    for number, count in written.items():
        assert found[number] == list(range(count)), f"partition {number}"
    assert events["committed"] > 10


async def write(cluster: FakeCluster, seconds: float) -> Counter[int]:
    """Numbered inputs, for a while; how many in each partition."""
    written: Counter[int] = Counter()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        while loop.time() < deadline:
            acks = []
            for number in range(PARTITIONS):
                for _ in range(5):
                    value = b"%d" % written[number]
                    acks.append(await producer.send(INPUT, value, partition=number))
                    written[number] += 1
            await asyncio.gather(*acks)
            await asyncio.sleep(0.02)
    return written


async def left(cluster: FakeCluster, places: list[TopicPartition]) -> bool:
    """Whether some input was not processed yet."""
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, enable_auto_commit=False
    ) as consumer:
        consumer.assign(places)
        return any([await consumer.committed(place) != end_of(cluster, place) for place in places])


def end_of(cluster: FakeCluster, place: TopicPartition) -> int:
    return cluster.partition(*place).log.end_offset


async def read(cluster: FakeCluster) -> dict[int, list[int]]:
    """The outputs that are committed, in their order."""
    places = [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(places)
        async with asyncio.timeout(30):
            while any([await consumer.position(each) < end_of(cluster, each) for each in places]):
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    found[place.partition] += [int(record.value or b"") for record in records]
    return found
