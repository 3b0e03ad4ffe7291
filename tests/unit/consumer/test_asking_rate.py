"""In no state without readable records does the consumer send requests in a busy loop."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import errors
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import BrokerResponseError, KafkaError
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until

pytestmark = pytest.mark.unhurried

P0 = TopicPartition("orders", 0)
BACKOFF = 0.1
WATCHED = 0.5
MOST = 8 / BACKOFF
"""Requests per second. In a backoff the consumer queries a leader and its follower, connects,
and refreshes metadata; a busy loop sends hundreds."""

State = Callable[[FakeCluster, AIOKafkaConsumer], Awaitable[None] | None]


def told(code: type[BrokerResponseError], **options: Any) -> State:
    """Every fetch gets this response."""

    def state(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
        cluster.control(ApiKey.FETCH, times=None, error=code, **options)

    return state


def edited(edit: Callable[[Any], None]) -> State:
    """Every fetch gets this response at once."""

    def state(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
        append(cluster, numbered(1))  # answered at once

        def change(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    data.records = None
                    edit(data)

        cluster.control(ApiKey.FETCH, times=None, node=0, after_handling=True, edit=change)

    return state


def prefer(node: int) -> State:
    def edit(data: Any) -> None:
        data.preferred_read_replica = node

    return edited(edit)


def no_follower(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    """The preferred follower cannot be reached, although the metadata lists it."""
    prefer(1)(cluster, consumer)
    cluster.control(ApiKey.FETCH, node=1, times=None, disconnect=True)


def all_paused(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    append(cluster, numbered(1))
    consumer.pause(P0)


def not_read(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    for _ in range(100):
        append(cluster, [bytes(1000)] * 10)


def never_valid(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    cluster.control(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, times=None, error=errors.UnknownLeaderEpochError
    )
    append(cluster, numbered(3))
    consumer._core.positioning.seek(consumer._core.positions.state(P0), 3, 0)


def no_position(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    cluster.control(ApiKey.LIST_OFFSETS, times=None, error=errors.OffsetNotAvailableError)
    core = consumer._core
    core.positions.state(P0).ask_reset(core.options.auto_offset_reset)
    core.fetcher.update(core.positions.state(P0))
    core.resolver.wake()


def nothing(cluster: FakeCluster, consumer: AIOKafkaConsumer) -> None:
    pass


STATES: dict[str, State] = {
    "nothing new": nothing,
    "all paused": all_paused,
    "never read": not_read,
    "never valid": never_valid,
    "no position": no_position,
    "no such follower": prefer(7),
    "a follower that is not there": no_follower,
    **{
        kind.__name__: told(kind)
        for kind in (
            errors.NotLeaderForPartitionError,
            errors.FencedLeaderEpochError,
            errors.UnknownLeaderEpochError,
            errors.OffsetOutOfRangeError,
            errors.UnknownTopicOrPartitionError,
            errors.UnknownTopicIdError,
            errors.InconsistentTopicIdError,
            errors.TopicAuthorizationFailedError,
            errors.CorruptRecordException,
            errors.UnknownError,
        )
    },
}


@pytest.mark.parametrize("reading", [False, True], ids=["", "read"])
async def test_brokers_are_left_alone(reading: bool) -> None:
    """All states concurrently: each has its own brokers, and is only observed."""
    rates = await asyncio.gather(*(rate_of(state, reading) for state in STATES.values()))
    assert not {name: rate for name, rate in zip(STATES, rates, strict=True) if rate > MOST}


async def rate_of(state: State, reading: bool) -> float:
    """The number of requests per second of a consumer in a state."""
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        cluster.move_leader(*P0, 0)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=int(1000 * BACKOFF),
            retry_backoff_ms=int(1000 * BACKOFF),
            consumer_timeout_ms=int(1000 * BACKOFF),
            buffer_memory=100_000,
        )
        loop = asyncio.get_running_loop()

        async def read() -> None:
            while True:
                with contextlib.suppress(KafkaError):
                    await consumer.getone()

        async with consumer:
            changed = state(cluster, consumer)
            if changed is not None:
                await changed
            await asyncio.sleep(2 * BACKOFF)
            task = asyncio.create_task(read()) if reading else None
            before, begun = len(cluster.requests), loop.time()
            await asyncio.sleep(WATCHED)
            rate = (len(cluster.requests) - before) / (loop.time() - begun)
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            return rate


async def test_failed_validations_are_logged_once(
    cluster: FakeCluster, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with make(retry_backoff_ms=10, retry_backoff_max_ms=20) as consumer:
        consumer.assign([P0])
        before = cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        never_valid(cluster, consumer)
        await until(lambda: cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) >= before + 4)
    told = [line for line in caplog.records if "Validating the position" in line.getMessage()]
    assert len(told) == 1
