"""Waiting for records counts as polling: max.poll.interval limits applications that do not read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

INTERVAL = 0.3  # seconds
KINDS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}
QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}, broker_configs=QUICK) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def make(cluster: FakeCluster, kind: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        max_poll_interval_ms=int(INTERVAL * 1000),
        **KINDS[kind],
    )


async def first_of(read: Awaitable[Any]) -> bytes:
    found = await read
    if isinstance(found, dict):
        ((record,),) = found.values()
        return bytes(record.value)
    return bytes(found.value)


READS: dict[str, Callable[[AIOKafkaConsumer], Awaitable[Any]]] = {
    "getone": lambda consumer: consumer.getone(),
    "getmany": lambda consumer: consumer.getmany(timeout_ms=20_000),
    "iteration": lambda consumer: anext(aiter(consumer)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
async def test_long_wait_in_a_read_keeps_the_membership(
    cluster: FakeCluster, kind: str, read: Callable[[AIOKafkaConsumer], Awaitable[Any]]
) -> None:
    async with make(cluster, kind) as consumer:
        generation = consumer.group_metadata().generation
        reading = asyncio.create_task(first_of(read(consumer)))
        await asyncio.wait([reading], timeout=INTERVAL * 4)
        assert consumer.assignment()
        assert consumer.group_metadata().generation == generation
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"at last")
        assert await asyncio.wait_for(reading, 5) == b"at last"


async def test_slow_start_keeps_the_membership(cluster: FakeCluster, kind: str) -> None:
    """The application cannot poll before the start has ended."""
    keys = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    slow = [cluster.control(key, error=14, times=None) for key in keys]
    consumer = make(cluster, kind)
    starting = asyncio.create_task(consumer.start())
    await asyncio.wait([starting], timeout=INTERVAL * 4)
    assert not starting.done()
    for fault in slow:
        fault.remove()
    await asyncio.wait_for(starting, 5)
    assert consumer.assignment()
    await consumer.stop()


async def test_member_that_does_not_read_leaves_and_rejoins_at_the_next_read(
    cluster: FakeCluster, kind: str
) -> None:
    async with (
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        make(cluster, kind) as consumer,
    ):
        await producer.send_and_wait("orders", b"0")
        assert await first_of(consumer.getone()) == b"0"
        loop = asyncio.get_running_loop()
        ends = loop.time() + 10
        while consumer.assignment():
            assert loop.time() < ends, "it has not left"
            await asyncio.sleep(0.01)
        await producer.send_and_wait("orders", b"1")
        # Whether its records were committed depends on timing: at worst they are delivered again.
        while await asyncio.wait_for(first_of(consumer.getone()), 10) != b"1":
            pass
