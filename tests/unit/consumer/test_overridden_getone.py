"""Iteration calls a `getone` that a subclass overrides or a tracer patched, as in aiokafka."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

COUNT = 5


class Counting(AIOKafkaConsumer):
    seen = 0

    async def getone(self, *partitions: Any) -> Any:
        record = await super().getone(*partitions)
        self.seen += 1
        return record


class Own(AIOKafkaConsumer):
    async def __anext__(self) -> Any:
        record = await super().__anext__()
        record.seen = True
        return record


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}) as running:
        for number in range(COUNT):
            running.produce("orders", b"%d" % number)
        yield running


@pytest.fixture
def unpatched() -> Iterator[None]:
    own = AIOKafkaConsumer.getone
    yield
    AIOKafkaConsumer.getone = own  # type: ignore[method-assign]


def make(cluster: FakeCluster, kind: type[AIOKafkaConsumer] = AIOKafkaConsumer) -> Any:
    return kind("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")


async def values(consumer: AIOKafkaConsumer) -> list[bytes]:
    found: list[bytes] = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == COUNT:
            break
    return found


async def test_iteration_of_a_subclass_goes_through_its_getone(cluster: FakeCluster) -> None:
    async with make(cluster, Counting) as consumer:
        assert await values(consumer) == [b"%d" % number for number in range(COUNT)]
        assert consumer.seen == COUNT


async def test_iteration_of_a_subclass_goes_through_its_anext(cluster: FakeCluster) -> None:
    async with make(cluster, Own) as consumer:
        async for record in consumer:
            assert record.seen
            break


@pytest.mark.parametrize("on", ["class", "object"])
async def test_iteration_goes_through_a_patched_getone(
    cluster: FakeCluster, unpatched: None, on: str
) -> None:
    own, seen = AIOKafkaConsumer.getone, []

    async def traced(self: AIOKafkaConsumer, *partitions: Any) -> Any:
        record = await own(self, *partitions)
        seen.append(record.offset)
        return record

    async with make(cluster) as consumer:
        if on == "class":
            AIOKafkaConsumer.getone = traced  # type: ignore[method-assign]
        else:
            consumer.getone = traced.__get__(consumer)
        assert len(await values(consumer)) == COUNT
    assert seen == list(range(COUNT))


async def test_iteration_through_an_overridden_getone_ends_when_stopped(
    cluster: FakeCluster,
) -> None:
    consumer = make(cluster, Counting)
    await consumer.start()
    await values(consumer)
    waiting = asyncio.ensure_future(values(consumer))
    await asyncio.sleep(0)
    await consumer.stop()
    assert await waiting == []
