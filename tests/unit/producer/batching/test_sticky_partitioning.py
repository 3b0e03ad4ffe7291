"""Partitions of records without a key: adaptive sticky partitioning (KIP-794), in both builds."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from aiokafka_lite.cluster.metadata import Node, Partition
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.testing import FakeCluster
from tests.unit.producer.batching.test_accumulator import Bench

pytestmark = pytest.mark.unhurried

PARTITIONS = 4
BATCH = 300  # bytes, of the bench
Make = Callable[..., Any]


class Topic:
    """One topic of an accumulator, and the sender's part of the work."""

    def __init__(self, room: dict[str, ModuleType], **options: Any) -> None:
        self.bench = Bench(room, buffer_memory=1 << 20, **options)
        self.accumulator = self.bench.accumulator
        leaders = {number: Partition(number, leader=0) for number in range(PARTITIONS)}
        self.topic = self.accumulator.adopt("sticky", leaders)

    def send(self, size: int = 50) -> int:
        """Send one record; return its partition."""
        ack = self.accumulator.append("sticky", b"x" * size, None, None, 1, None)
        assert ack is not None
        queue = self.topic.sticky
        assert queue.open is not None
        return queue.topic_partition.partition

    def take(self, partition: int) -> None:
        """Do what the sender does with a partition's batch, with a successful response."""
        queue = self.topic.queues[partition]
        batch = self.accumulator.seal(queue)
        self.accumulator.take(queue)
        self.accumulator.land(queue, batch)
        self.accumulator.acknowledge(queue, batch, 0, -1, 0)


@pytest.fixture
def topic(room: dict[str, ModuleType]) -> Callable[..., Topic]:
    return lambda **options: Topic(room, **options)


async def test_batches_that_leave_early_keep_their_partition_until_one_is_full_in_sum(
    topic: Callable[..., Topic],
) -> None:
    it = topic()
    chosen = []
    for _ in range(30):
        chosen.append(it.send())
        it.take(chosen[-1])
    runs = [list(run) for run in grouped(chosen)]
    # 61 bytes of header and 57 of record: the third batch fills 300.
    assert {len(run) for run in runs} == {3}
    assert set(chosen) == set(range(PARTITIONS))


def grouped(values: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if not runs or runs[-1][-1] != value:
            runs.append([])
        runs[-1].append(value)
    return runs


async def test_a_full_batch_moves_on_at_once(topic: Callable[..., Topic]) -> None:
    it = topic()
    chosen = [it.send(200) for _ in range(8)]
    assert all(len(run) == 1 for run in grouped(chosen))


async def test_partitions_where_batches_pile_up_are_given_less(
    topic: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", random.Random(5).random)
    it = topic()
    for _ in range(12):
        it.accumulator.append("sticky", b"x" * 200, None, 1, 1, None)  # a slow broker's
    given: Counter[int] = Counter()
    for _ in range(400):
        partition = it.send(200)
        given[partition] += 1
        if partition != 1:
            it.take(partition)
    others = [given[partition] for partition in (0, 2, 3)]
    assert given[1] < min(others) / 4
    assert max(others) - min(others) < 60


async def test_without_adaption_all_get_the_same(topic: Callable[..., Topic]) -> None:
    it = topic(partitioner_adaptive_partitioning_enable=False)
    for _ in range(12):
        it.accumulator.append("sticky", b"x" * 200, None, 1, 1, None)
    given = Counter(it.send(200) for _ in range(400))
    assert set(given.values()) == {100}


async def test_a_broker_that_takes_nothing_is_avoided(
    topic: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", random.Random(5).random)
    it = topic(partitioner_availability_timeout_ms=500)
    stalled = SimpleNamespace(stalled_for=lambda now: 0.6)
    for number, queue in enumerate(it.topic.queues):
        queue.outbox = stalled if number == 2 else SimpleNamespace(stalled_for=lambda now: 0.4)
    given: Counter[int] = Counter()
    for _ in range(200):
        partition = it.send(200)
        given[partition] += 1
        if partition != 2:
            it.take(partition)
    assert given[2] < 10
    assert min(given[partition] for partition in (0, 1, 3)) > 40


async def test_the_first_record_of_a_topic_goes_to_a_partition_with_a_leader(
    topic: Callable[..., Topic],
) -> None:
    it = topic()
    leaders = {number: Partition(number, leader=0 if number == 2 else -1) for number in range(4)}
    for number in range(20):
        fresh = it.accumulator.adopt(f"fresh-{number}", leaders)
        it.accumulator.append(f"fresh-{number}", b"x", None, None, 1, None)
        assert fresh.queues[2].waiting


RACKS = {"partitioner_rack_aware": True, "client_rack": "b"}
BROKERS = {n: Node(n, "localhost", 9092, rack) for n, rack in enumerate("abb")}
LEADERS = {number: Partition(number, leader=number % 3) for number in range(PARTITIONS)}


@pytest.mark.parametrize("adaptive", [True, False])
async def test_records_stay_in_the_rack(topic: Callable[..., Topic], adaptive: bool) -> None:
    it = topic(**RACKS, partitioner_adaptive_partitioning_enable=adaptive)
    for _ in range(50):
        fresh = it.accumulator.adopt("fresh", LEADERS, brokers=BROKERS)
        it.accumulator.append("fresh", b"x", None, None, 1, None)
        assert fresh.sticky.topic_partition.partition in (1, 2), "the first one, too"
        del it.accumulator.topics["fresh"]
    it.accumulator.adopt("sticky", LEADERS, brokers=BROKERS)
    it.topic.move_on()
    assert {it.send(200) for _ in range(40)} == {1, 2}
    it.accumulator.append("sticky", b"x" * 200, b"key", 3, 1, None)
    assert it.topic.queues[3].waiting, "an explicit partition is not replaced"


async def test_records_leave_a_rack_without_leaders(topic: Callable[..., Topic]) -> None:
    it = topic(**RACKS)
    elsewhere = {number: Partition(number, leader=0 if number else -1) for number in range(4)}
    it.accumulator.adopt("sticky", elsewhere, brokers=BROKERS)
    it.topic.move_on()
    assert {it.send(200) for _ in range(40)} == {1, 2, 3}


async def test_records_leave_a_rack_whose_brokers_take_nothing(topic: Callable[..., Topic]) -> None:
    it = topic(**RACKS, partitioner_availability_timeout_ms=500)
    it.accumulator.adopt("sticky", LEADERS, brokers=BROKERS)
    stalled = {1: 0.6, 2: 0.6}
    for number, queue in enumerate(it.topic.queues):
        queue.outbox = SimpleNamespace(stalled_for=lambda now, n=number: stalled.get(n, 0.0))
    it.topic.move_on()
    given = Counter(it.send(200) for _ in range(100))
    assert given[0] + given[3] > 60  # each choice compares only three
    stalled.clear()
    it.send(200)
    assert {it.send(200) for _ in range(20)} == {1, 2}


async def test_the_rack_counts_only_if_asked_to(topic: Callable[..., Topic]) -> None:
    it = topic(client_rack="b")
    it.accumulator.adopt("sticky", LEADERS, brokers=BROKERS)
    assert {it.send(200) for _ in range(40)} == set(range(PARTITIONS))
    with pytest.raises(KafkaConfigurationError, match="partitioner_rack_aware=True needs a"):
        topic(partitioner_rack_aware=True)


async def test_a_producer_writes_to_the_leaders_in_its_rack(make_producer: Make) -> None:
    async with FakeCluster(brokers=3, racks=["a", "b", "c"], topics={"orders": 6}) as cluster:
        near = {n for n in range(6) if cluster.partition("orders", n).leader == 1}
        producer = make_producer(
            cluster, partitioner_rack_aware=True, client_rack="b", max_batch_size=300
        )
        await producer.start()
        acks = [await producer.send("orders", b"x" * 200) for _ in range(20)]
        assert {(await ack).partition for ack in acks} == near


async def test_an_outbox_reports_how_long_it_has_stalled(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, partitioner_availability_timeout_ms=100)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        (outbox,) = producer._sender._outboxes.values()
        loop = asyncio.get_running_loop()
        assert outbox.stalled_for(loop.time()) == 0
        cluster.control(0, delay=1.0, times=5)
        acks = []
        for _ in range(6):  # five are in flight, the sixth has to wait
            acks.append(await producer.send("orders", b"v"))
            await asyncio.sleep(0.01)
        assert 0 < outbox.stalled_for(loop.time()) < 10
        await asyncio.gather(*acks)
        assert outbox.stalled_for(loop.time()) == 0
