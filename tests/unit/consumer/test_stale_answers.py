"""Late, duplicate or outdated responses of embedded brokers: none may skip or repeat a record,
hold memory indefinitely, or stop a partition from being fetched."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from aiokafka_lite import errors
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import BrokerResponseError, KafkaProtocolError
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until

P0, P1, P2 = (TopicPartition("orders", i) for i in range(3))


async def take(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    async with asyncio.timeout(10):
        return [(await consumer.getone()).offset for _ in range(count)]


async def test_a_late_response_of_the_old_leader_is_not_delivered_again() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 4}) as cluster:
        append(cluster, numbered(10))
        old = cluster.partition("orders", 0).leader
        late = cluster.control(ApiKey.FETCH, node=old, after_handling=True, delay=0.3)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
        )
        async with consumer:
            core = consumer._core
            async with asyncio.timeout(5):
                await late.struck()
            cluster.move_leader("orders", 0, 1 - old)
            core.cluster.request_update()
            seen = await take(consumer, 10)
            assert core.positions.state(P0).source.node == 1 - old
            # The old leader still leads other partitions: its response is read for those.
            await until(lambda: all(state.source.polled_at is not None for state in core.positions))
            append(cluster, numbered(1, 10))
            assert seen + await take(consumer, 1) == list(range(11))
            assert core.buffer.bytes == 0
            assert [broker.bytes for broker in core.fetcher._brokers.values()] == [0, 0]


async def test_decoded_records_are_delivered_before_a_reset() -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        append(cluster, numbered(20))
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=50,
        )
        async with consumer:
            consumer.assign([P0])
            paused = cluster.control(
                ApiKey.FETCH, when=lambda r: r.topics[0].partitions[0].fetch_offset == 20, delay=0.1
            )
            assert await take(consumer, 5) == [0, 1, 2, 3, 4]
            await paused.struck()
            append(cluster, numbered(20, 20))
            append(cluster, numbered(5, 40))
            cluster.delete_records("orders", 0, 40)
            fetched, looked_up = cluster.count(ApiKey.FETCH), cluster.count(ApiKey.LIST_OFFSETS)
            await asyncio.sleep(0.6)
            # A slow application must not cause repeated requests to a broker.
            assert cluster.count(ApiKey.FETCH) - fetched < 25
            assert cluster.count(ApiKey.LIST_OFFSETS) == looked_up
            assert await consumer.position(P0) == 5
            assert await take(consumer, 20) == [*range(5, 20), *range(40, 45)]


async def test_a_partition_that_is_answered_twice(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))

    def twice(response: FetchResponse) -> None:
        for topic in response.responses:
            topic.partitions += [data for data in topic.partitions if data.records]

    fault = cluster.control(ApiKey.FETCH, after_handling=True, edit=twice)
    async with make("orders") as consumer:
        async with asyncio.timeout(5):
            await fault.struck()
        seen: list[int] = []
        async with asyncio.timeout(5):
            while len(seen) < 3:
                with suppress(KafkaProtocolError):  # raised for the partitions without records
                    seen.append((await consumer.getone()).offset)
        assert seen == [0, 1, 2]
        core = consumer._core
        await until(lambda: core.buffer.bytes == 0)
        assert [broker.bytes for broker in core.fetcher._brokers.values()] == [0]


class CoarseClock:
    """An event loop whose clock ticks every 50 ms."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time(self) -> float:
        return self._loop.time() // 0.05 * 0.05

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)


async def test_a_pause_ends_whatever_the_clock_says(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    consumer = make("orders", retry_backoff_ms=10)
    clock: Any = CoarseClock(asyncio.get_running_loop())
    consumer._core.fetcher.loop = clock
    cluster.control(ApiKey.FETCH, error=errors.NotLeaderForPartitionError.errno, times=5)
    async with consumer:
        assert await take(consumer, 10) == list(range(10))


async def test_polling_without_a_timeout_skips_buffered_paused_partitions(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    big = [b"x" * 1000] * 300
    for partition in range(2):
        append(cluster, big, partition)
    async with make("orders", buffer_memory=400_000, fetch_max_bytes=200_000) as consumer:
        await until(lambda: consumer._core.buffer.waiting == 1)
        held = next(s for s in consumer._core.positions if s.fetched.records is not None)
        consumer.pause(held.tp)
        append(cluster, numbered(2), 2)
        seen: list[int] = []
        async with asyncio.timeout(5):
            while P2.partition not in seen:
                for tp in await consumer.getmany():
                    seen.append(tp.partition)
                await asyncio.sleep(0.01)


async def test_a_negative_high_watermark_is_none(cluster: FakeCluster, make: MakeConsumer) -> None:
    def lie(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                data.high_watermark = -1

    cluster.control(ApiKey.FETCH, after_handling=True, edit=lie, times=None)
    async with make("orders") as consumer:
        await until(lambda: consumer.last_poll_timestamp(P0) is not None)
        assert consumer.highwater(P0) is None


@pytest.mark.parametrize("error", [errors.TopicAuthorizationFailedError, errors.InvalidTopicError])
async def test_a_topic_refused_for_a_moment_keeps_its_positions(
    cluster: FakeCluster, make: MakeConsumer, error: type[BrokerResponseError]
) -> None:
    async with make("orders", auto_offset_reset="latest", metadata_max_age_ms=50) as consumer:
        append(cluster, numbered(3))
        assert await take(consumer, 3) == [0, 1, 2]
        fault = cluster.control(ApiKey.METADATA, error=error.errno, times=2)
        async with asyncio.timeout(5):
            await fault.struck(2)
        append(cluster, numbered(3, 3))
        await until(lambda: consumer._core.cluster.metadata.topics["orders"].error is None)
        assert await take(consumer, 3) == [3, 4, 5]


async def test_a_thread_that_trips_over_a_closed_set_breaks_nothing(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    class Closed:
        def read(self, limit: int) -> list[object]:
            raise IndexError("closed under the reader")

    async with make("orders") as consumer:
        closed: Any = Closed()
        consumer._core._on_heavy(consumer._core.positions.state(P0), closed)
        append(cluster, numbered(1))
        await asyncio.sleep(0.05)
        append(cluster, numbered(1, 1))
        assert await take(consumer, 2) == [0, 1]


async def test_memory_of_a_partition_that_moved_is_given_back_to_its_old_broker() -> None:
    async with FakeCluster(brokers=2, topics={"orders": 4}) as cluster:
        append(cluster, [b"x" * 1000] * 300)
        old = cluster.partition("orders", 0).leader
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            buffer_memory=800_000,
            fetch_max_bytes=200_000,
        )
        async with consumer:
            core = consumer._core
            state = core.positions.state(P0)
            await until(lambda: state.fetched.records is not None)

            def asked() -> int:
                return sum(s.api_key == ApiKey.FETCH and s.node_id == old for s in cluster.requests)

            cluster.move_leader("orders", 0, 1 - old)
            await core.cluster.refresh(core.deadline())
            assert state.source.node == 1 - old
            await asyncio.sleep(0.1)
            before = asked()
            await take(consumer, 256)
            assert asked() == before  # its memory is full
            await take(consumer, 44)  # without a wait, which would check all brokers
            await until(lambda: asked() > before)
