"""`send_many` and `send_nowait`: many records without a coroutine each, and none that waits."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
)
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]

PRODUCE = 0


async def test_many_in_order(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, value_serializer=str.encode)
        await producer.start()
        acks = await producer.send_many(
            "orders", (str(number) for number in range(2500)), timestamp_ms=9, headers=[("h", b"")]
        )
        places = await asyncio.gather(*acks)
        assert [place.offset for place in places] == list(range(2500))
        found = stored(cluster, "orders")[0]
        assert [record.value for record in found] == [str(n).encode() for n in range(2500)]
        assert {record.timestamp for record in found} == {9}
        assert {record.headers for record in found} == {(("h", b""),)}
        assert await producer.send_many("orders", []) == []


async def test_many_by_key_and_by_partition(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 4}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        keys = [str(number).encode() for number in range(50)]
        places = await asyncio.gather(*await producer.send_many("orders", keys, keys=keys))
        chosen = [place.partition for place in places]
        assert chosen == [(murmur2(key) & 0x7FFFFFFF) % 4 for key in keys]
        places = await asyncio.gather(*await producer.send_many("orders", keys, partition=3))
        assert {place.partition for place in places} == {3}


async def test_many_more_than_memory_holds(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=4000)
        await producer.start()
        acks = await producer.send_many("orders", [bytes(100)] * 500)
        await asyncio.gather(*acks)
        assert sum(map(len, stored(cluster, "orders").values())) == 500
        assert producer._sender.pool.exhausted > 0


async def test_send_many_with_an_interceptor_waits_for_memory(
    make_producer: Make, stored: Stored
) -> None:
    class Counting(ProducerInterceptor):
        seen = 0

        def on_send(self, record: Any) -> Any:
            self.seen += 1
            return record

    counting = Counting()
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(
            cluster, max_batch_size=1000, buffer_memory=4000, interceptors=[counting]
        )
        await producer.start()
        values = [b"%d" % number for number in range(3000)]
        acks = await producer.send_many("orders", values, keys=values)
        assert [ack.offset for ack in await asyncio.gather(*acks)] == list(range(3000))
        assert counting.seen == 3000
        found = [(record.key, record.value) for record in stored(cluster, "orders")[0]]
        assert found == [(value, value) for value in values]


async def test_error_of_the_values_has_the_acks_of_earlier_records(
    make_producer: Make, stored: Stored
) -> None:
    def values() -> Iterator[bytes]:
        yield from [b"1", b"2"]
        raise LookupError("no more")

    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        with pytest.raises(LookupError) as raised:
            await producer.send_many("orders", values())
        places = await asyncio.gather(*raised.value.sent)  # type: ignore[attr-defined]
        assert [place.offset for place in places] == [0, 1]
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]


async def test_iterating_values_may_send_other_records(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.partitions_for("orders")

        def values() -> Iterator[bytes]:
            for number in range(100):
                producer.send_nowait("orders", b"between")
                yield b"%d" % number

        await producer.send_and_wait("orders", b"first")
        acks = await producer.send_many("orders", values())
        await asyncio.gather(*acks)
        found = [record.value for record in stored(cluster, "orders")[0]]
        assert [value for value in found[1:] if value != b"between"] == [
            b"%d" % number for number in range(100)
        ]
        assert found.count(b"between") == 100


async def test_other_tasks_run_in_between(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        sending = asyncio.ensure_future(producer.send_many("orders", [b"v"] * 20_000))
        turns = 0
        while not sending.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 15
        await producer.flush()


async def test_a_bulk_error_has_the_results_before_it(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        with pytest.raises(TypeError, match="bytes") as refused:
            await producer.send_many("orders", [b"1", b"2", "three", b"4"])
        places = await asyncio.gather(*refused.value.sent)
        assert [place.offset for place in places] == [0, 1]
        with pytest.raises(ValueError, match="argument 2 is shorter"):
            await producer.send_many("orders", [b"3", b"4"], keys=[b"k"])
        await producer.flush()
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2", b"3"]


async def test_send_nowait_returns_an_ack_or_raises_the_reason(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(
            cluster, max_batch_size=1000, buffer_memory=1000, max_request_size=2000
        )
        with pytest.raises(IllegalStateError):
            producer.send_nowait("orders", b"v")
        await producer.start()
        with pytest.raises(KafkaTimeoutError, match="not in the metadata"):
            producer.send_nowait("orders", b"v")
        async with asyncio.timeout(5):
            while True:  # it was asked for by that
                try:
                    ack = producer.send_nowait("orders", b"v")
                    break
                except KafkaTimeoutError:
                    await asyncio.sleep(0.005)
        assert (await ack).offset == 0
        cluster.control(PRODUCE, delay=0.1)
        held = producer.send_nowait("orders", bytes(900))
        with pytest.raises(BufferExhaustedError, match="buffer_memory") as refused:
            producer.send_nowait("orders", bytes(900))
        assert not refused.value.ambiguous
        with pytest.raises(MessageSizeTooLargeError):
            producer.send_nowait("orders", bytes(5000))
        with pytest.raises(TypeError):
            producer.send_nowait("orders", "text")
        with pytest.raises(InvalidTopicError):
            producer.send_nowait("\ud800", b"v")
        assert (await held).offset == 1
        assert producer._sender.pool.used == 0
        await producer.stop()
        with pytest.raises(ProducerClosed):
            producer.send_nowait("orders", b"v")
