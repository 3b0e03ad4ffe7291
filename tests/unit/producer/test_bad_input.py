"""Invalid arguments are rejected at once, by name, and alike in both builds."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaConnectionError,
    ProducerClosed,
)
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]

BIG = 2**63

CONTEXT = ssl.create_default_context()


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("bootstrap_servers", [5, None, b"a:1", ["a:1", 7]], TypeError),
        ("request_timeout_ms", [10**12, float("inf"), float("nan"), -1], ValueError),
        ("max_request_size", [2**40], ValueError),
        ("max_batch_size", [2**40], ValueError),
        ("metadata_max_age_ms", [-5, float("nan")], ValueError),
        ("metadata_max_age_ms", ["x", None], TypeError),
        ("connections_max_idle_ms", ["x"], TypeError),
        ("connections_max_idle_ms", [-1], ValueError),
        ("transaction_timeout_ms", ["x"], TypeError),
        ("transaction_timeout_ms", [-1], ValueError),
        ("enable_idempotence", ["yes"], TypeError),
        ("acks", [1.0, [], 2], ValueError),
        ("compression_level", ["9"], TypeError),
        ("key_serializer", [5], TypeError),
        ("value_serializer", [5], TypeError),
        ("partitioner", [5], TypeError),
        ("api_version", [5], TypeError),
        ("api_version", ["newest"], ValueError),
        ("client_id", ["\ud800", "x" * 32768], ValueError),
        ("client_id", [5], TypeError),
        ("loop", [5], TypeError),
        ("ssl_context", [5], TypeError),
        ("sasl_mechanism", ["MAGIC", 5], ValueError),
        ("sasl_plain_password", [b"p"], TypeError),
    ],
)
async def test_options(
    room: dict[str, ModuleType], name: str, values: list[object], kind: type[Exception]
) -> None:
    more = {"compression_type": "gzip"} if name == "compression_level" else {}
    for value in values:
        with pytest.raises(kind, match=f"`{name}`"):
            room["producer"].AIOKafkaProducer(**{name: value}, **more)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"security_protocol": "TLS"},
            "`security_protocol` should be SSL or PLAINTEXT, or with SASL SASL_SSL or "
            "SASL_PLAINTEXT, not 'TLS'",
        ),
        (
            {"security_protocol": "SASL_SSL"},
            "sasl_plain_username and sasl_plain_password required for PLAIN sasl",
        ),
        (
            {"security_protocol": "SSL", "ssl_context": CONTEXT, "ssl_cafile": "ca.pem"},
            "KafkaConfigurationError: `ssl_context` cannot be combined with the other `ssl_` "
            "options: the context already has its certificates and settings",
        ),
        (
            {"ssl_cafile": "ca.pem"},
            "KafkaConfigurationError: `ssl_` options were given, but security_protocol PLAINTEXT "
            "does not encrypt: choose SSL or SASL_SSL",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            "sasl_plain_username and sasl_plain_password required for PLAIN sasl",
        ),
        (
            {"security_protocol": "SASL_SSL", "ssl_context": CONTEXT},
            "sasl_plain_username and sasl_plain_password required for PLAIN sasl",
        ),
    ],
)
async def test_security_in_aiokafka_s_words(
    room: dict[str, ModuleType], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError) as refused:
        room["producer"].AIOKafkaProducer(**options)
    assert str(refused.value) == text


async def test_arguments_of_send(make_producer: Make) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"timestamp_ms": "1"}, TypeError, "`timestamp_ms` should be an int, not '1'"),
        ({"timestamp_ms": 1.5}, TypeError, "`timestamp_ms` should be an int, not 1.5"),
        ({"timestamp_ms": True}, TypeError, "`timestamp_ms` should be an int, not True"),
        ({"timestamp_ms": BIG}, IllegalArgumentError, f"`timestamp_ms` .* not {BIG}"),
        ({"timestamp_ms": -1}, IllegalArgumentError, "`timestamp_ms` .* not -1"),
        ({"partition": "0"}, TypeError, "`partition` should be an int, not '0'"),
        ({"partition": True}, TypeError, "`partition` should be an int, not True"),
        ({"partition": -1}, IllegalArgumentError, "`partition` .* not -1"),
        ({"partition": BIG}, IllegalArgumentError, f"`partition` .* not {BIG}"),
        ({"key": "k"}, TypeError, "key must be bytes, bytearray, memoryview or None, not str"),
        ({"value": 5}, TypeError, "value must be bytes, bytearray, memoryview or None, not int"),
        ({"headers": 5}, TypeError, r"headers must be a sequence of .* pairs, not 5"),
        ({"headers": iter([("a", b"")])}, TypeError, "headers must be a sequence of .* pairs"),
        ({"headers": [("\ud800", b"")]}, IllegalArgumentError, "header's name cannot be encoded"),
        ({"topic": 5}, TypeError, "`topic` should be a str, not 5"),
        ({"topic": "\ud800"}, InvalidTopicError, "`topic` cannot be encoded"),
        ({"topic": "y" * 70000}, InvalidTopicError, "`topic` is 70000 bytes long"),
    ]
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        for topic in ("not known yet", "orders"):
            for given, kind, text in wrong:
                with pytest.raises(kind, match=text):
                    await producer.send(**{"topic": topic, "value": b"v", **given})
            await producer.send_and_wait("orders", b"all is well")
        for name in ("\ud800", "y" * 70000):
            with pytest.raises(InvalidTopicError):
                await producer.partitions_for(name)
        with pytest.raises(TypeError, match="`topic`"):
            await producer.partitions_for(5)
        with pytest.raises(InvalidTimestampError):  # the broker decides
            await producer.send_and_wait("orders", b"v", timestamp_ms=BIG - 1)


async def test_unsent_records_fail_when_the_cluster_is_aborted(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        ack = await producer.send("orders", b"v")
        producer._cluster.abort()  # as a bug in this package would
        async with asyncio.timeout(5):
            with pytest.raises(ProducerClosed):
                await ack
            await producer.stop()


async def test_stop_does_not_wait_for_a_cluster_that_is_lost(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, linger_ms=60_000)
        await producer.start()
        ack = await producer.send("orders", b"v")
        producer._cluster.abort()
        await asyncio.wait_for(producer.stop(), 5)
        assert isinstance(ack.exception(), ProducerClosed)


def test_made_outside_of_its_loop(room: dict[str, ModuleType]) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.warns(DeprecationWarning, match="loop"):
            producer = room["producer"].AIOKafkaProducer(loop=loop)

        async def use() -> None:
            async with FakeCluster(topics=["orders"]) as cluster:
                with pytest.warns(DeprecationWarning, match="loop"):
                    other = room["producer"].AIOKafkaProducer(
                        loop=asyncio.get_running_loop(), bootstrap_servers=cluster.bootstrap_servers
                    )
                async with other:
                    await other.send_and_wait("orders", b"v")

        loop.run_until_complete(use())
        loop.run_until_complete(producer.stop())
    finally:
        loop.close()


async def test_made_for_a_loop_and_used_in_it(
    room: dict[str, ModuleType],
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:

        def make() -> Any:
            with pytest.warns(DeprecationWarning, match="loop"):
                return room["producer"].AIOKafkaProducer(
                    loop=loop, bootstrap_servers=cluster.bootstrap_servers
                )

        loop = asyncio.get_running_loop()
        producer = await asyncio.to_thread(make)  # no loop runs there
        async with producer:
            assert (await producer.send_and_wait("orders", b"v")).offset == 0


async def test_before_the_start_and_after_a_failed_one(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        with pytest.raises(IllegalStateError, match="producer is not started"):
            await producer.partitions_for("orders")
    for _ in range(2):
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        with pytest.raises(IllegalStateError, match="producer is not started"):
            await producer.partitions_for("orders")
    await producer.stop()


async def test_a_stop_with_a_senseless_timeout_stops_nothing(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        for timeout, kind in (("5", TypeError), (float("nan"), ValueError), (True, TypeError)):
            with pytest.raises(kind, match="`timeout`"):
                await producer.stop(timeout)
        await producer.send_and_wait("orders", b"v")
        await producer.send("orders", b"v")
        await asyncio.wait_for(producer.stop(float("inf")), 5)


async def test_a_second_stop_waits_for_the_first(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        ack = await producer.send("orders", b"v")
        first = asyncio.create_task(producer.stop())
        await asyncio.sleep(0)
        await producer.stop()
        await asyncio.sleep(0)
        assert first.done()
        assert ack.done()
        with pytest.raises(ProducerClosed) as refused:
            await producer.send("orders", b"v")
        assert str(refused.value) == "ProducerClosed: the producer was stopped"
        with pytest.raises(ProducerClosed, match=r"the producer was stopped$"):
            await producer.partitions_for("orders")


async def test_a_second_stop_ends_though_the_first_was_cancelled(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        first = asyncio.create_task(producer.stop())
        await asyncio.sleep(0)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        await asyncio.wait_for(producer.stop(), 5)
