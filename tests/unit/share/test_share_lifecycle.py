"""Share consumers that are dropped, refused by the session limit, or throttled."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaShareConsumer, ConsumerStoppedError
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    InvalidShareSessionEpochError,
    KafkaConnectionError,
    RequestTimedOutError,
    ShareSessionLimitReachedError,
)
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0
SHARE_FETCH = ApiKey.SHARE_FETCH


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def share_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "share" in task.get_name()]


async def test_a_dropped_consumer_warns_and_its_tasks_end(cluster, make) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    for value in range(10):
        cluster.produce("jobs", b"%d" % value, partition=0)
    consumer = AIOKafkaShareConsumer(
        "jobs", bootstrap_servers=cluster.bootstrap_servers, group_id="workers"
    )
    await consumer.start()
    async with asyncio.timeout(PATIENCE):
        held = await consumer.getone()  # the others are buffered
    core = consumer._core
    assert len(core.buffer) > 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [str(each.message)[:30] for each in caught] == ["Unclosed AIOKafkaShareConsumer"]
    assert caught[0].category is ResourceWarning
    assert reported[0]["message"] == "Unclosed AIOKafkaShareConsumer"
    reported.clear()
    await until(lambda: not share_tasks())
    assert len(core.buffer) == 0
    assert held.lock_deadline == 0.0


async def test_an_unstarted_consumer_warns_too() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    consumer = AIOKafkaShareConsumer("jobs", group_id="workers")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [str(each.message)[:30] for each in caught] == ["Unclosed AIOKafkaShareConsumer"]


async def test_a_stop_during_start_ends_the_start(cluster, make) -> None:
    fault = cluster.control(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, times=None, drop=True)
    consumer = make("jobs")
    starting = asyncio.create_task(consumer.start())
    async with asyncio.timeout(PATIENCE):
        await fault.struck()
        await consumer.stop()
        with pytest.raises(ConsumerStoppedError):
            await starting


async def test_unsubscribing_during_start_ends_the_wait_for_partitions(cluster, make) -> None:
    mute = True
    fault = cluster.control(
        ApiKey.SHARE_GROUP_HEARTBEAT, times=None, drop=True, when=lambda request: mute
    )
    consumer = make("jobs", request_timeout_ms=1000)
    starting = asyncio.create_task(consumer.start())
    async with asyncio.timeout(PATIENCE):
        await fault.struck()
        consumer.unsubscribe()
        await starting
    assert not consumer.subscription()
    mute = False
    cluster.produce("jobs", b"1", partition=0)
    consumer.subscribe(["jobs"])
    async with asyncio.timeout(PATIENCE):
        assert (await consumer.getone()).value == b"1"


async def test_a_stopped_consumer_leaves_no_task(cluster, make) -> None:
    async with make("jobs"):
        pass
    assert share_tasks() == []


async def test_a_reached_session_limit_delays_and_loses_nothing(cluster, make) -> None:
    for value in range(4):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)
    fault = cluster.control(SHARE_FETCH, times=6, error=ShareSessionLimitReachedError)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        seen = set()
        while len(seen) < 4:
            for record in await consumer.getmany(timeout_ms=1000):
                seen.add(record.value)
                assert record.delivery_count == 1
                assert await record.accept() is None
    assert fault.hits == 6


async def test_a_throttled_consumer_reads_on(cluster, make) -> None:
    for value in range(4):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)

    def throttle(response: Any) -> None:
        response.throttle_time_ms = 20

    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        faults = [
            cluster.control(api, times=None, after_handling=True, edit=throttle)
            for api in (SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
        ]
        seen = set()
        while len(seen) < 4:
            for record in await consumer.getmany(timeout_ms=1000, max_records=2):
                seen.add(record.value)
                assert await record.accept() is None
        assert faults[0].hits > 0


@pytest.mark.parametrize("error", [InvalidShareSessionEpochError, RequestTimedOutError])
@pytest.mark.parametrize("times", [1, 3])
async def test_stop_repeats_a_refused_acknowledgement(cluster, make, error, times) -> None:
    for value in range(10):
        cluster.produce("jobs", b"%d" % value, partition=0)
    consumer = make("jobs")
    async with asyncio.timeout(PATIENCE):
        await consumer.start()
        records = await consumer.getmany(timeout_ms=PATIENCE * 1000)
        fault = cluster.control(
            ApiKey.SHARE_ACKNOWLEDGE,
            times=times,
            respond_with=ShareAcknowledgeResponse(error_code=error.errno),
        )
        marks = [record.accept() for record in records]
        await consumer.stop()
        assert fault.hits == times
        for mark in marks:
            assert await mark is None
        async with make("jobs") as another:
            rest = await another.getmany(timeout_ms=300)
    assert not {record.offset for record in rest} & {record.offset for record in records}


async def test_start_warns_of_a_new_group_at_latest(cluster, make, caplog) -> None:
    cluster.produce("jobs", b"before", partition=0)
    async with make("jobs", group_id="late") as consumer, asyncio.timeout(PATIENCE):
        assert "new to jobs-0 and 1 more partitions, and share.auto.offset.reset is 'latest'" in (
            caplog.text
        )
        assert list(await consumer.getmany(timeout_ms=200)) == []
        cluster.produce("jobs", b"after", partition=0)
        record = await consumer.getone()
        assert record.value == b"after"
        assert await record.accept() is None
    for group in ("late", "workers"):
        caplog.clear()
        async with make("jobs", group_id=group):
            assert "latest" not in caplog.text


async def test_start_needs_no_right_to_describe_the_group(cluster, make, caplog) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka_lite")
    cluster.control(ApiKey.DESCRIBE_CONFIGS, times=None, error=GroupAuthorizationFailedError)
    async with make("jobs", group_id="late"):
        pass
    assert "cannot find out where the group begins" in caplog.text
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_consumer_is_collected_after_its_loop_was_closed() -> None:
    collected: list[weakref.ref[object]] = []

    async def leave() -> None:
        async with FakeCluster(topics={"jobs": 1}) as cluster:
            for value in range(10):
                cluster.produce("jobs", b"%d" % value, partition=0)
            servers = cluster.bootstrap_servers
            async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
                changes = {"share.auto.offset.reset": "earliest"}
                await admin.incremental_alter_configs({ConfigResource("group", "g"): changes})
            consumer = AIOKafkaShareConsumer("jobs", bootstrap_servers=servers, group_id="g")
            await consumer.start()
            async with asyncio.timeout(PATIENCE):
                await consumer.getone()
            assert len(consumer._core.buffer) > 0
            consumer._core.cluster.abort()
            collected.append(weakref.ref(consumer._core))
            kept.append(consumer)

    kept: list[object] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(leave())
        kept.clear()
        gc.collect()
    assert collected[0]() is None


def test_a_consumer_that_could_not_start_may_be_collected_after_its_loop() -> None:
    """Nothing is open, so it does not warn; `async with` has raised."""

    async def fail_to_start(consumer: AIOKafkaShareConsumer) -> None:
        with pytest.raises(KafkaConnectionError):
            async with consumer:
                pass

    async def make() -> AIOKafkaShareConsumer:
        consumer = AIOKafkaShareConsumer(
            "jobs", bootstrap_servers="127.0.0.1:1", group_id="workers", bootstrap_timeout_ms=100
        )
        await fail_to_start(consumer)
        return consumer

    with asyncio.Runner() as runner:
        consumer = runner.run(make())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert caught == []


async def test_a_member_that_never_reads_leaves_the_group(cluster, make) -> None:
    """Otherwise nobody would get the records of its partitions."""
    async with make("jobs", max_poll_interval_ms=500) as consumer, asyncio.timeout(PATIENCE):
        assert consumer.assignment()
        await until(lambda: not consumer.assignment())
        cluster.produce("jobs", b"0")
        record = await consumer.getone()
        assert await record.accept() is None


@pytest.mark.parametrize("many", [True, False])
async def test_reads_of_buffered_records_keep_the_membership(cluster, make, many) -> None:
    for value in range(40):
        cluster.produce("jobs", b"%d" % value, partition=0)
    async with make("jobs", max_poll_interval_ms=500) as consumer, asyncio.timeout(PATIENCE):
        await consumer.getone()
        for _ in range(30):
            await asyncio.sleep(0.05)
            if many:
                [_] = await consumer.getmany(max_records=1)
            else:
                await consumer.getone()
            assert consumer.assignment()
