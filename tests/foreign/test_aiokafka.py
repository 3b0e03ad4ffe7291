"""aiokafka 0.14 against the embedded broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.foreign.work import (
    CODECS,
    COUNT,
    EXPECTED_OFFSETS,
    PARTITIONS,
    Read,
    entries,
    expected,
)

aiokafka = pytest.importorskip("aiokafka")
admin_api = pytest.importorskip("aiokafka.admin")
errors = pytest.importorskip("aiokafka.errors")

ORDERS = [aiokafka.TopicPartition("orders", index) for index in range(PARTITIONS)]


async def until(condition: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def producer_of(cluster: FakeCluster, **options: Any) -> Any:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        **{"retry_backoff_ms": 20, "enable_idempotence": True, **options},
    )


@asynccontextmanager
async def consumer_of(cluster: FakeCluster, *topics: str, **options: Any) -> AsyncIterator[Any]:
    defaults = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,
        "retry_backoff_ms": 20,
        "heartbeat_interval_ms": 100,
    }
    consumer = aiokafka.AIOKafkaConsumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, **{**defaults, **options}
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def produce(cluster: FakeCluster, topic: str, **options: Any) -> list[int]:
    """Send all entries; return the offsets of their acknowledgements."""
    async with producer_of(cluster, **options) as producer:
        sent = [
            await producer.send(
                topic,
                entry.value,
                key=entry.key,
                partition=entry.partition,
                headers=entry.headers,
                timestamp_ms=entry.timestamp,
            )
            for entry in entries()
        ]
        return [metadata.offset for metadata in await asyncio.gather(*sent)]


async def send(cluster: FakeCluster, topic: str, values: Iterable[int]) -> None:
    """Spread values over the partitions of a topic."""
    async with producer_of(cluster) as producer:
        for value in values:
            await producer.send(topic, b"%d" % value, partition=value % PARTITIONS)


async def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` records of a consumer."""
    async with asyncio.timeout(20):
        return [await consumer.getone() for _ in range(count)]


async def read_all(cluster: FakeCluster, topic: str) -> dict[int, list[Read]]:
    """All entries of a topic, by partition."""
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    tps = [aiokafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with consumer_of(cluster) as consumer:
        consumer.assign(tps)
        for r in await read(consumer, COUNT):
            logs[r.partition].append((r.offset, r.timestamp, r.key, r.value, list(r.headers)))
        ends = await consumer.end_offsets(tps)
        assert list(ends.values()) == [COUNT // PARTITIONS] * PARTITIONS
        times = await consumer.offsets_for_times({tps[1]: 1031, tps[2]: 1000 + COUNT})
        assert (times[tps[1]].offset, times[tps[2]]) == (10, None)
    return logs


# Producing and reading by assignment


@pytest.mark.parametrize("codec", CODECS)
async def test_round_trip(codec: str | None) -> None:
    async with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        assert await produce(cluster, "orders", compression_type=codec) == EXPECTED_OFFSETS
        assert await read_all(cluster, "orders") == expected()


async def test_faults_cause_no_duplicates() -> None:
    async with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        cluster.control(ApiKey.PRODUCE, error=6)
        cluster.control(ApiKey.PRODUCE, disconnect=True, after_handling=True)
        cluster.move_leader("orders", 0, 1)
        assert await produce(cluster, "orders") == EXPECTED_OFFSETS
        assert await read_all(cluster, "orders") == expected()


async def test_round_trip_over_a_killed_broker() -> None:
    async with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        async with producer_of(cluster) as producer:
            for value in range(30):
                await producer.send("orders", b"%d" % value, partition=value % PARTITIONS)
            cluster.kill(0)
            for value in range(30, 60):
                await producer.send("orders", b"%d" % value, partition=value % PARTITIONS)
        await cluster.restart(0)
        cluster.kill(1)
        async with consumer_of(cluster, "orders") as consumer:
            values = sorted(int(record.value) for record in await read(consumer, 60))
        assert values == list(range(60))


# Groups


async def test_no_record_is_lost_while_members_join_and_leave() -> None:
    async with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        seen: list[int] = []
        running: dict[Any, asyncio.Task[None]] = {}

        async def work(consumer: Any) -> None:
            async for record in consumer:
                seen.append(int(record.value))
                await consumer.commit()

        def shared(*consumers: Any) -> bool:
            parts = [consumer.assignment() for consumer in consumers]
            return sum(map(len, parts)) == PARTITIONS == len(set().union(*parts)) and all(parts)

        async with consumer_of(cluster, "orders", group_id="workers") as first:
            running[first] = asyncio.create_task(work(first))
            await send(cluster, "orders", range(30))
            await until(lambda: len(set(seen)) == 30)
            async with consumer_of(cluster, "orders", group_id="workers") as second:
                running[second] = asyncio.create_task(work(second))
                await until(lambda: shared(first, second))
                await send(cluster, "orders", range(30, 60))
                await until(lambda: len(set(seen)) == 60)
                running[second].cancel()
                await asyncio.wait([running[second]])
            await until(lambda: shared(first))
            await send(cluster, "orders", range(60, 90))
            await until(lambda: len(set(seen)) == 90)
            running[first].cancel()
            await asyncio.wait([running[first]])
        assert set(seen) == set(range(90))


async def test_group_resumes_at_its_committed_offsets() -> None:
    async with FakeCluster(1, {"orders": PARTITIONS}) as cluster:
        await send(cluster, "orders", range(30))
        async with consumer_of(cluster, "orders", group_id="workers") as consumer:
            await read(consumer, 30)
            await consumer.commit()
        await send(cluster, "orders", range(30, 36))
        async with consumer_of(cluster, "orders", group_id="workers") as consumer:
            values = sorted(int(record.value) for record in await read(consumer, 6))
            assert values == list(range(30, 36))
            assert [await consumer.committed(tp) for tp in ORDERS] == [10] * PARTITIONS


async def test_auto_commit() -> None:
    async with FakeCluster(1, {"orders": PARTITIONS}) as cluster:
        await send(cluster, "orders", range(30))
        options = {"enable_auto_commit": True, "auto_commit_interval_ms": 50}
        async with consumer_of(cluster, "orders", group_id="workers", **options) as consumer:
            await read(consumer, 30)
            async with asyncio.timeout(20):
                while [await consumer.committed(tp) for tp in ORDERS] != [10] * PARTITIONS:
                    await asyncio.sleep(0.02)


async def test_group_survives_its_coordinator() -> None:
    async with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        await send(cluster, "orders", range(30))
        async with consumer_of(cluster, "orders", group_id="workers") as consumer:
            await read(consumer, 30)
            await consumer.commit()
            cluster.kill(cluster.state.coordinators.node_of(0, "workers").node_id)
            await send(cluster, "orders", range(30, 60))
            values = {int(record.value) for record in await read(consumer, 30)}
            assert values == set(range(30, 60))
            await consumer.commit()


# Transactions


async def values_of(
    cluster: FakeCluster, count: int, isolation: str = "read_committed"
) -> list[bytes]:
    """The values of partition 0, up to a count."""
    async with consumer_of(cluster, isolation_level=isolation) as consumer:
        consumer.assign(ORDERS[:1])
        return [record.value for record in await read(consumer, count)]


async def test_transactions_are_committed_and_aborted() -> None:
    async with FakeCluster(3, {"orders": 1}) as cluster:
        async with producer_of(cluster, transactional_id="till") as producer:
            for number in range(4):
                await producer.begin_transaction()
                for record in range(3):
                    await producer.send("orders", b"%d.%d" % (number, record))
                if number % 2:
                    await producer.flush()
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        committed = [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]
        assert await values_of(cluster, 6) == committed
        assert len(await values_of(cluster, 12, "read_uncommitted")) == 12


async def test_successor_fences_and_aborts() -> None:
    async with FakeCluster(1, {"orders": 1}) as cluster:
        first = producer_of(cluster, transactional_id="till")
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait("orders", b"open")
        async with producer_of(cluster, transactional_id="till") as second:
            async with second.transaction():
                await second.send("orders", b"committed")
            assert await values_of(cluster, 1) == [b"committed"]
            with pytest.raises((errors.ProducerFenced, errors.KafkaError)):
                await first.send_and_wait("orders", b"fenced")
            with pytest.raises(errors.KafkaError):
                await first.commit_transaction()
        await first.stop()
        assert await values_of(cluster, 2, "read_uncommitted") == [b"open", b"committed"]


async def test_offsets_are_committed_within_transactions() -> None:
    async with FakeCluster(1, {"orders": PARTITIONS, "bills": 1}) as cluster:
        await send(cluster, "orders", range(30))
        async with producer_of(cluster, transactional_id="till") as producer:
            for commits, offset in ((False, None), (True, 10)):
                async with consumer_of(cluster, "orders", group_id="workers") as consumer:
                    await producer.begin_transaction()
                    for record in await read(consumer, 30):
                        await producer.send("bills", record.value)
                    positions = {tp: await consumer.position(tp) for tp in ORDERS}
                    await producer.send_offsets_to_transaction(positions, "workers")
                    if commits:
                        await producer.commit_transaction()
                    else:
                        await producer.abort_transaction()
                    assert {await consumer.committed(tp) for tp in ORDERS} == {offset}


# Admin


@asynccontextmanager
async def admin_of(cluster: FakeCluster) -> AsyncIterator[Any]:
    admin = admin_api.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def test_topics_and_their_configurations() -> None:
    async with FakeCluster(3) as cluster, admin_of(cluster) as admin:
        new = admin_api.NewTopic("orders", 2, 3, topic_configs={"retention.ms": "5000"})
        assert (await admin.create_topics([new])).topic_errors[0][1] == 0
        await admin.create_partitions({"orders": admin_api.NewPartitions(4)})
        (described,) = await admin.describe_topics(["orders"])
        assert len(described["partitions"]) == 4
        assert await admin.list_topics() == ["orders"]
        assert len((await admin.describe_cluster())["brokers"]) == 3
        resource = admin_api.config_resource.ConfigResource(
            admin_api.config_resource.ConfigResourceType.TOPIC, "orders"
        )
        (answer,) = await admin.describe_configs([resource])
        configs = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        assert configs["retention.ms"] == "5000"
        await admin.delete_topics(["orders"])
        assert await admin.list_topics() == []


async def test_groups_and_their_offsets() -> None:
    async with FakeCluster(3, {"orders": PARTITIONS}) as cluster, admin_of(cluster) as admin:
        await send(cluster, "orders", range(30))
        async with consumer_of(cluster, "orders", group_id="workers") as consumer:
            await read(consumer, 30)
            await consumer.commit()
            assert await admin.list_consumer_groups() == [("workers", "consumer")]
            (answer,) = await admin.describe_consumer_groups(["workers"])
            (group,) = answer.groups
            assert group[:3] == (0, "workers", "Stable")
        offsets = await admin.list_consumer_group_offsets("workers")
        assert [offsets[tp].offset for tp in ORDERS] == [10] * PARTITIONS


async def test_records_are_deleted() -> None:
    async with FakeCluster(2, {"orders": PARTITIONS}) as cluster, admin_of(cluster) as admin:
        await produce(cluster, "orders")
        deleted = await admin.delete_records({ORDERS[1]: admin_api.RecordsToDelete(40)})
        assert deleted == {ORDERS[1]: 40}
        async with consumer_of(cluster) as consumer:
            assert await consumer.beginning_offsets(ORDERS[1:2]) == {ORDERS[1]: 40}
