"""The outcome of records while the cluster is unavailable, and the messages of their errors."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    ProducerClosed,
)
from aiokafka_lite.producer.obstacles import Obstacle, why_memory_is_short
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]

IN_HASTE = {"delivery_timeout_ms": 500, "request_timeout_ms": 200}
NO_BROKER = r"broker 0 cannot be reached: KafkaConnectionError: cannot connect to 127\.0\.0\.1:\d+"


@pytest.mark.parametrize("idempotent", [True, False])
async def test_each_record_of_an_outage_times_out(make_producer: Make, idempotent: bool) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, enable_idempotence=idempotent, **IN_HASTE)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        cluster.kill(0)
        async with asyncio.timeout(30):
            for _ in range(3):
                with pytest.raises(DeliveryTimeoutError):
                    await producer.send_and_wait("orders", b"v")
            ack = await producer.send("orders", b"v")
            await producer.flush()
        assert isinstance(ack.exception(), DeliveryTimeoutError)
        assert producer._sender.pool.used == 0
        await cluster.restart(0)
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(DeliveryTimeoutError):  # the backoff may be longer
                    await producer.send_and_wait("orders", b"v")
                    break


async def is_lost(producer: Any, cluster: FakeCluster) -> None:
    """Stop the only broker, and wait until the producer has detected it."""
    cluster.kill(0)
    async with asyncio.timeout(30):
        while producer._sender._outboxes[0].connected:
            await asyncio.sleep(0.005)


async def test_a_delivery_timeout_names_the_broker_that_cannot_be_reached(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, **IN_HASTE)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        await is_lost(producer, cluster)
        with pytest.raises(DeliveryTimeoutError, match=NO_BROKER) as caught:
            await producer.send_and_wait("orders", b"v")
        assert "within 0.5 s of the first record of their batch" in str(caught.value)
        assert "0 attempt(s)" in str(caught.value)
        assert isinstance(caught.value.__cause__, KafkaConnectionError)
        assert not caught.value.ambiguous


async def test_a_delivery_timeout_names_a_missing_producer_id(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        cluster.control(ApiKey.INIT_PRODUCER_ID, drop=True, times=None)
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=200)
        await producer.start()
        with pytest.raises(DeliveryTimeoutError, match="not assigned a producer id yet: Kafka"):
            await producer.send_and_wait("orders", b"v")


async def test_a_delivery_timeout_names_a_throttling_broker(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, **IN_HASTE)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        # Longer than the maximum throttle that a client accepts: another response may throttle it
        # again.
        producer._sender._outboxes[0]._paused_until = asyncio.get_running_loop().time() + 60
        with pytest.raises(DeliveryTimeoutError, match="broker 0 throttles this client"):
            await producer.send_and_wait("orders", b"v")


async def test_a_full_buffer_in_an_outage_states_the_cause(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000, max_block_ms=300)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        await is_lost(producer, cluster)
        await producer.send("orders", bytes(900))
        with pytest.raises(KafkaTimeoutError, match=f"nothing can be sent: {NO_BROKER}") as caught:
            await producer.send("orders", bytes(900))
        assert not caught.value.ambiguous, "it was in no batch"
        with pytest.raises(BufferExhaustedError, match=f"nothing can be sent: {NO_BROKER}"):
            producer.send_nowait("orders", bytes(900))


async def test_a_full_buffer_with_slow_brokers_states_the_cause(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000, max_block_ms=100)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        cluster.control(ApiKey.PRODUCE, delay=1.0)
        ack = await producer.send("orders", bytes(900))
        with pytest.raises(KafkaTimeoutError, match="faster than the brokers accept them"):
            await producer.send("orders", bytes(900))
        await ack


def test_memory_is_short_for_the_obstacles_of_the_partitions_that_have_some() -> None:
    one = Obstacle("broker 1 cannot be reached", KafkaConnectionError("refused"))
    assert why_memory_is_short([]) == "records are produced faster than the brokers accept them"
    assert why_memory_is_short([None]) == "records are produced faster than the brokers accept them"
    text = "broker 1 cannot be reached: KafkaConnectionError: refused"
    assert why_memory_is_short([one, one]) == f"nothing can be sent: {text}"
    some = "1 of 2 partitions with waiting records cannot be sent to: "
    assert why_memory_is_short([one, None]) == some + text
    many = [Obstacle(f"broker {n}") for n in range(5)]
    told = why_memory_is_short(many)
    assert told == "nothing can be sent: broker 0; broker 1; broker 2; and 2 more"


@pytest.mark.parametrize("frozen", [True, False])
async def test_overdue_records_of_a_transaction_name_their_own_partition(
    make_producer: Make, caplog: pytest.LogCaptureFixture, frozen: bool
) -> None:
    """They are overdue at the same time, and the failure of the first aborts their transaction."""
    async with FakeCluster(topics={"orders": 4}, version="2.8") as cluster:
        producer = make_producer(cluster, transactional_id="t", **IN_HASTE)
        await producer.start()
        async with producer.transaction():
            for partition in range(4):
                await producer.send_and_wait("orders", b"v", partition=partition)
        await producer.begin_transaction()
        if frozen:
            cluster.pause(0)
        else:
            cluster.kill(0)
        acks = [await producer.send("orders", b"v", partition=n) for n in range(4)]
        errors = await asyncio.gather(*acks, return_exceptions=True)
        for partition, error in enumerate(errors):
            assert isinstance(error, DeliveryTimeoutError)
            assert f"1 record(s) to partition {partition} of topic 'orders' were" in str(error)
            assert not error.ambiguous, "the partition was not in the transaction yet"
        (own,) = [str(error) for error in errors if "were not sent" not in str(error)]
        assert "has not added the partition to the transaction yet: Kafka" in own
        assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_an_aborted_transaction_names_the_records_that_it_takes_along(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 2}, version="2.8") as cluster:
        producer = make_producer(cluster, transactional_id="t", linger_ms=5000)
        await producer.start()
        await producer.begin_transaction()
        acks = [await producer.send("orders", b"v", partition=n) for n in range(2)]
        await producer.abort_transaction()
        errors = await asyncio.gather(*acks, return_exceptions=True)
        for partition, error in enumerate(errors):
            start = f"TransactionAbortedError: 1 record(s) to partition {partition} of topic "
            assert str(error).startswith(start)
            assert "were not sent: their transaction was aborted first" in str(error)


async def test_a_delivery_timeout_names_both_the_last_error_and_the_obstacle(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=200)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        refusal = cluster.control(ApiKey.PRODUCE, error=NotEnoughReplicasError, times=None)
        sending = asyncio.ensure_future(producer.send_and_wait("orders", b"v"))
        await refusal.struck()
        cluster.kill(0)
        with pytest.raises(DeliveryTimeoutError, match="last error: .*" + NO_BROKER) as caught:
            await sending
        assert not re.search(r"\b0 attempt", str(caught.value))


async def test_a_bug_in_the_timer_fails_the_records_instead_of_leaving_them(
    make_producer: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(now: float) -> None:
        raise ZeroDivisionError("a bug")

    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, **IN_HASTE)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        monkeypatch.setattr(producer._sender.accumulator, "overdue", fail, raising=True)
        cluster.pause(0)
        with pytest.raises(ProducerClosed):
            await producer.send_and_wait("orders", b"v")
        (line,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
        assert "the delivery timeout ended unexpectedly" in line.getMessage()
