"""Offsets of records read before an interruption of the assignment are never committed later, even
with an equal generation or member epoch; on the embedded cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.errors import CommitFailedError, IllegalGenerationError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

INPUT, OUTPUT, GROUP = "orders", "meals", "kitchen"
P0 = TopicPartition(INPUT, 0)
CONFIG = {
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}

Make = Callable[..., Any]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    topics = {INPUT: 2, OUTPUT: 1}
    async with FakeCluster(topics=topics, broker_configs=CONFIG) as cluster:
        for number in range(40):
            cluster.produce(INPUT, b"%d" % number, partition=number % 2)
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[Make]:
    """Creates and starts a consumer of the group; stops it after the test."""
    made: list[AIOKafkaConsumer] = []

    async def make(**options: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            INPUT,
            **{
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": GROUP,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "retry_backoff_ms": 10,
                "fetch_max_wait_ms": 50,
                **options,
            },
        )
        made.append(consumer)
        await consumer.start()
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="cook", retry_backoff_ms=10
    ) as producer:
        yield producer


async def read(consumer: AIOKafkaConsumer, wanted: int = 1) -> dict[TopicPartition, int]:
    """The offsets after this many records."""
    offsets: dict[TopicPartition, int] = {}
    taken = 0
    async with asyncio.timeout(10):
        while taken < wanted:
            for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                taken += len(records)
                offsets[tp] = records[-1].offset + 1
    return offsets


async def refused(
    cluster: FakeCluster, producer: AIOKafkaProducer, offsets: dict[TopicPartition, int], group: Any
) -> None:
    """Check that the open transaction rejects the offsets and commits nothing."""
    before = dict(cluster.committed(GROUP))
    asked = cluster.count(ApiKey.TXN_OFFSET_COMMIT)
    with pytest.raises(CommitFailedError, match="abort the transaction"):
        await producer.send_offsets_to_transaction(offsets, group)
    assert cluster.count(ApiKey.TXN_OFFSET_COMMIT) == asked
    with pytest.raises(CommitFailedError):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert cluster.committed(GROUP) == before


async def joined(consumer: AIOKafkaConsumer, *, after: int) -> None:
    """Wait for an assignment after this many rebalances."""
    assert consumer._core.group is not None
    membership = consumer._core.group.driver.membership
    async with asyncio.timeout(10):
        while membership.counters.rebalances <= after or membership.rejoin_needed:
            await asyncio.sleep(0.01)


def rebalances(consumer: AIOKafkaConsumer) -> int:
    assert consumer._core.group is not None
    return consumer._core.group.driver.membership.counters.rebalances


async def test_offsets_from_before_a_rejoin_in_the_same_generation_are_refused(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    """The coordinator returns the same generation to a follower whose rejoin changes nothing."""
    await make()  # leads
    consumer = await make(heartbeat_interval_ms=50)
    await joined(consumer, after=0)
    offsets = await read(consumer)
    group, before = consumer.group_metadata(), rebalances(consumer)
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    cluster.control(
        ApiKey.HEARTBEAT,
        error=IllegalGenerationError,
        when=lambda request: request.member_id == group.member_id,
    )
    await joined(consumer, after=before)
    current = consumer._core.group.driver.membership.group_metadata()  # type: ignore[union-attr]
    assert current == group, "the coordinator could tell them apart"
    assert await read(consumer) == offsets, "the same records are read again"
    await refused(cluster, producer, offsets, group)


async def test_a_plain_commit_of_a_reassigned_partition_is_refused_until_the_next_read(
    cluster: FakeCluster, make: Make
) -> None:
    await make()
    consumer = await make()
    await joined(consumer, after=0)
    offsets = await read(consumer)
    before = rebalances(consumer)
    consumer.enforce_rebalance("test")
    await joined(consumer, after=before)
    with pytest.raises(CommitFailedError, match="revoked orders-0"):
        await consumer.commit(offsets)
    assert not cluster.committed(GROUP)
    offsets = await read(consumer)
    await consumer.commit(offsets)
    assert cluster.committed(GROUP) == offsets


async def test_a_listener_may_commit_reassigned_partitions(
    cluster: FakeCluster, make: Make
) -> None:
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        async def on_partitions_assigned(self, assigned: Any) -> None:
            await consumer.commit(dict.fromkeys(assigned, 3))

    await make()
    consumer = await make()
    consumer.subscribe([INPUT], listener=Listener())
    await read(consumer)
    before = rebalances(consumer)
    consumer.enforce_rebalance("test")
    await joined(consumer, after=before)
    (tp,) = consumer.assignment()
    assert cluster.committed(GROUP)[tp] == 3


async def test_unresponsive_coordinator_loses_neither_partitions_nor_transaction(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    consumer = await make(session_timeout_ms=3000, heartbeat_interval_ms=100)
    offsets = await read(consumer)
    group = consumer.group_metadata()
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    await producer.flush()
    cluster.kill(0)
    await asyncio.sleep(4)  # longer than the session
    await cluster.restart(0)  # restarts every session
    assert consumer.assignment() == set(offsets)
    await producer.send_offsets_to_transaction(offsets, group)
    await producer.commit_transaction()
    assert cluster.committed(GROUP) == offsets
    positions = {tp: await consumer.position(tp) for tp in offsets}
    assert positions == offsets, "nothing is read again"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("instance_id", [None, "static"])
async def test_offsets_from_before_an_unsubscribe_are_refused(
    protocol: str,
    instance_id: str | None,
    cluster: FakeCluster,
    make: Make,
    producer: AIOKafkaProducer,
) -> None:
    """A static member of either protocol can return to the generation that it left."""
    consumer = await make(group_protocol=protocol, group_instance_id=instance_id)
    offsets = await read(consumer)
    group = consumer.group_metadata()
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    consumer.unsubscribe()
    consumer.subscribe([INPUT])
    await read(consumer)
    await refused(cluster, producer, offsets, group)


async def test_listener_may_send_offsets_of_partitions_being_revoked(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    sent: list[bool] = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if revoked:
                group = consumer.group_metadata()
                await producer.send_offsets_to_transaction(offsets, group)
                await producer.commit_transaction()
                sent.append(True)

        def on_partitions_assigned(self, assigned: Any) -> None: ...

    consumer = await make()
    consumer.subscribe([INPUT], listener=Listener())
    offsets = await read(consumer)
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    consumer.unsubscribe()
    await consumer.stop()
    assert sent == [True]
    assert cluster.committed(GROUP) == offsets


async def test_a_partition_revoked_in_a_cooperative_rebalance_is_refused_and_others_are_not(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    strategy = {"partition_assignment_strategy": [CooperativeStickyPartitionAssignor]}
    consumer = await make(**strategy, heartbeat_interval_ms=50)
    offsets = await read(consumer, 40)
    assert len(offsets) == 2
    group = consumer.group_metadata()
    other = await make(**strategy)
    async with asyncio.timeout(10):
        while len(consumer.assignment()) != 1 or len(other.assignment()) != 1:
            await asyncio.sleep(0.01)
    (gone,) = other.assignment()
    await producer.begin_transaction()
    await refused(cluster, producer, {gone: offsets[gone]}, group)


async def test_offsets_are_refused_after_seek_to_committed(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    consumer = await make()
    offsets = await read(consumer)
    await consumer.commit(dict.fromkeys(offsets, 1))
    group = consumer.group_metadata()
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    await consumer.seek_to_committed()
    await refused(cluster, producer, offsets, group)
    offsets = await read(consumer)
    async with producer.transaction():
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    assert cluster.committed(GROUP) == offsets


async def test_offsets_read_during_seek_to_committed_are_refused(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    """By another task, while the committed offsets are being fetched."""
    consumer = await make()
    offsets = await read(consumer)
    await consumer.commit(dict.fromkeys(offsets, 1))
    await consumer.seek_to_committed()
    fetching = cluster.control(ApiKey.OFFSET_FETCH, delay=0.3)
    going_back = asyncio.create_task(consumer.seek_to_committed())
    await fetching.struck()
    offsets = await read(consumer)
    group = consumer.group_metadata()
    await going_back
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    await refused(cluster, producer, offsets, group)
    assert await read(consumer) == offsets


async def test_seek_to_committed_fetches_again_what_was_read_and_committed_meanwhile(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    """By another task, whose transaction ends before the response arrives."""
    consumer = await make()
    offsets = await read(consumer)
    await consumer.commit(dict.fromkeys(offsets, 0))
    await consumer.seek_to_committed()
    cluster.control(ApiKey.OFFSET_FETCH, delay=0.5, after_handling=True)
    going_back = asyncio.create_task(consumer.seek_to_committed())
    await asyncio.sleep(0)
    offsets = await read(consumer)
    async with producer.transaction():
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    assert not going_back.done()
    assert await going_back == offsets
    assert {tp: await consumer.position(tp) for tp in offsets} == offsets


async def test_a_transaction_whose_offsets_were_accepted_too_late_is_aborted(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    """The response arrives after the position may have been fetched again, so it is ignored."""
    consumer = await make()
    offsets = await read(consumer)
    group = consumer.group_metadata()
    await producer.begin_transaction()
    await producer.send(OUTPUT, b"x")
    cluster.control(ApiKey.TXN_OFFSET_COMMIT, delay=0.3)
    asked = cluster.count(ApiKey.TXN_OFFSET_COMMIT)
    sending = asyncio.create_task(producer.send_offsets_to_transaction(offsets, group))
    async with asyncio.timeout(10):
        while cluster.count(ApiKey.TXN_OFFSET_COMMIT) == asked:
            await asyncio.sleep(0.01)
    consumer.unsubscribe()
    with pytest.raises(CommitFailedError, match="took orders-"):
        await sending
    with pytest.raises(CommitFailedError):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert not cluster.committed(GROUP)


async def test_manually_assigned_partitions_are_refused_after_unassignment(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign([P0])
        offsets = await read(consumer)
        group = consumer.group_metadata()
        await producer.begin_transaction()
        consumer.assign([])
        consumer.assign([P0])
        await refused(cluster, producer, offsets, group)
