"""Starting a producer: repeatedly after a failure, and with a timeout for an absent Kafka."""

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    ProducerClosed,
    TransactionalIdAuthorizationFailed,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]


async def test_a_start_that_failed_is_tried_again(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        cluster.kill(0)
        for _ in range(3):
            with pytest.raises(KafkaConnectionError):
                await producer.start()
        await cluster.restart(0)
        await producer.start()
        assert (await producer.send_and_wait("orders", b"v")).offset == 0
        with pytest.raises(IllegalStateError, match="already started"):
            await producer.start()
        await producer.send_and_wait("orders", b"v")


async def test_a_start_that_was_cancelled_is_tried_again(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        cluster.pause(0)
        starting = asyncio.ensure_future(producer.start())
        await asyncio.sleep(0.05)
        with pytest.raises(IllegalStateError, match="already started"):
            await producer.start()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        cluster.resume(0)
        await producer.start()
        assert (await producer.send_and_wait("orders", b"v")).offset == 0


async def test_a_start_waits_for_its_kafka(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, bootstrap_timeout_ms=20_000)
        cluster.kill(0)
        entering = asyncio.ensure_future(producer.__aenter__())
        await asyncio.sleep(0.3)
        assert not entering.done()
        await cluster.restart(0)
        assert await entering is producer
        assert (await producer.send_and_wait("orders", b"v")).offset == 0


async def test_a_start_waits_no_longer_than_it_may(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, bootstrap_timeout_ms=200)
        cluster.kill(0)
        loop = asyncio.get_running_loop()
        for _ in range(2):
            begun = loop.time()
            with pytest.raises(KafkaConnectionError, match="Connection refused"):
                await producer.start()
            assert loop.time() >= begun + 0.19
        await cluster.restart(0)
        await producer.start()


@pytest.mark.parametrize(("value", "kind"), [("5", TypeError), (-1, KafkaConfigurationError)])
async def test_the_time_to_wait_is_checked(make_producer: Make, value: Any, kind: type) -> None:
    async with FakeCluster() as cluster:
        with pytest.raises(kind, match="bootstrap_timeout_ms"):
            make_producer(cluster, bootstrap_timeout_ms=value)


async def test_a_context_that_was_not_entered_is_entered_again(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        cluster.kill(0)
        with pytest.raises(KafkaConnectionError):
            await producer.__aenter__()
        await cluster.restart(0)
        async with producer:
            assert (await producer.send_and_wait("orders", b"v")).offset == 0
        with pytest.raises(ProducerClosed):
            await producer.start()


async def test_a_context_that_was_not_entered_needs_no_stop(room: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KafkaConnectionError):
            async with room["producer"].AIOKafkaProducer(bootstrap_servers="127.0.0.1:1"):
                raise AssertionError("nobody listens there")
        gc.collect()
    assert [str(each.message) for each in caught] == []


@pytest.mark.parametrize("ending", ["timeout", "cancel", "refusal"])
async def test_a_failed_transactional_start_can_be_repeated(
    make_producer: Make, ending: str
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, transactional_id="t", max_block_ms=300)
        if ending == "refusal":
            denied = TransactionalIdAuthorizationFailed
            fault = cluster.control(ApiKey.INIT_PRODUCER_ID, error=denied, times=None)
        else:
            fault = cluster.control(ApiKey.INIT_PRODUCER_ID, drop=True, times=None)
        client = producer.client
        for _ in range(2):
            if ending == "cancel":
                starting = asyncio.ensure_future(producer.start())
                await asyncio.sleep(0.1)
                starting.cancel()
            else:
                starting = asyncio.ensure_future(producer.start())
            with pytest.raises(
                {
                    "timeout": KafkaTimeoutError,
                    "cancel": asyncio.CancelledError,
                    "refusal": TransactionalIdAuthorizationFailed,
                }[ending]
            ):
                await starting
            with pytest.raises(IllegalStateError, match="not started"):
                await producer.partitions_for("orders")
        fault.remove()
        await producer.start()
        async with producer.transaction():
            await producer.send("orders", b"v")
        assert client.hosts  # it is still the producer's
        assert producer.client is client


async def test_pauses_and_sockets_are_set_as_a_consumer_s(make_producer: Make) -> None:
    given = {
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 3000,
        "reconnect_backoff_ms": 70,
        "reconnect_backoff_max_ms": 5000,
        "socket_connection_setup_timeout_ms": 1500,
        "socket_connection_setup_timeout_max_ms": 7500,
        "send_buffer_bytes": 30_000,
        "receive_buffer_bytes": 40_000,
    }
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, **given)
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, client_id="c", **given
        )
        ours, theirs = producer._cluster, consumer._core.cluster
        backoff = producer._options.retry_backoff
        assert (backoff.base, backoff.maximum) == (0.02, 3.0)
        for name in ("base", "maximum"):
            assert getattr(ours.retry_backoff, name) == getattr(theirs.retry_backoff, name)
            reconnects = [getattr(each._brokers._backoff, name) for each in (ours, theirs)]
            assert reconnects[0] == reconnects[1]
        options, consumer_options = ours._brokers._options, theirs._brokers._options
        own = {"client_id", "max_response_bytes", "request_timeout", "known", "buffers"}
        for name in vars(options).keys() - own:
            assert getattr(options, name) == getattr(consumer_options, name)
        assert (options.connect_timeout, options.connect_timeout_max) == (1.5, 7.5)
        assert options.send_buffer_bytes == 30_000
        await consumer.stop()
        await producer.start()
        await producer.send_and_wait("orders", b"v")


async def test_unused_topics_are_forgotten_after_metadata_max_idle_ms(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders", "idle"]) as cluster:
        producer = make_producer(cluster, metadata_max_idle_ms=5000)
        await producer.start()
        for topic in ("idle", "orders"):
            await producer.send_and_wait(topic, b"v")
        topics = producer._cluster._topics
        now = asyncio.get_running_loop().time()
        topics.on_answer(now)
        producer._cluster.add_topic("orders")
        topics.on_answer(now + 4.9)
        assert topics.names == {"idle", "orders"}
        topics.on_answer(now + 5.1)
        assert topics.names == {"orders"}


async def test_metadata_max_idle_ms_has_kafka_s_bound(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        for value, error in ((4999, ValueError), ("5", TypeError)):
            with pytest.raises(error, match="metadata_max_idle_ms"):
                make_producer(cluster, metadata_max_idle_ms=value)
        assert make_producer(cluster)._cluster._topics._expiry == 300.0


async def test_a_lower_bound_is_the_pause(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        options = make_producer(cluster, retry_backoff_ms=5000)._options
        assert (options.retry_backoff.base, options.retry_backoff.maximum) == (1.0, 1.0)
        with pytest.raises(TypeError, match="retry_backoff_max_ms"):
            make_producer(cluster, retry_backoff_max_ms="1")
