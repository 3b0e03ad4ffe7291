"""Snapshots of metrics, taken in slices in the client's event loop."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.metrics_push.snapshots import SLICE, SnapshotTimeoutError, take
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

MANY = 2 * SLICE + 1
ALL = [TopicPartition("orders", partition) for partition in range(MANY)]


async def test_snapshot_equals_the_metrics_of_the_client() -> None:
    async with FakeCluster(topics={"orders": MANY}) as cluster:
        servers = cluster.bootstrap_servers
        loop = asyncio.get_running_loop()
        async with (
            AIOKafkaConsumer(
                "orders", bootstrap_servers=servers, auto_offset_reset="earliest"
            ) as consumer,
            AIOKafkaProducer(bootstrap_servers=servers) as producer,
        ):
            async with asyncio.timeout(60):
                while any(None in each for each in lags_of(consumer).values()):
                    await consumer.getmany(timeout_ms=10)
            snapshot = await asyncio.to_thread(take, consumer, loop, 60)
            assert snapshot is not None
            found = {tp: (lag, lead) for tp, lag, lead in snapshot.partitions}
            assert found == lags_of(consumer)
            assert found.keys() == set(ALL)
            assert set(found.values()) == {(0.0, 0.0)}
            assert snapshot.metrics.keys() == consumer.metrics().keys()
            assert snapshot.metrics["assigned-partitions"] == MANY
            assert snapshot.metrics["records-lag-max"] == 0
            assert snapshot.nodes.keys() == consumer.node_metrics().keys()
            here = take(consumer, loop, 60)
            assert here is not None
            assert here.partitions == snapshot.partitions
            other = await asyncio.to_thread(take, producer, loop, 60)
            assert other is not None
            assert other.partitions == []
            assert other.metrics.keys() == producer.metrics().keys()
        assert await asyncio.to_thread(take, consumer, loop, 60) is None


def lags_of(
    consumer: AIOKafkaConsumer[Any, Any],
) -> dict[TopicPartition, tuple[float | None, float | None]]:
    metrics = consumer.partition_metrics()
    return {tp: (each["records-lag"], each["records-lead"]) for tp, each in metrics.items()}


async def test_partitions_revoked_between_two_slices_are_omitted() -> None:
    async with FakeCluster(topics={"orders": MANY}) as cluster:
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        async with consumer:
            consumer.assign(ALL)
            reading = consumer._observe(SLICE)
            next(reading)
            consumer.assign(ALL[: SLICE + 1])
            next(reading)
            with pytest.raises(StopIteration) as end:
                next(reading)
            metrics, partitions = end.value.value
            assert [tp for tp, _, _ in partitions] == ALL[: SLICE + 1]
            assert metrics["assigned-partitions"] == SLICE + 1


async def test_the_loop_runs_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster(topics={"orders": MANY}) as cluster:
        loop = asyncio.get_running_loop()
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        async with consumer:
            consumer.assign(ALL)
            order: list[str] = []
            observe = consumer._observe

            def watched(size: int) -> Generator[None, None, Any]:
                reading = observe(size)
                while True:
                    order.append("slice")
                    loop.call_soon(order.append, "loop")
                    try:
                        next(reading)
                    except StopIteration as end:
                        return end.value
                    yield

            monkeypatch.setattr(consumer, "_observe", watched)
            assert await asyncio.to_thread(take, consumer, loop, 60) is not None
            assert order[:5] == ["slice", "loop"] * 2 + ["slice"]


async def test_abandoned_snapshot_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller times out between two slices; no further slices are read."""
    async with FakeCluster() as cluster:
        loop = asyncio.get_running_loop()
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        async with consumer:
            slices = 0

            def endless(size: int) -> Generator[None, None, Any]:
                nonlocal slices
                while True:
                    slices += 1
                    yield

            monkeypatch.setattr(consumer, "_observe", endless)
            with pytest.raises(SnapshotTimeoutError, match="does not respond"):
                await asyncio.to_thread(take, consumer, loop, 0.05)
            read = slices
            for _ in range(5):
                await asyncio.sleep(0)
            assert slices == read


async def test_an_error_of_the_client_is_raised_to_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(size: int) -> Generator[None, None, Any]:
        yield
        raise TimeoutError("of the client")

    async with FakeCluster() as cluster:
        loop = asyncio.get_running_loop()
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            monkeypatch.setattr(consumer, "_observe", fail)
            with pytest.raises(TimeoutError, match="of the client"):
                await asyncio.to_thread(take, consumer, loop, 60)
            with pytest.raises(TimeoutError, match="of the client"):
                take(consumer, loop, 60)
