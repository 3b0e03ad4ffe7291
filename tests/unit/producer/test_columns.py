"""`send_columns` makes the same records as `send`, without a Python object per record."""

import array
import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.errors import (
    IllegalArgumentError,
    IllegalOperation,
    IllegalStateError,
    InvalidTopicError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.structs import StoredRun
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]
Column = tuple[bytes, "array.array[int]", bytes]


class Unchanged(ProducerInterceptor):
    def on_send(self, record: Any) -> Any:
        return record


def column(items: Sequence[bytes | None]) -> Column:
    offsets = array.array("i", [0])
    bits = bytearray((len(items) + 7) // 8)
    data = b"".join(item or b"" for item in items)
    for row, item in enumerate(items):
        offsets.append(offsets[-1] + len(item or b""))
        bits[row >> 3] |= (item is not None) << (row & 7)
    return data, offsets, bytes(bits)


def values(count: int, size: int = 20) -> list[bytes]:
    return [b"%d " % row + b"x" * size for row in range(count)]


def fields(records: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


@pytest.mark.parametrize("codec", [None, "lz4"])
async def test_columns_are_stored_like_single_records(
    make_producer: Make, stored: Stored, codec: str | None
) -> None:
    async with FakeCluster(topics={"single": 4, "columns": 4}) as cluster:
        producer = make_producer(cluster, compression_type=codec, max_batch_size=1000, linger_ms=20)
        await producer.start()
        items = [None if row % 11 == 0 else value for row, value in enumerate(values(3000))]
        keys = [b"k%d" % (row % 97) for row in range(3000)]
        stamps = array.array("q", [1000 + row for row in range(3000)])
        for item, key, stamp in zip(items, keys, stamps, strict=True):
            await producer.send("single", item, key, timestamp_ms=stamp)
        ack = await producer.send_columns(
            "columns", column(items), keys=column(keys), timestamps=stamps
        )
        done = await ack
        await producer.flush()
        single, columns = stored(cluster, "single"), stored(cluster, "columns")
        for partition in range(4):
            assert fields(columns[partition]) == fields(single[partition])
            assert done.counts[partition] == len(columns[partition])
        assert done.rows == ack.rows == 3000
        assert done.base_offsets == dict.fromkeys(range(4), 0)
        assert producer._sender.pool.used == 0


async def test_runs_contain_the_offsets_of_the_rows(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, max_batch_size=500)
        await producer.start()
        await producer.send_and_wait("orders", b"before", partition=1)
        done = await (await producer.send_columns("orders", column(values(100)), partition=1))
        assert done.runs == (StoredRun(1, 1, 100),)
        assert (done.topic, done.counts, done.base_offsets) == ("orders", {1: 100}, {1: 1})
        assert [record.value for record in stored(cluster, "orders")[1][1:]] == values(100)


async def test_rows_join_the_open_batch_and_leave_it_open(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=60_000)
        await producer.start()
        first = await producer.send("orders", b"first")
        ack = await producer.send_columns("orders", column([b"second", b"third"]))
        last = await producer.send("orders", b"last")
        assert not ack.done()
        assert "2 rows to orders, pending" in repr(ack)
        await producer.flush()
        assert [(await each).offset for each in (first, last)] == [0, 3]
        assert (await ack).runs == (StoredRun(0, 1, 2),)
        assert ack.done()
        assert cluster.count(ApiKey.PRODUCE) == 1
        assert len(stored(cluster, "orders")[0]) == 4


async def test_rows_without_a_key_spread_over_partitions(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, max_batch_size=500, linger_ms=20)
        await producer.start()
        await (await producer.send_columns("orders", column(values(1000))))
        found = stored(cluster, "orders")
        assert all(len(records) > 100 for records in found.values())
        everything = [record.value for records in found.values() for record in records]
        assert sorted(everything) == sorted(values(1000))


async def test_only_rows_with_a_key_follow_its_hash(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        keys = [None if row % 3 == 0 else b"%d" % row for row in range(300)]
        await (await producer.send_columns("orders", column(values(300)), keys=column(keys)))
        for partition, records in stored(cluster, "orders").items():
            for record in records:
                if record.key is not None:
                    assert (murmur2(record.key) & 0x7FFFFFFF) % 3 == partition
        everything = [r for records in stored(cluster, "orders").values() for r in records]
        assert sorted((record.key or b"", record.value) for record in everything) == sorted(
            (key or b"", value) for key, value in zip(keys, values(300), strict=True)
        )


async def test_ignored_keys_do_not_choose_the_partition(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 8}) as cluster:
        producer = make_producer(cluster, partitioner_ignore_keys=True, linger_ms=60_000)
        await producer.start()
        keys = [b"%d" % row for row in range(100)]
        ack = await producer.send_columns("orders", column(values(100)), keys=column(keys))
        await producer.flush()
        assert len((await ack).counts) == 1


async def test_more_rows_than_memory_holds_wait_for_it(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=3000)
        await producer.start()
        keys = [b"%d" % row for row in range(2000)]
        ack = await producer.send_columns("orders", column(values(2000)), keys=column(keys))
        done = await ack
        assert done.rows == sum(done.counts.values()) == 2000
        assert producer._sender.pool.exhausted > 0
        assert producer._sender.pool.used == 0
        for partition, records in stored(cluster, "orders").items():
            rows = [int(record.key) for record in records]
            assert rows == sorted(rows)
            assert len(rows) == done.counts[partition]


async def test_rows_time_out_if_no_memory_becomes_free(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=2000, max_block_ms=50)
        await producer.start()
        await producer.partitions_for("orders")
        cluster.control(ApiKey.PRODUCE, delay=1.0)
        with pytest.raises(KafkaTimeoutError, match="buffer_memory") as refused:
            await producer.send_columns("orders", column(values(1000)))
        sent = (await refused.value.sent).rows
        assert 0 < sent < 1000
        found = [record.value for record in stored(cluster, "orders")[0]]
        assert found == values(1000)[:sent]
        assert producer._sender.pool.used == 0


async def test_a_cancelled_call_sends_the_rows_in_their_batches(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=2000)
        await producer.start()
        await producer.partitions_for("orders")
        cluster.control(ApiKey.PRODUCE, delay=1.0)
        task = asyncio.ensure_future(producer.send_columns("orders", column(values(1000))))
        async with asyncio.timeout(60):
            while not producer._sender.pool.waiting:
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await producer.flush()
        found = [record.value for record in stored(cluster, "orders")[0]]
        assert 0 < len(found) < 1000
        assert found == values(1000)[: len(found)]
        assert producer._sender.pool.used == 0


async def test_cancelling_one_wait_does_not_affect_others(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=60_000)
        await producer.start()
        ack = await producer.send_columns("orders", column([b"v"]))

        async def wait() -> Any:
            return await ack

        one, other = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        one.cancel()
        await producer.flush()
        assert (await other).runs == (await ack).runs == (StoredRun(0, 0, 1),)
        assert one.cancelled()


async def test_other_tasks_run_while_rows_are_appended(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        sending = asyncio.ensure_future(producer.send_columns("orders", column(values(50_000, 0))))
        turns = 0
        while not sending.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 50_000 // 8192
        await (await sending)


async def test_no_row_is_sent_if_one_is_bad(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_request_size=2000)
        await producer.start()
        data, offsets, _ = column(values(100))
        offsets[90] = 0
        with pytest.raises(IllegalArgumentError, match=r"`values`.*row 89"):
            await producer.send_columns("orders", (data, offsets))
        with pytest.raises(MessageSizeTooLargeError, match="max_request_size"):
            await producer.send_columns("orders", column([b"v", bytes(2000)]))
        with pytest.raises(TypeError, match="`values`"):
            await producer.send_columns("orders", [b"v"])
        with pytest.raises(TypeError, match="partition"):
            await producer.send_columns("orders", column([b"v"]), partition="1")
        with pytest.raises(IllegalArgumentError, match="Unrecognized partition 7"):
            await producer.send_columns("orders", column([b"v"]), partition=7)
        with pytest.raises(InvalidTopicError):
            await producer.send_columns("\ud800", column([b"v"]))
        await producer.flush()
        assert stored(cluster, "orders")[0] == []
        assert (await (await producer.send_columns("orders", column([])))).rows == 0


async def test_serializers_and_interceptors_are_refused(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        for options, why in (
            ({"value_serializer": bytes}, "serializers"),
            ({"key_serializer": bytes}, "serializers"),
            ({"interceptors": [Unchanged()]}, "interceptors"),
            ({"partitioner": lambda key, everyone, available: 1}, "partitioner"),
        ):
            producer = make_producer(cluster, **options)
            await producer.start()
            with pytest.raises(KafkaConfigurationError, match=why):
                await producer.send_columns("orders", column([b"v"]))
            if why == "partitioner":
                ack = await producer.send_columns("orders", column([b"v"]), partition=0)
                assert (await ack).counts == {0: 1}


async def test_producer_refuses_columns_before_start_and_after_stop(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        with pytest.raises(IllegalStateError):
            await producer.send_columns("orders", column([b"v"]))
        await producer.start()
        await producer.stop()
        with pytest.raises(ProducerClosed):
            await producer.send_columns("orders", column([b"v"]))


async def test_without_acks_the_offsets_are_unknown(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, acks=0)
        await producer.start()
        done = await (await producer.send_columns("orders", column([b"1", b"2"])))
        assert done.runs == (StoredRun(0, -1, 2),)
        await producer.stop()
        assert len(stored(cluster, "orders")[0]) == 2


async def test_columns_belong_to_the_transaction(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, transactional_id="t", max_batch_size=1000)
        await producer.start()
        with pytest.raises(IllegalOperation):
            await producer.send_columns("orders", column([b"v"]))
        async with producer.transaction():
            ack = await producer.send_columns("orders", column(values(200)), partition=0)
        assert (await ack).runs == (StoredRun(0, 0, 200),)
        await producer.begin_transaction()
        dropped = await producer.send_columns("orders", column(values(200)), partition=1)
        await producer.abort_transaction()
        with pytest.raises(KafkaError):
            await dropped


async def test_no_rows_are_appended_after_the_transaction_ends(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(
            cluster, transactional_id="t", max_batch_size=1000, buffer_memory=2000
        )
        await producer.start()
        await producer.begin_transaction()
        task = asyncio.ensure_future(producer.send_columns("orders", column(values(1000))))
        async with asyncio.timeout(60):
            while not producer._sender.pool.waiting:
                await asyncio.sleep(0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(IllegalOperation, match="transaction"):
            await task
        await producer.abort_transaction()
        assert producer._sender.pool.used == 0


async def test_a_failed_batch_fails_the_ack(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=500)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, error=87, times=1)  # INVALID_RECORD
        ack = await producer.send_columns("orders", column(values(100)))
        with pytest.raises(KafkaError):
            await ack
        assert ack.done()


async def test_rows_of_a_split_batch_have_correct_offsets(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("small", 1, configs={"max.message.bytes": "700"})
        producer = make_producer(cluster, max_batch_size=4000, linger_ms=60_000)
        await producer.start()
        await producer.send("small", b"before")
        ack = await producer.send_columns("small", column(values(60)))
        await producer.flush()
        done = await ack
        assert done.runs == (StoredRun(0, 1, 60),)
        assert [record.value for record in stored(cluster, "small")[0][1:]] == values(60)
