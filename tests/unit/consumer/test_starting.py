"""Starting a consumer: repeatedly after a failure, and with a timeout for an absent Kafka."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerInterceptor, ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer

pytestmark = pytest.mark.unhurried

FIRST = TopicPartition("orders", 0)


def put(cluster: FakeCluster, *values: bytes) -> None:
    for value in values:
        cluster.produce("orders", value, partition=0)


@pytest.mark.parametrize("group", [None, "g"])
async def test_a_start_that_failed_is_tried_again(
    make: MakeConsumer, cluster: FakeCluster, group: str | None
) -> None:
    put(cluster, b"v")
    consumer = make("orders", group_id=group)
    cluster.kill(0)
    for _ in range(3):
        with pytest.raises(KafkaConnectionError):
            await consumer.start()
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.getone()
    await cluster.restart(0)
    await consumer.start()
    assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"v"


async def test_a_start_waits_for_its_kafka(make: MakeConsumer, cluster: FakeCluster) -> None:
    put(cluster, b"v")
    cluster.kill(0)
    entering = asyncio.ensure_future(make("orders", bootstrap_timeout_ms=20_000).__aenter__())
    await asyncio.sleep(0.3)
    assert not entering.done()
    await cluster.restart(0)
    consumer = await entering
    assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"v"


async def test_a_read_that_waits_for_a_start_ends_with_its_failure(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    cluster.pause(0)
    consumer = make("orders")
    starting = asyncio.ensure_future(consumer.start())
    await asyncio.sleep(0.05)
    reading = asyncio.ensure_future(consumer.getone())
    await asyncio.sleep(0.05)
    cluster.kill(0)
    with pytest.raises(KafkaConnectionError):
        await starting
    with pytest.raises(IllegalStateError, match="not started"):
        await asyncio.wait_for(reading, 5)


@pytest.mark.parametrize("ending", ["refusal", "cancel"])
async def test_a_start_that_failed_in_the_group_can_be_repeated(
    make: MakeConsumer, cluster: FakeCluster, ending: str
) -> None:
    told: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            told.append("revoked")

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            told.append("assigned")

    put(cluster, b"v")
    consumer = make(group_id="g")
    consumer.subscribe(["orders"], listener=Listener())
    if ending == "refusal":
        fault = cluster.control(ApiKey.JOIN_GROUP, error=GroupAuthorizationFailedError, times=None)
    else:
        fault = cluster.control(ApiKey.JOIN_GROUP, drop=True, times=None)
    before = asyncio.all_tasks()
    for _ in range(2):
        starting = asyncio.ensure_future(consumer.start())
        if ending == "refusal":
            with pytest.raises(GroupAuthorizationFailedError):
                await starting
        else:
            await asyncio.wait_for(fault.struck(), 5)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.getone()
        assert consumer.subscription() == {"orders"}
    # The client's tasks are named by their owner; those of the broker's connections are not.
    left = [t.get_name() for t in asyncio.all_tasks() - before if ": " in t.get_name()]
    assert left == []
    fault.remove()
    await consumer.start()
    assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"v"
    assert told[-1] == "assigned"


async def test_a_repeated_start_keeps_seeks_and_pauses(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    put(cluster, b"0", b"1", b"2")
    consumer = make()
    second = TopicPartition("orders", 1)
    consumer.assign([FIRST, second])
    consumer.seek(FIRST, 2)
    consumer.pause(second)
    fault = cluster.control(ApiKey.METADATA, error=TopicAuthorizationFailedError, times=None)
    with pytest.raises(TopicAuthorizationFailedError):
        await consumer.start()
    fault.remove()
    assert consumer.assignment() == {FIRST, second}
    await consumer.start()
    assert consumer.paused() == {second}
    assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"2"


async def test_interceptors_outlive_a_start_that_failed(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    class Watching(ConsumerInterceptor):
        closed = 0

        def on_consume(self, records: list[Any]) -> list[Any]:
            return records

        def close(self) -> None:
            self.closed += 1

    watching = Watching()
    consumer = make("orders", interceptors=[watching])
    fault = cluster.control(ApiKey.METADATA, error=TopicAuthorizationFailedError, times=None)
    with pytest.raises(TopicAuthorizationFailedError):
        await consumer.start()
    fault.remove()
    await consumer.start()
    assert watching.closed == 0
    await consumer.stop()
    assert watching.closed == 1


async def test_a_context_that_was_not_entered_is_entered_again(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    put(cluster, b"v")
    consumer = make("orders")
    cluster.kill(0)
    with pytest.raises(KafkaConnectionError):
        await consumer.__aenter__()
    await cluster.restart(0)
    async with consumer:
        assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"v"
    with pytest.raises(ConsumerStoppedError):
        await consumer.getone()


async def test_a_context_that_was_not_entered_needs_no_stop() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KafkaConnectionError):
            async with AIOKafkaConsumer("orders", bootstrap_servers="127.0.0.1:1"):
                raise AssertionError("nobody listens there")
        gc.collect()
    assert [str(each.message) for each in caught] == []


async def test_a_stop_while_start_waits_for_a_listener(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    class Endless(ConsumerRebalanceListener):
        called = asyncio.Event()

        async def on_partitions_revoked(self, revoked: object) -> None: ...

        async def on_partitions_assigned(self, assigned: object) -> None:
            self.called.set()
            await asyncio.Event().wait()

    consumer = make(group_id="g")
    consumer.subscribe(["orders"], listener=Endless())
    starting = asyncio.create_task(consumer.start())
    await Endless.called.wait()
    await consumer.stop()
    with pytest.raises(ConsumerStoppedError):
        await starting


async def test_a_stop_by_a_listener_ends_the_start(
    make: MakeConsumer, cluster: FakeCluster
) -> None:
    class Stopping(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: object) -> None: ...

        async def on_partitions_assigned(self, assigned: object) -> None:
            await consumer.stop()

    consumer = make(group_id="g")
    consumer.subscribe(["orders"], listener=Stopping())
    with pytest.raises(ConsumerStoppedError):
        await consumer.start()


@pytest.mark.parametrize("group", [None, "g"])
async def test_a_stop_while_start_looks_up_positions(
    make: MakeConsumer, cluster: FakeCluster, group: str | None
) -> None:
    lookup = cluster.control(ApiKey.LIST_OFFSETS, drop=True, times=None)
    consumer = make("orders", group_id=group, auto_offset_reset="latest")
    starting = asyncio.create_task(consumer.start())
    await lookup.struck()
    await consumer.stop()
    with pytest.raises(ConsumerStoppedError):
        await starting
