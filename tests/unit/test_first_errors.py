"""The texts of the errors for common first mistakes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    InvalidSessionTimeoutError,
    KafkaConnectionError,
)
from aiokafka_lite.testing import FakeCluster

FACES = [AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaClient]


@pytest.mark.parametrize("face", FACES)
def test_client_created_outside_an_event_loop(face: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="should be created within an async function") as caught:
        face()
    assert caught.value.__cause__ is None
    assert face.__name__ in str(caught.value)


@pytest.mark.parametrize("face", FACES)
async def test_unknown_security_protocol_lists_the_known_ones(face: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="TLS") as caught:
        face(security_protocol="TLS")
    for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        assert name in str(caught.value)


async def test_topics_passed_as_a_list() -> None:
    with pytest.raises(TypeError, match=r"separate argument.*not \['a', 'b'\]"):
        AIOKafkaConsumer(["a", "b"])  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("face", FACES)
async def test_address_with_a_scheme(face: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="begins with the scheme"):
        face(bootstrap_servers="kafka://localhost:9092")


async def test_tls_to_a_plaintext_listener(tls_files: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=str(tls_files[0]))
    async with FakeCluster() as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SSL",
            ssl_context=context,
        )
        with pytest.raises(KafkaConnectionError, match="as a listener without TLS does"):
            await producer.start()
        await producer.stop()


async def test_plaintext_to_a_sasl_listener() -> None:
    async with FakeCluster(users={"alice": "secret"}) as cluster:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(KafkaConnectionError, match="as a listener that requires SASL"):
            await producer.start()
        await producer.stop()


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """The address of a server that accepts connections and never responds."""
    writers = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while await reader.read(65536):
            pass

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.close()


async def test_port_of_a_non_kafka_server(silent: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=silent, request_timeout_ms=300, socket_connection_setup_timeout_ms=60_000
    )
    async with asyncio.timeout(30):  # four requests of 300 ms, not one of a minute
        with pytest.raises(KafkaConnectionError, match="answers no Kafka request"):
            await producer.start()
    await producer.stop()


async def test_session_timeout_out_of_the_brokers_range() -> None:
    async with FakeCluster(
        topics=["orders"], broker_configs={"group.max.session.timeout.ms": "60000"}
    ) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            session_timeout_ms=120_000,
        )
        with pytest.raises(
            InvalidSessionTimeoutError,
            match=r"session_timeout_ms=120000.*group\.max\.session\.timeout\.ms",
        ):
            await consumer.start()
        await consumer.stop()


async def test_read_after_stop() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers
        ) as consumer:
            pass
        for read in (consumer.getone, consumer.getmany):
            with pytest.raises(ConsumerStoppedError, match="the consumer was stopped"):
                await read()
