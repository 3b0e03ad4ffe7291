"""`send_many` and `send_nowait`: many records without a coroutine each, and without waiting."""

import asyncio
import time
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
        nothing = await producer.send_many("orders", [])
        assert (list(nothing), len(nothing), await nothing) == ([], 0, ())


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


async def test_awaiting_many_records_returns_where_they_are(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, max_batch_size=2000)
        await producer.start()
        values = [b"%d" % number for number in range(3000)]
        sent = await producer.send_many("orders", values)
        assert len(sent) == 3000
        runs = await sent
        assert sent.done()
        assert repr(sent) == "<SentRecords of 3000 records, done>"
        found = stored(cluster, "orders")
        places = [
            (run.partition, run.base_offset + number) for run in runs for number in range(run.rows)
        ]
        assert [found[partition][offset].value for partition, offset in places] == values
        assert [(ack.result().partition, ack.result().offset) for ack in sent] == places
        assert await sent == runs  # also the second time, and from acks that were made
        assert sent[7] is sent[7]
        assert [ack.result().offset for ack in sent[-2:]] == [offset for _, offset in places[-2:]]


async def test_awaiting_many_records_by_key_returns_where_they_are(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 4}) as cluster:
        producer = make_producer(cluster, max_batch_size=500)
        await producer.start()
        keys = [b"%d" % (number // 3) for number in range(600)]
        runs = await (await producer.send_many("orders", keys, keys=keys))
        found = stored(cluster, "orders")
        assert [
            found[run.partition][run.base_offset + number].key
            for run in runs
            for number in range(run.rows)
        ] == keys


async def test_awaiting_many_records_raises_the_first_error(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000)
        await producer.start()
        await producer.partitions_for("orders")
        cluster.control(PRODUCE, error=InvalidTopicError, times=1)
        sent = await producer.send_many("orders", [bytes(100)] * 50)
        for _ in range(2):
            with pytest.raises(InvalidTopicError):
                await sent
        errors = [ack.exception() for ack in sent]
        assert isinstance(errors[0], InvalidTopicError)
        assert errors[-1] is None
        assert errors.index(None) < 10, "only the first batch failed"


async def test_cancelling_the_wait_for_many_records_delivers_them(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=50)
        await producer.start()
        sent = await producer.send_many("orders", [b"1", b"2"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sent, 0.001)
        assert not sent.done()
        assert [run.rows for run in await sent] == [2]
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]


async def test_many_records_without_acks_have_no_offsets(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, acks=0, enable_idempotence=False)
        await producer.start()
        runs = await (await producer.send_many("orders", [b"1", b"2", b"3"]))
        assert {(run.partition, run.base_offset) for run in runs} == {(0, -1)}
        assert sum(run.rows for run in runs) == 3


async def test_clock_is_read_between_values_that_take_time(make_producer: Make) -> None:
    """Not once for all records of a call."""
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.partitions_for("orders")
        seen = []

        def values() -> Iterator[bytes]:
            for _ in range(3):
                yield b"v"
                time.sleep(0.003)
                seen.append(time.time_ns() // 1_000_000)

        sent = await producer.send_many("orders", values())
        stamps = [metadata.timestamp for metadata in await asyncio.gather(*sent)]
        assert stamps[0] < seen[0] <= stamps[1] < seen[1] <= stamps[2]


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
        sending = asyncio.ensure_future(producer.send_many("orders", [b"v"] * 80_000))
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
            while True:  # that call requested it
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
