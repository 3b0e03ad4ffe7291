"""The start of a group: at `latest` with records sent after `start`, or at its reset offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiokafka_lite import AIOKafkaShareConsumer, ConsumerStoppedError, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.errors import TopicAuthorizationFailedError
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.share import beginning_lookup
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0
FETCH = ApiKey.SHARE_FETCH


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def accept(consumer: AIOKafkaShareConsumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for record in consumer:
            values.append(record.value)
            record.accept()
            if len(values) == count:
                break
    return sorted(values)


def send(cluster: FakeCluster, *values: bytes) -> None:
    for number, value in enumerate(values):
        cluster.produce("jobs", value, partition=number % 2)


@pytest.mark.parametrize("mode", ["record_limit", "batch_optimized"])
async def test_what_is_sent_after_start_is_delivered(cluster, make, mode) -> None:
    send(cluster, b"before", b"before")
    async with make("jobs", group_id="late", acquire_mode=mode) as consumer:
        send(cluster, b"1", b"2", b"3")
        assert await accept(consumer, 3) == [b"1", b"2", b"3"]


async def opened(
    cluster: FakeCluster, consumer: AIOKafkaShareConsumer, topic: str, count: int
) -> None:
    """Wait until the leaders of a topic's partitions have the group's start offset."""
    core = consumer._core
    wanted = {TopicPartition(topic, number) for number in range(count)}
    async with asyncio.timeout(PATIENCE):
        while core.beginnings.looked != wanted or core.beginnings.looking:
            cluster.advance(0.1)  # the coordinator assigns after an interval
            core.group.driver.rejoin("the test does not wait")  # only sends a heartbeat
            await asyncio.sleep(0.02)
    assert not core.opening.missing


async def test_records_sent_after_a_later_subscribe_are_delivered(cluster, make) -> None:
    cluster.create_topic("more", 2)
    async with make(group_id="late") as consumer:
        for topic in "jobs", "more":
            cluster.produce(topic, b"before", partition=0)
            consumer.subscribe([topic])
            await opened(cluster, consumer, topic, 2)
            for partition in range(2):
                cluster.produce(topic, b"after", partition=partition)
            assert await accept(consumer, 2) == [b"after", b"after"]


async def test_records_sent_to_an_added_partition_are_delivered(cluster, make) -> None:
    async with make("jobs", group_id="late", metadata_max_age_ms=100) as consumer:
        send(cluster, b"1")
        held = await consumer.getone()
        cluster.add_partitions("jobs", 4)
        await opened(cluster, consumer, "jobs", 4)
        cluster.produce("jobs", b"2", partition=3)
        assert await accept(consumer, 1) == [b"2"]
        await held.accept()


async def test_no_record_is_acquired_early_after_a_later_subscribe(cluster, make) -> None:
    send(cluster, b"1", b"2")
    async with make() as consumer:
        consumer.subscribe(["jobs"])
        await opened(cluster, consumer, "jobs", 2)
        assert len(consumer._core.buffer) == 0
        assert await accept(consumer, 2) == [b"1", b"2"]


async def test_stop_ends_the_lookup_after_a_later_subscribe(cluster, make) -> None:
    fault = cluster.control(FETCH, times=None, drop=True)
    async with asyncio.timeout(PATIENCE), make(group_id="late") as consumer:
        consumer.subscribe(["jobs"])
        await until(lambda: fault.hits)


async def test_a_leader_that_does_not_know_the_beginning_yet_is_asked_again(cluster, make) -> None:
    epochs: list[int] = []

    def note(request: object) -> bool:
        epochs.append(request.share_session_epoch)  # type: ignore[attr-defined]
        return True

    def leave_out(response: ShareFetchResponse) -> None:
        if len(epochs) <= 3:
            response.responses.clear()

    cluster.control(FETCH, times=None, node=0, after_handling=True, when=note, edit=leave_out)
    async with make("jobs", group_id="late") as consumer:
        assert epochs == [0, 0, 0, 0]
        send(cluster, b"1", b"2")
        assert await accept(consumer, 2) == [b"1", b"2"]


async def test_nothing_is_acquired_early_of_a_group_that_begins_elsewhere(cluster, make) -> None:
    send(cluster, b"1", b"2")
    async with make("jobs") as consumer:
        assert len(consumer._core.buffer) == 0
        assert not any(link.session.open for link in consumer._core._leaders._links.values())
        assert await accept(consumer, 2) == [b"1", b"2"]


async def test_start_does_not_wait_long_for_a_silent_leader(
    cluster, make, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(beginning_lookup, "LOOK_WITHIN", 0.5)
    cluster.control(FETCH, times=None, node=1, drop=True)
    async with asyncio.timeout(PATIENCE), make("jobs", group_id="late") as consumer:
        assert "no share session was opened for jobs-1 yet" in caplog.text
        send(cluster, b"1")
        assert await accept(consumer, 1) == [b"1"]


async def test_a_refusal_ends_the_wait_and_fails_the_first_read(cluster, make) -> None:
    cluster.control(FETCH, times=None, error=TopicAuthorizationFailedError)
    async with asyncio.timeout(PATIENCE), make("jobs", group_id="late") as consumer:
        with pytest.raises(TopicAuthorizationFailedError):
            await consumer.getone()


async def test_stop_ends_a_start_that_waits_for_a_leader(cluster, make) -> None:
    fault = cluster.control(FETCH, times=None, drop=True)
    consumer = make("jobs", group_id="late")
    starting = asyncio.create_task(consumer.start())
    await until(lambda: fault.hits)
    await consumer.stop()
    with pytest.raises(ConsumerStoppedError):
        await starting


@pytest.mark.parametrize("limit", [1, 500])
async def test_a_group_that_was_moved_is_delivered_its_records_again(cluster, make, limit) -> None:
    send(cluster, *(b"%d" % number for number in range(10)))
    group = "workers"
    async with make("jobs", group_id=group) as consumer:
        await accept(consumer, 10)
    servers = cluster.bootstrap_servers
    for first in (0, 3):
        places = {TopicPartition("jobs", partition): first for partition in range(2)}
        async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
            (await admin.alter_share_group_offsets(group, places)).raise_for_errors()
        wanted = 10 - 2 * first
        offsets: list[int] = []
        async with make("jobs", group_id=group) as consumer, asyncio.timeout(PATIENCE):
            while len(offsets) < wanted:
                for record in await consumer.getmany(timeout_ms=5000, max_records=limit):
                    assert record.delivery_count == 1
                    offsets.append(record.offset)
                    await record.accept()
        assert sorted(offsets) == sorted([*range(first, 5)] * 2)
