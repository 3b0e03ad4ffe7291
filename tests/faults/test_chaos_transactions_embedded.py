"""Transactions on an embedded cluster in trouble: each is read whole or not at all, as was told.

CHAOS_SEED is the first of the seeds, CHAOS_SEEDS how many of them are played.
"""

import asyncio
import contextlib
import os
from collections import Counter
from random import Random

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.testing import CoordinatorType, FakeCluster
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Embedded

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CHAOS_SEEDS", "1")))
SECONDS = 4.0
TOPIC, PARTITIONS, WORKERS = "orders", 6, 3
READ_FROM = TopicPartition("input", 0)


class Worker:
    """One transactional id, whoever has it; and what it was told of each of its transactions."""

    def __init__(self, cluster: FakeCluster, name: str, seed: int) -> None:
        self.cluster = cluster
        self.name = name
        self.random = Random(f"{seed} {name}")
        self.told: dict[int, str] = {}
        self.sent: dict[int, list[int]] = {}  # partitions
        self.offset: int | None = None  # of the last transaction that was committed
        self.lives = 0
        self.errors: Counter[str] = Counter()

    async def run(self, end: asyncio.Event) -> None:
        while not end.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self.cluster.bootstrap_servers,
                transactional_id=self.name,
                request_timeout_ms=400,
                delivery_timeout_ms=self.random.choice([500, 5_000]),
                retry_backoff_ms=10,
                max_block_ms=30_000,
                max_batch_size=self.random.choice([200, 16_384]),
                linger_ms=self.random.choice([0, 5]),
            )
            self.lives += 1
            try:
                await producer.start()
                await self._live(producer, end)
            except KafkaError as error:
                self.errors[f"fatal {type(error).__name__}"] += 1
            finally:
                if self.random.random() < 0.5:
                    producer._sender.abort()  # as a SIGKILL
                await producer.stop(timeout=1)

    async def _live(self, producer: AIOKafkaProducer, end: asyncio.Event) -> None:
        for _ in range(self.random.randint(1, 60)):
            if end.is_set():
                return
            number = len(self.told)
            self.told[number] = "unknown"
            self.sent[number] = []
            await producer.begin_transaction()
            try:
                await self._send(producer, number)
                if self.random.random() < 0.2:
                    await producer.abort_transaction()
                    self.told[number] = "aborted"
                    continue
                await producer.commit_transaction()
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
                await producer.abort_transaction()
                self.told[number] = "aborted"
            else:
                self.told[number] = "committed"
                self.offset = number

    async def _send(self, producer: AIOKafkaProducer, number: int) -> None:
        for record in range(self.random.randint(1, 20)):
            partition = self.random.randrange(PARTITIONS)
            value = f"{self.name} {number} {record}".encode()
            await producer.send(TOPIC, value, partition=partition)
            self.sent[number].append(partition)
        offsets = {READ_FROM: number}
        await producer.send_offsets_to_transaction(offsets, f"group of {self.name}")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("release", ["3.9", None], ids=["adds partitions", "batches add"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_transaction_is_seen_whole_or_not_at_all(seed: int, release: str | None) -> None:
    happenings = Happenings()
    async with FakeCluster(3, {TOPIC: PARTITIONS, "input": 1}, version=release) as cluster:
        stage = Embedded(cluster, seed)
        stage.topics = [TOPIC]
        stop_faults, end = asyncio.Event(), asyncio.Event()
        workers = [Worker(cluster, f"worker-{number}", seed) for number in range(WORKERS)]
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(seed, [0, 1, 2], 0.5, 0.1),
                wire_faults(seed, [0, 1, 2], 0.3, 0.1),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            group.create_task(move_coordinators(cluster, workers, stop_faults, seed))
            for worker in workers:
                group.create_task(worker.run(end))
            await asyncio.sleep(SECONDS)
            stop_faults.set()
            end.set()
        await settle(cluster, workers)
        records = await read(cluster)
        offsets = [await committed_offset(cluster, worker) for worker in workers]
    outcomes = Counter(told for worker in workers for told in worker.told.values())
    errors = sum((worker.errors for worker in workers), Counter())
    print(f"seed {seed}: {happenings.count}, {outcomes}, {errors}")
    assert outcomes["committed"], "nothing came through"
    for worker, offset in zip(workers, offsets, strict=True):
        judge(worker, records)
        if offset != worker.offset:
            assert offset is not None
            assert worker.told[offset] == "unknown", (worker.name, offset, worker.offset)


async def move_coordinators(
    cluster: FakeCluster, workers: list[Worker], end: asyncio.Event, seed: int
) -> None:
    random = Random(seed)
    while not end.is_set():
        await asyncio.sleep(0.2)
        name = random.choice(workers).name
        kind = random.choice([CoordinatorType.TRANSACTION, CoordinatorType.GROUP])
        key = name if kind is CoordinatorType.TRANSACTION else f"group of {name}"
        with contextlib.suppress(ValueError):  # that broker is down
            cluster.move_coordinator(key, random.randrange(3), kind)


async def settle(cluster: FakeCluster, workers: list[Worker]) -> None:
    """Have what was left open aborted, as a successor does."""
    for worker in workers:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=worker.name
        ):
            pass


async def read(cluster: FakeCluster) -> Counter[tuple[str, int]]:
    """How many records of each transaction a read_committed consumer sees; all are in order."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    found: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[TopicPartition, str], tuple[int, int]] = {}
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(places)
        ends = {place: cluster.partition(*place).log.end_offset for place in places}
        async with asyncio.timeout(30):  # an open transaction would never be passed
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    for record in records:
                        assert record.value is not None
                        name, number, within = record.value.decode().split()
                        here = (int(number), int(within))
                        assert last.get((place, name), (-1, -1)) < here, "out of order, or twice"
                        last[place, name] = here
                        found[name, int(number)] += 1
    return found


def judge(worker: Worker, records: Counter[tuple[str, int]]) -> None:
    for number, told in worker.told.items():
        seen, sent = records[worker.name, number], len(worker.sent[number])
        if told == "committed":
            assert seen == sent, f"{worker.name} {number}: {seen} of {sent} were committed"
        elif told == "aborted":
            assert seen == 0, f"{worker.name} {number}: {seen} of an aborted one"
        else:
            assert seen in (0, sent), f"{worker.name} {number}: {seen} of {sent}"


async def committed_offset(cluster: FakeCluster, worker: Worker) -> int | None:
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"group of {worker.name}",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([READ_FROM])
        return await consumer.committed(READ_FROM)
