"""Leaders that stopped responding, and were replaced."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import NotLeaderForPartitionError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, Any]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafka_lite.cluster.silent_brokers.SILENCE", 0.1)
    monkeypatch.setattr("aiokafka_lite.cluster.silent_brokers.LOOK_EVERY", 0.02)
    monkeypatch.setattr("aiokafka_lite.producer.sending.outbox.SILENCE", 0.1)


@pytest.mark.parametrize("stored_before", [False, True])
async def test_a_batch_goes_to_the_new_leader_before_its_request_times_out(
    make_producer: Make, stored: Stored, stored_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        cluster.move_leader("orders", 0, 0)
        producer = make_producer(cluster, request_timeout_ms=60_000, delivery_timeout_ms=60_000)
        await producer.start()
        await producer.send_and_wait("orders", b"1")
        cluster.control(ApiKey.PRODUCE, node=0, drop=True, after_handling=stored_before, times=None)
        second = await producer.send("orders", b"2")
        async with asyncio.timeout(10):
            while cluster.count(ApiKey.PRODUCE) < 2:
                await asyncio.sleep(0.001)
        cluster.move_leader("orders", 0, 1)
        assert (await asyncio.wait_for(second, 20)).offset == 1
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]
    assert "and no longer leads orders-0" in caplog.text


@pytest.mark.parametrize("moves", [False, True])
async def test_a_request_is_awaited_while_its_leader_stays_or_batches_have_no_numbers(
    make_producer: Make, moves: bool
) -> None:
    """A batch without numbers that is sent again may be stored twice."""
    async with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        cluster.move_leader("orders", 0, 0)
        producer = make_producer(
            cluster,
            enable_idempotence=not moves,
            request_timeout_ms=60_000,
            delivery_timeout_ms=60_000,
        )
        await producer.start()
        await producer.send_and_wait("orders", b"1")
        cluster.control(ApiKey.PRODUCE, node=0, delay=1.0, after_handling=True)
        second = await producer.send("orders", b"2")
        if moves:
            async with asyncio.timeout(10):
                while cluster.count(ApiKey.PRODUCE) < 2:
                    await asyncio.sleep(0.001)
            cluster.move_leader("orders", 0, 1)
        asked = cluster.count(ApiKey.METADATA)
        assert (await asyncio.wait_for(second, 20)).offset == 1
        assert cluster.count(ApiKey.METADATA) > asked + 3  # metadata was requested
        assert cluster.count(ApiKey.PRODUCE) == 2


async def test_a_new_leader_is_asked_without_the_backoff_of_the_old_one(
    make_producer: Make, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-951: the pause is for a broker that has just refused the batch."""
    async with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        cluster.move_leader("orders", 0, 0)
        producer = make_producer(cluster)
        await producer.start()
        outcomes = type(producer._sender._outcomes)  # of the tested build
        monkeypatch.setattr(outcomes, "_pause", lambda self, error, failures: 60.0)
        await producer.send_and_wait("orders", b"1")
        refusal = NotLeaderForPartitionError.errno
        fault = cluster.control(ApiKey.PRODUCE, node=0, error=refusal, times=None)
        second = await producer.send("orders", b"2")
        async with asyncio.timeout(10):
            while not any(queue.muted_until for queue in producer._sender.accumulator.active):
                await asyncio.sleep(0.001)
        (queue,) = producer._sender.accumulator.active
        cluster.move_leader("orders", 0, 1)
        await producer.client.force_metadata_update()
        assert queue.muted_until == 0.0
        assert (await second).offset == 1
        assert fault.hits == 1
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]
