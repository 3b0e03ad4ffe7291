"""What only the newer generation of the protocol allows or requires (KIP-890): its requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    NotEnoughReplicasError,
    TransactionAbortedError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        yield cluster


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_offsets_go_the_way_of_the_records(make_producer: Make, cluster: FakeCluster) -> None:
    """A broker verifies each partition's first request with the transaction's coordinator; of
    two concurrent ones, it would drop one."""
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    for number in range(3):
        async with producer.transaction():
            await producer.send("orders", b"x", partition=0)
            offsets = {TopicPartition("orders", 0): number}
            await producer.send_offsets_to_transaction(offsets, "readers")
    ways = {
        request.connection_id
        for request in cluster.requests
        if request.api_key in (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT)
    }
    assert len(ways) == 1


async def test_a_batch_does_not_wait_for_the_first_of_its_partition(
    make_producer: Make, cluster: FakeCluster
) -> None:
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    for _ in range(2):  # the second time under a new epoch
        cluster.control(ApiKey.PRODUCE, delay=0.5)
        await producer.begin_transaction()
        first = await producer.send("orders", b"1", partition=0)
        await until(lambda: producer.metrics()["requests-in-flight"] == 1)
        second = await producer.send("orders", b"2", partition=0)
        await until(lambda: producer.metrics()["requests-in-flight"] == 2)
        assert not first.done()
        await asyncio.gather(first, second)
        assert (await first).offset < (await second).offset
        await producer.commit_transaction()


@pytest.mark.parametrize(
    "error", [ConcurrentTransactions, NotEnoughReplicasError], ids=lambda error: error.__name__
)
async def test_requests_that_wait_for_the_previous_transaction_are_retried_soon(
    make_producer: Make, cluster: FakeCluster, error: type[BrokerResponseError]
) -> None:
    """For requests of old versions, brokers return the same code as for missing replicas."""
    producer = make_producer(
        cluster,
        transactional_id="payments",
        retry_backoff_ms=60_000,
        retry_backoff_max_ms=60_000,
    )
    await producer.start()
    fault = cluster.control(ApiKey.PRODUCE, error=error, times=4)
    async with asyncio.timeout(10), producer.transaction():
        for _ in range(3):
            await producer.send("orders", b"x" * 9_000, partition=0)
    assert fault.hits == 4
    assert cluster.partition("orders", 0).log.end_offset == 4  # and the marker


async def test_the_first_request_waits_for_the_transaction_before(
    make_producer: Make, cluster: FakeCluster
) -> None:
    """It is held for as long as brokers have been measured to take."""
    producer = make_producer(cluster, transactional_id="payments", linger_ms=0)
    await producer.start()
    cluster.control(ApiKey.PRODUCE, delay=0.03, times=1_000_000)
    now = asyncio.get_running_loop().time
    delay = producer._transactions._begin_delay
    async with asyncio.timeout(10):
        while not delay.hold:
            async with producer.transaction():
                await producer.send("orders", b"x", partition=0)
    delay.hold = 0.2
    opens_at = delay.opens_at()
    async with producer.transaction():
        acks = [await producer.send("orders", b"x" * 9_000, partition=0) for _ in range(3)]
        offsets = {TopicPartition("orders", 0): 1}
        await producer.send_offsets_to_transaction(offsets, "readers")
        assert now() > opens_at - 0.01, "less what clocks are rounded by"
        first = (await acks[0]).offset
        assert [(await ack).offset for ack in acks] == [first, first + 1, first + 2]


async def test_an_abort_waits_for_nothing(make_producer: Make, cluster: FakeCluster) -> None:
    producer = make_producer(cluster, transactional_id="payments", linger_ms=0)
    await producer.start()
    async with producer.transaction():
        await producer.send("orders", b"x", partition=0)
    producer._transactions._begin_delay.hold = 60.0
    await producer.begin_transaction()
    ack = await producer.send("orders", b"y", partition=0)
    async with asyncio.timeout(10):
        await producer.abort_transaction()
    with pytest.raises(TransactionAbortedError):
        await ack
    await producer.begin_transaction()
    producer._transactions._begin_delay.hold = 0.0
    async with asyncio.timeout(10):
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("orders", b"z", partition=0)
    assert cluster.partition("orders", 0).log.end_offset == 4
