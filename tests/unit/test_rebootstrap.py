"""A cluster that replaces another one at the same addresses is detected, and used."""

import logging
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The broker that each connection expected."""
    seen: list[Any] = []

    async def watched(*args: Any, expected: Any = None, **options: Any) -> Connection:
        seen.append(expected)
        return await open_connection(*args, expected=expected, **options)

    monkeypatch.setattr("aiokafka_lite.cluster.broker.open_connection", watched)
    return seen


async def test_connections_name_the_broker_that_they_expect(identities: list[Any]) -> None:
    async with (
        FakeCluster(brokers=2, topics={"orders": 2}) as cluster,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        for partition in (0, 1):
            await producer.send_and_wait("orders", b"tea", partition=partition)
        nodes = producer.client.cluster.brokers()
        assert {each for each in identities if each is not None} == {
            (cluster.cluster_id, node.nodeId) for node in nodes
        }
    assert identities[0] is None  # a bootstrap address


@pytest.mark.parametrize(
    "options",
    [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}],
)
async def test_the_check_can_be_disabled(options: dict[str, Any], identities: list[Any]) -> None:
    async with (
        FakeCluster(topics={"orders": 1}) as cluster,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer,
    ):
        await producer.send_and_wait("orders", b"tea")
    assert set(identities) == {None}


async def test_a_replaced_cluster_is_found_at_the_bootstrap_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = FakeCluster(topics={"orders": 1})
    await first.start()
    port = int(first.bootstrap_servers.rpartition(":")[2])
    options: dict[str, Any] = {"bootstrap_servers": first.bootstrap_servers}
    async with AIOKafkaProducer(**options) as producer, AIOKafkaConsumer(**options) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        await producer.send_and_wait("orders", b"to the first")
        assert (await consumer.getone()).value == b"to the first"
        await first.stop()
        async with FakeCluster(topics={"orders": 1}, port=port, seed=7) as second:
            assert second.cluster_id != first.cluster_id
            with caplog.at_level(logging.WARNING, "aiokafka_lite"):
                await producer.send_and_wait("orders", b"to the second")
            assert "bootstrapping again" in caplog.text
            assert "REBOOTSTRAP_REQUIRED" in caplog.text
            consumer.seek(ORDERS, 0)
            assert (await consumer.getone()).value == b"to the second"


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"metadata_recovery_strategy": "wait"}, KafkaConfigurationError, "'rebootstrap' or 'no"),
        ({"metadata_cluster_check_enable": "no"}, TypeError, "should be a bool"),
        ({"metadata_recovery_rebootstrap_trigger_ms": -1}, ValueError, "rebootstrap_trigger_ms"),
    ],
)
async def test_invalid_options_are_errors(
    options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        AIOKafkaProducer(**options)
