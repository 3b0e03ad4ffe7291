"""Topics by their ids (Produce v13, KIP-516), or by their names if they have none."""

import asyncio
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import UnknownTopicIdError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, Any]]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The version of every sent produce request."""
    seen: list[int] = []
    send_for = Connection.send_for

    def note(self: Connection, promise: Any, request: Any, version: int, **more: Any) -> None:
        seen.append(version)
        send_for(self, promise, request, version, **more)

    monkeypatch.setattr(Connection, "send_for", note)
    return seen


@pytest.mark.parametrize(("release", "version"), [(None, 13), ("3.9", 11), ("2.8", 9)])
async def test_a_topic_is_named_by_its_id_if_the_broker_takes_that(
    make_producer: Make,
    stored: Stored,
    versions: list[int],
    release: str | None,
    version: int,
) -> None:
    async with FakeCluster(topics={"orders": 2, "bills": 1}, version=release) as cluster:
        producer = make_producer(cluster, linger_ms=20)
        await producer.start()
        acks = [
            await producer.send("orders", b"a", partition=1),
            await producer.send("bills", b"b"),
            await producer.send("orders", b"c", partition=0),
        ]
        found = [(ack_of.topic, ack_of.partition) for ack_of in [await ack for ack in acks]]
        assert found == [("orders", 1), ("bills", 0), ("orders", 0)]
        assert set(versions) == {version}
        assert [record.value for record in stored(cluster, "bills")[0]] == [b"b"]


async def test_topics_without_an_id_are_named(
    make_producer: Make,
    stored: Stored,
    versions: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"by id")
        (outbox,) = producer._sender._outboxes.values()
        monkeypatch.setattr(outbox._requests, "_ids", {})
        monkeypatch.setattr(outbox._requests, "_learn_id", lambda topic, metadata: False)
        await producer.send_and_wait("orders", b"by name")
        assert versions == [13, 12]
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"by id", b"by name"]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_topic_that_was_made_again_has_another_id(
    make_producer: Make, stored: Stored, idempotent: bool
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, enable_idempotence=idempotent)
        await producer.start()
        for number in range(3):
            assert (await producer.send_and_wait("orders", b"old")).offset == number
        cluster.delete_topic("orders")
        cluster.create_topic("orders")
        assert (await producer.send_and_wait("orders", b"new")).offset == 0
        assert (await producer.send_and_wait("orders", b"newer")).offset == 1
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"new", b"newer"]


async def test_an_unknown_topic_id_is_retried(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        cluster.control(ApiKey.PRODUCE, error=UnknownTopicIdError, times=2)
        producer = make_producer(cluster)
        await producer.start()
        assert (await producer.send_and_wait("orders", b"once")).offset == 0
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"once"]


async def test_no_record_for_the_new_topic_overtakes_one_that_was_meant_for_the_old(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"old")
        cluster.control(ApiKey.PRODUCE, delay=0.2)
        first = await producer.send("orders", b"1")
        async with asyncio.timeout(10):
            while cluster.count(ApiKey.PRODUCE) < 2:
                await asyncio.sleep(0.001)
        cluster.delete_topic("orders")
        cluster.create_topic("orders")
        await producer.client.force_metadata_update()
        second = await producer.send("orders", b"2")
        assert [(await first).offset, (await second).offset] == [0, 1]
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]


async def test_keys_choose_among_the_partitions_of_a_topic_recreated_with_fewer(
    make_producer: Make,
) -> None:
    """Although records for the others are still queued."""
    async with FakeCluster(topics={"orders": 4}, auto_create_topics=False) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"old", partition=3)
        cluster.delete_topic("orders")
        stranded = await producer.send("orders", b"stranded", partition=3)
        cluster.create_topic("orders", 2)
        await producer.client.force_metadata_update()
        async with asyncio.timeout(10):
            for number in range(12):
                await producer.send_and_wait("orders", b"new", key=b"%d" % number)
            keys = [b"%d" % number for number in range(12)]
            await (await producer.send_many("orders", [b"new"] * 12, keys=keys))
            values = b"new" * 12, array("i", range(0, 37, 3))
            numbers = b"".join(keys), array("i", [*range(10), 10, 12, 14])
            await (await producer.send_columns("orders", values, keys=numbers))
        assert not stranded.done()
