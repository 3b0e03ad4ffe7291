"""`create_batch` and `send_batch`: batches that the application fills."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.errors import (
    IllegalArgumentError,
    IllegalStateError,
    MessageSizeTooLargeError,
    ProducerClosed,
)
from aiokafka_lite.testing import FakeCluster, VirtualClock

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]


async def test_a_batch_is_stored_as_it_was_filled(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, value_serializer=str.encode, compression_type="gzip")
        await producer.start()
        batch = producer.create_batch()
        first = batch.append(timestamp=5, key=b"k", value="v", headers=[("h", None)])
        assert (first.offset, first.timestamp, first.crc) == (0, 5, None)
        before = batch.size()
        second = batch.append(timestamp=None, key=None, value="w")
        assert second.offset == 1
        assert second.size == batch.size() - before
        assert batch.record_count() == 2
        assert not batch.closed()
        place = await (await producer.send_batch(batch, "orders", partition=2))
        assert batch.closed()
        assert (place.topic, place.partition, place.offset, place.timestamp) == ("orders", 2, 0, 5)
        found = stored(cluster, "orders")[2]
        assert [(record.key, record.value) for record in found] == [(b"k", b"v"), (None, b"w")]
        assert found[0].headers == (("h", None),)
        assert found[1].timestamp == second.timestamp
        assert producer._sender.pool.used == 0


async def test_it_keeps_its_place_among_single_records(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=50)
        await producer.start()
        acks = [await producer.send("orders", b"1")]
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"2")
        batch.append(timestamp=None, key=None, value=b"3")
        acks.append(await producer.send_batch(batch, "orders", partition=0))
        acks.append(await producer.send("orders", b"4"))
        assert [place.offset for place in await asyncio.gather(*acks)] == [0, 1, 3]
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2", b"3", b"4"]


async def test_a_full_batch_rejects_further_records(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=300)
        batch = producer.create_batch()
        taken = 0
        while batch.append(timestamp=1, key=None, value=bytes(50)) is not None:
            taken += 1
        assert batch.record_count() == taken > 1
        assert batch.size() <= 300
        assert batch.closed()
        assert batch.append(timestamp=1, key=None, value=b"") is None
        large = producer.create_batch()
        assert large.append(timestamp=1, key=None, value=bytes(1000)) is not None
        await producer.start()
        place = await (await producer.send_batch(large, "orders", partition=0))
        assert place.offset == 0


async def test_the_result_has_the_log_append_time(make_producer: Make) -> None:
    async with FakeCluster(clock=VirtualClock(777_000)) as cluster:
        cluster.create_topic("timed", configs={"message.timestamp.type": "LogAppendTime"})
        producer = make_producer(cluster)
        await producer.start()
        batch = producer.create_batch()
        batch.append(timestamp=5, key=None, value=b"")
        place = await (await producer.send_batch(batch, "timed", partition=0))
        assert (place.timestamp, place.timestamp_type) == (777_000, 1)


async def test_what_is_refused(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_request_size=20_000, max_block_ms=200)
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        with pytest.raises(IllegalStateError, match="not started"):
            await producer.send_batch(batch, "orders", partition=0)
        await producer.start()
        with pytest.raises(IllegalArgumentError, match="empty"):
            await producer.send_batch(producer.create_batch(), "orders", partition=0)
        with pytest.raises(TypeError, match="create_batch"):
            await producer.send_batch([b"v"], "orders", partition=0)
        with pytest.raises(IllegalArgumentError, match="partition 7"):
            await producer.send_batch(batch, "orders", partition=7)
        with pytest.raises(TypeError, match="partition"):
            await producer.send_batch(batch, "orders", partition="0")
        large = producer.create_batch()
        with pytest.raises(TypeError, match="bytes"):
            large.append(timestamp=1, key="k", value=b"")
        with pytest.raises(TypeError, match="headers"):
            large.append(timestamp=1, key=None, value=b"", headers=iter([("a", b"")]))
        with pytest.raises(IllegalArgumentError, match="timestamp_ms"):
            large.append(timestamp=-5, key=None, value=b"")
        assert large.record_count() == 0
        large.append(timestamp=1, key=None, value=bytes(30_000))
        with pytest.raises(MessageSizeTooLargeError, match="max_request_size"):
            await producer.send_batch(large, "orders", partition=0)
        ack = await producer.send_batch(batch, "orders", partition=0)  # after all that
        with pytest.raises(IllegalArgumentError, match="sent before"):
            await producer.send_batch(batch, "orders", partition=0)
        assert (await ack).offset == 0
        await producer.stop()
        with pytest.raises(ProducerClosed):
            await producer.send_batch(large, "orders", partition=0)


async def test_giving_up_waiting_for_memory_loses_neither_memory_nor_batch(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000)
        await producer.start()
        hold = cluster.control(0, delay=0.2)
        first = await producer.send("orders", b"holds all the memory")
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        waiting = asyncio.ensure_future(producer.send_batch(batch, "orders", partition=0))
        await hold.struck()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first
        assert producer._sender.pool.used == 0
        assert (await (await producer.send_batch(batch, "orders", partition=0))).offset == 1


async def test_stop_fails_a_batch_that_waits_for_memory(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000)
        await producer.start()
        cluster.control(0, drop=True)
        first = await producer.send("orders", b"holds all the memory")
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        waiting = asyncio.ensure_future(producer.send_batch(batch, "orders", partition=0))
        await asyncio.sleep(0.01)
        await producer.stop(timeout=0)
        for ended in (waiting, first):
            with pytest.raises(ProducerClosed):
                await ended
        assert producer._sender.pool.used == 0


async def test_a_batch_can_be_shown(room: dict[str, ModuleType], make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        batch = make_producer(cluster).create_batch()
        assert isinstance(batch, room["batch_builder"].BatchBuilder)
        assert repr(batch) == "<BatchBuilder of 0 records, 61 bytes>"


async def test_a_batch_that_is_too_large_for_the_broker_fails_as_a_whole(
    make_producer: Make, stored: Stored
) -> None:
    """Its single ack could not report which pieces were stored, and where; so it is never split."""
    async with FakeCluster() as cluster:
        cluster.create_topic("orders", configs={"max.message.bytes": "3000"})
        producer = make_producer(cluster)
        await producer.start()
        batch = producer.create_batch()
        for size in (10, 5_000, 10):
            batch.append(timestamp=None, key=None, value=b"v" * size)
        ack = await producer.send_batch(batch, "orders", partition=0)
        with pytest.raises(MessageSizeTooLargeError, match=r"3 record\(s\), .*") as refused:
            await ack
        assert not refused.value.ambiguous
        assert stored(cluster, "orders")[0] == []
        assert producer._sender.pool.used == 0
        assert not producer._accumulator.whole


async def test_batches_without_a_partition_rotate_over_the_available_ones(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        acks = []
        for _ in range(30):
            batch = producer.create_batch()
            while batch.append(timestamp=1, key=None, value=bytes(20)) is not None:
                pass
            acks.append(await producer.send_batch(batch, "orders", partition=None))
        places = await asyncio.gather(*acks)
        assert {place.partition for place in places} == {0, 1, 2}
        assert sum(map(len, stored(cluster, "orders").values())) == 30 * batch.record_count()


async def test_custom_partitioner_chooses_the_partition_of_a_batch(make_producer: Make) -> None:
    asked: list[tuple[bytes | None, list[int], list[int]]] = []

    def partitioner(key: bytes | None, everyone: list[int], available: list[int]) -> int:
        asked.append((key, everyone, available))
        return 2 if len(asked) == 1 else 9

    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, partitioner=partitioner)
        await producer.start()
        batch = producer.create_batch()
        batch.append(timestamp=1, key=b"not asked about", value=b"v")
        assert (await (await producer.send_batch(batch, "orders"))).partition == 2
        assert asked == [(None, [0, 1, 2], [0, 1, 2])]
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        with pytest.raises(IllegalArgumentError, match="chose 9 of 3"):
            await producer.send_batch(batch, "orders")
        assert producer._sender.pool.used == 0
        assert (await (await producer.send_batch(batch, "orders", partition=0))).partition == 0


@pytest.mark.parametrize("partition", [None, 0])
async def test_topic_that_leaves_the_metadata_during_a_wait_for_memory_is_looked_up_again(
    make_producer: Make, partition: int | None
) -> None:
    async with FakeCluster(topics={"orders": 1, "other": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000)
        await producer.start()
        await producer.partitions_for("orders")
        hold = cluster.control(0, delay=0.2)
        first = await producer.send("other", b"holds all the memory")
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        waiting = asyncio.ensure_future(producer.send_batch(batch, "orders", partition=partition))
        await hold.struck()
        producer._accumulator.forget("orders")
        await first
        assert (await (await waiting)).offset == 0
        assert producer._sender.pool.used == 0


async def test_memory_is_returned_if_the_topic_was_deleted_during_the_wait(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 1, "other": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=1000)
        await producer.start()
        hold = cluster.control(0, delay=0.2)
        first = await producer.send("other", b"holds all the memory")
        batch = producer.create_batch()
        batch.append(timestamp=1, key=None, value=b"v")
        waiting = asyncio.ensure_future(producer.send_batch(batch, "orders", partition=0))
        await hold.struck()
        producer._accumulator.forget("orders")

        async def gone(topic: str, partition: int | None, deadline: float) -> None:
            raise IllegalArgumentError(f"topic {topic!r} is gone")

        producer._learn = gone
        await first
        with pytest.raises(IllegalArgumentError, match="is gone"):
            await waiting
        assert producer._sender.pool.used == 0
