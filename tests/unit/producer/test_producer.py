"""The producer's API on an embedded cluster: its guarantees without failures."""

import asyncio
import gc
import random
import warnings
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite._threads import codec_threads
from aiokafka_lite.errors import (
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.structs import RecordMetadata
from aiokafka_lite.testing import FakeCluster, VirtualClock

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, Any]]


async def test_a_record_arrives_as_it_was_sent(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        headers = [("a", b"1"), ("a", None), ("ü", b"")]
        metadata = await producer.send_and_wait(
            "orders", b"value", b"key", partition=2, timestamp_ms=1234, headers=headers
        )
        assert isinstance(metadata, RecordMetadata)
        assert metadata == ("orders", 2, ("orders", 2), 0, 1234, 0, 0)
        (record,) = stored(cluster, "orders")[2]
        assert (record.key, record.value, record.timestamp) == (b"key", b"value", 1234)
        assert record.headers == tuple(headers)


async def test_send_gives_a_future_and_returns_before_the_ack(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.partitions_for("orders")
        first = await producer.send("orders", b"1")
        second = await producer.send("orders", b"2")
        assert not first.done()
        assert not second.done()
        assert asyncio.isfuture(first)
        done, _ = await asyncio.wait([first, second], timeout=5)
        assert done == {first, second}
        assert [first.result().offset, second.result().offset] == [0, 1]


async def test_keys_choose_as_java_does_and_keyless_records_spread(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 4}) as cluster:
        producer = make_producer(cluster, max_batch_size=300)
        await producer.start()
        keys = [b"", b"k", b"a longer key", b"\x00\xff"]
        for key in keys:
            metadata = await producer.send_and_wait("orders", b"v", key=key)
            assert metadata.partition == (murmur2(key) & 0x7FFFFFFF) % 4
        for _ in range(100):
            await producer.send("orders", b"x" * 50)
        await producer.flush()
        keyless = [
            sum(record.key is None for record in records)
            for records in stored(cluster, "orders").values()
        ]
        assert sum(keyless) == 100
        assert min(keyless) >= 20, "batch by batch, every partition has its turn"


async def test_a_batch_is_filled_before_another_partition_is_used(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 4}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.partitions_for("orders")
        acks = [await producer.send("orders", b"x") for _ in range(50)]
        assert len({(await ack).partition for ack in acks}) == 1


async def test_a_partitioner_and_serializers_are_called_as_aiokafka_calls_them(
    make_producer: Make, stored: Stored
) -> None:
    asked = []

    def last(key: bytes | None, everyone: list[int], available: list[int]) -> int:
        asked.append((key, everyone, available))
        return everyone[-1]

    async with FakeCluster(topics={"orders": 3}) as cluster:
        producer = make_producer(
            cluster,
            partitioner=last,
            key_serializer=lambda key: None if key is None else str(key).encode(),
            value_serializer=lambda value: repr(value).encode(),
        )
        await producer.start()
        metadata = await producer.send_and_wait("orders", {"a": 1}, key=7)
        assert metadata.partition == 2
        await producer.send_and_wait("orders", None)
        assert asked == [(b"7", [0, 1, 2], [0, 1, 2]), (None, [0, 1, 2], [0, 1, 2])]
        assert [(r.key, r.value) for r in stored(cluster, "orders")[2]] == [
            (b"7", b"{'a': 1}"),
            (None, b"None"),
        ]


async def test_a_failing_serializer_s_error_is_the_caller_s(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        calls = []

        def fail(value: object) -> bytes:
            calls.append(value)
            raise ZeroDivisionError("serializer")

        producer = make_producer(cluster, value_serializer=fail)
        await producer.start()
        with pytest.raises(ZeroDivisionError):
            await producer.send("orders", 1)
        assert calls == [1]


async def test_a_record_that_waits_is_serialized_once(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        calls = []

        def serialize(value: bytes) -> bytes:
            calls.append(value)
            return value

        producer = make_producer(cluster, value_serializer=serialize)
        await producer.start()
        await producer.send_and_wait("orders", b"the topic is not known yet")
        assert len(calls) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"value": "str"},
        {"value": 1},
        {"key": "str"},
        {"headers": [("a", "str")]},
        {"headers": [(b"a", b"b")]},
        {"timestamp_ms": 1.5},
        {"partition": "0"},
        {"topic": b"orders"},
    ],
)
async def test_wrong_types_raise_when_send_is_awaited(
    make_producer: Make, bad: dict[str, Any]
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"fine")
        arguments = {"topic": "orders", "value": b"v", **bad}
        with pytest.raises(TypeError):
            await producer.send(**arguments)
        assert (await producer.send_and_wait("orders", b"fine")).offset == 1
        assert producer._sender.pool.used == 0


async def test_impossible_partitions_and_times(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        for bad in ({"partition": -1}, {"partition": 2}, {"timestamp_ms": -1}):
            with pytest.raises(IllegalArgumentError):
                await producer.send("orders", b"v", **bad)
        cluster.add_partitions("orders", 3)
        assert (await producer.send_and_wait("orders", b"v", partition=2)).partition == 2


async def test_an_oversize_record_is_refused_before_it_enters(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_request_size=5000, buffer_memory=20_000)
        await producer.start()
        await producer.send_and_wait("orders", b"x" * 4000)
        with pytest.raises(MessageSizeTooLargeError, match="max_request_size"):
            await producer.send("orders", b"x" * 5000)
        assert producer._sender.pool.used == 0


async def test_a_record_larger_than_a_batch_goes_alone(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=1000)
        await producer.start()
        values = [b"a" * 10, b"b" * 30_000, b"c" * 10]
        for value in values:
            await producer.send("orders", value, partition=0)
        await producer.flush()
        assert [record.value for record in stored(cluster, "orders")[0]] == values
        assert producer._sender.pool.used == 0


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, -1, "all"])
async def test_codecs_and_acks(
    make_producer: Make, stored: Stored, codec: str | None, acks: Any
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, compression_type=codec, acks=acks)
        await producer.start()
        sent = [await producer.send("orders", b"%d" % n * 20) for n in range(500)]
        results = await asyncio.gather(*sent)
        await producer.stop()
        if acks == 0:
            assert results == [None] * 500
        else:
            assert [metadata.offset for metadata in results] == list(range(500))
        records = stored(cluster, "orders")[0]
        assert [record.value for record in records] == [b"%d" % n * 20 for n in range(500)]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_large_batches_are_compressed_by_another_thread(
    make_producer: Make, stored: Stored, monkeypatch: pytest.MonkeyPatch, idempotent: bool
) -> None:
    handed_over = []
    run = codec_threads.run

    def spy(loop: asyncio.AbstractEventLoop, function: Any, *arguments: Any) -> Any:
        handed_over.append(getattr(getattr(function, "func", function), "__name__", None))
        return run(loop, function, *arguments)

    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(
            cluster, compression_type="zstd", max_batch_size=100_000, enable_idempotence=idempotent
        )
        await producer.start()
        monkeypatch.setattr(codec_threads, "run", spy)
        values = [b"%05d" % n * 200 for n in range(500)]
        for value in values:
            await producer.send("orders", value, partition=1)
        await producer.flush()
        assert handed_over.count("seal") >= 4
        assert [record.value for record in stored(cluster, "orders")[1]] == values
        assert producer._sender.pool.used == 0


@pytest.mark.parametrize("transactional", [False, True])
async def test_large_pieces_of_a_split_batch_keep_their_numbers(
    make_producer: Make, transactional: bool
) -> None:
    """Another thread compresses them, too. Without numbers, a retry would store a piece twice, and
    the abort would not remove it."""
    options = {"transactional_id": "t"} if transactional else {}
    async with FakeCluster() as cluster:
        cluster.create_topic("orders", 1, configs={"max.message.bytes": "300000"})
        producer = make_producer(
            cluster, compression_type="gzip", max_batch_size=500_000, linger_ms=60_000, **options
        )
        await producer.start()
        lost = cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True, when=small)
        if transactional:
            await producer.begin_transaction()
        values = [random.Random(number).randbytes(10_000) for number in range(40)]
        acks = [await producer.send("orders", value) for value in values]
        await producer.flush()
        assert lost.hits == 1
        assert [ack.result().offset for ack in acks] == list(range(40))
        assert [record.value for record in cluster.records("orders")] == values
        if transactional:
            await producer.abort_transaction()
            assert cluster.records("orders", committed_only=True) == []


def small(request: Any) -> bool:
    """True for a piece that the topic accepts."""
    return all(
        len(data.records) <= 300_000
        for topic in request.topic_data
        for data in topic.partition_data
    )


@pytest.mark.parametrize(
    ("codec", "level", "size", "elsewhere"),
    [
        ("lz4", None, 100_000, False),
        ("lz4", 9, 100_000, True),
        ("lz4", None, 340_000, True),
        ("snappy", None, 100_000, False),
        ("snappy", None, 340_000, True),
        ("gzip", None, 100_000, True),
        ("zstd", 1, 100_000, True),
        ("gzip", None, 50_000, False),
    ],
)
async def test_fast_codecs_compress_larger_batches_in_the_event_loop(
    make_producer: Make,
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
    codec: str,
    level: int | None,
    size: int,
    elsewhere: bool,
) -> None:
    handed_over = []
    run = codec_threads.run

    def spy(loop: asyncio.AbstractEventLoop, function: Any, *arguments: Any) -> Any:
        handed_over.append(function)
        return run(loop, function, *arguments)

    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(
            cluster,
            compression_type=codec,
            compression_level=level,
            max_batch_size=size,
            linger_ms=60_000,
        )
        await producer.start()
        monkeypatch.setattr(codec_threads, "run", spy)
        value = b"%05d" % 7 * (size * 2 // 25)  # two fit into a batch
        for _ in range(2):
            await producer.send("orders", value)
        await producer.send("orders", b"end")
        await producer.flush()
        assert bool(handed_over) is elsewhere
        assert [record.value for record in stored(cluster, "orders")[0]] == [value, value, b"end"]


async def test_log_append_time_is_the_broker_s(make_producer: Make) -> None:
    async with FakeCluster(clock=VirtualClock(777_000)) as cluster:
        cluster.create_topic("timed", 1, configs={"message.timestamp.type": "LogAppendTime"})
        producer = make_producer(cluster)
        await producer.start()
        metadata = await producer.send_and_wait("timed", b"v", timestamp_ms=5)
        assert (metadata.timestamp, metadata.timestamp_type) == (777_000, 1)


@pytest.mark.parametrize("release", ["0.10.2", "0.11", "1.1", "2.8"])
async def test_the_message_format_follows_the_broker_version(
    make_producer: Make, stored: Stored, release: str
) -> None:
    async with FakeCluster(topics=["orders"], version=release) as cluster:
        producer = make_producer(cluster, compression_type="lz4")
        await producer.start()
        assert (await producer.send_and_wait("orders", b"v", b"k", timestamp_ms=9)).offset == 0
        assert (await producer.send_and_wait("orders", b"w")).offset == 1
        (first, _) = stored(cluster, "orders")[0]
        assert (first.key, first.value, first.timestamp) == (b"k", b"v", 9)


async def test_features_that_an_old_broker_lacks_are_refused_by_name(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"], version="0.10.2") as cluster:
        producer = make_producer(cluster)
        await producer.start()
        with pytest.raises(UnsupportedVersionError, match=r"0\.11"):
            await producer.send_and_wait("orders", b"v", headers=[("a", b"b")])
        zstd = make_producer(cluster, compression_type="zstd")
        await zstd.start()
        with pytest.raises(UnsupportedVersionError, match="zstd"):
            await zstd.send_and_wait("orders", b"v")
        assert zstd._sender.pool.used == 0


async def test_an_unknown_topic_is_created_or_times_out(make_producer: Make) -> None:
    async with FakeCluster(default_partitions=3) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        assert (await producer.send_and_wait("new", b"v")).offset == 0
        assert await producer.partitions_for("new") == {0, 1, 2}
        with pytest.raises(InvalidTopicError):
            await producer.send("not a topic's name!", b"v")
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster, max_block_ms=150)
        await producer.start()
        with pytest.raises(KafkaTimeoutError, match="nowhere"):
            await producer.send("nowhere", b"v")


async def test_topic_that_does_not_exist_in_time_is_a_timeout_and_an_unknown_topic(
    make_producer: Make,
) -> None:
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster, max_block_ms=150)
        await producer.start()
        batch = producer.create_batch()
        batch.append(key=None, value=b"v", timestamp=None)
        for call in (
            lambda: producer.send("nowhere", b"v"),
            lambda: producer.send_batch(batch, "nowhere", partition=0),
            lambda: producer.partitions_for("nowhere"),
        ):
            # aiokafka raises the one, Java the other.
            with pytest.raises(UnknownTopicOrPartitionError, match="nowhere") as caught:
                await call()
            assert isinstance(caught.value, KafkaTimeoutError)
            assert caught.value.errno == 3
            assert caught.value.retriable
            assert not caught.value.ambiguous


async def test_flush_sends_lingering_batches(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, linger_ms=60_000, delivery_timeout_ms=200_000)
        await producer.start()
        await producer.partitions_for("orders")
        acks = [await producer.send("orders", b"v", partition=n % 2) for n in range(10)]
        await asyncio.sleep(0.05)
        assert cluster.count(ApiKey.PRODUCE) == 0
        await producer.flush()
        assert all(ack.done() for ack in acks)
        assert cluster.count(ApiKey.PRODUCE) == 1, "both partitions in one request"
        await producer.flush()  # nothing to wait for


async def test_a_lingering_batch_leaves_when_its_time_comes(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, linger_ms=30)
        await producer.start()
        acks = [await producer.send("orders", b"v") for _ in range(3)]
        assert [metadata.offset for metadata in await asyncio.gather(*acks)] == [0, 1, 2]
        assert cluster.count(ApiKey.PRODUCE) == 1


async def test_after_a_flush_batches_linger_as_before(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster, asyncio.timeout(20):
        producer = make_producer(cluster, linger_ms=30)
        await producer.start()
        for _ in range(3):
            hurried = await producer.send("orders", b"v")
            await producer.flush()
            assert hurried.done()
            assert producer._sender._linger_timer is None, "it would wake the process for nothing"
            await (await producer.send("orders", b"v"))
        assert cluster.count(ApiKey.PRODUCE) == 6


async def test_a_full_batch_does_not_linger(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(
            cluster, linger_ms=60_000, delivery_timeout_ms=200_000, max_batch_size=1000
        )
        await producer.start()
        acks = [await producer.send("orders", b"x" * 400) for _ in range(3)]
        await asyncio.wait_for(acks[0], 5)
        assert not acks[2].done()


async def test_sends_wait_for_memory_and_all_of_it_is_returned(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 4}) as cluster:
        producer = make_producer(cluster, buffer_memory=4000, max_batch_size=1000, linger_ms=20)
        await producer.start()

        async def client(number: int) -> None:
            for _ in range(20):
                await producer.send_and_wait("orders", b"%d" % number * 100)

        await asyncio.gather(*(client(number) for number in range(50)))
        assert sum(map(len, stored(cluster, "orders").values())) == 1000
        assert producer._sender.pool.exhausted > 0
        assert producer._sender.pool.used == 0


@pytest.mark.unhurried
async def test_waiting_for_memory_times_out(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, buffer_memory=1000, max_batch_size=1000, max_block_ms=100)
        await producer.start()
        await producer.partitions_for("orders")
        fault = cluster.control(ApiKey.PRODUCE, delay=0.5)
        waiting = await producer.send("orders", b"x" * 900)
        await fault.struck()
        with pytest.raises(KafkaTimeoutError, match="buffer_memory"):
            await producer.send("orders", b"y" * 900)
        assert (await waiting).offset == 0
        assert producer._sender.pool.used == 0


async def test_cancelling_callers_stops_their_wait_and_leaks_nothing(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, buffer_memory=2000, max_batch_size=1000)
        await producer.start()
        await producer.partitions_for("orders")
        fault = cluster.control(ApiKey.PRODUCE, delay=0.2)
        tasks = [
            asyncio.ensure_future(producer.send_and_wait("orders", b"%03d" % n * 200))
            for n in range(12)
        ]
        await fault.struck()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await producer.flush()
        assert producer._sender.pool.used == 0
        assert producer._sender.pool.waiting == 0
        delivered = [record.value[:3] for record in stored(cluster, "orders")[0]]
        assert delivered == [b"000", b"001"], "those in a batch, and none that waited for memory"


async def test_many_senders_share_requests(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 6}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.partitions_for("orders")
        results = await asyncio.gather(
            *(producer.send_and_wait("orders", b"v") for _ in range(1000))
        )
        assert len({(metadata.partition, metadata.offset) for metadata in results}) == 1000
        assert cluster.count(ApiKey.PRODUCE) <= 5


async def test_requests_keep_to_their_largest_size(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 8}) as cluster:
        producer = make_producer(cluster, max_request_size=3000, max_batch_size=1000)
        await producer.start()
        await producer.partitions_for("orders")
        for partition in range(8):
            await producer.send("orders", b"x" * 800, partition=partition)
        await producer.flush()
        sizes = [seen.size for seen in cluster.requests if seen.api_key is ApiKey.PRODUCE]
        assert len(sizes) == 3
        assert max(sizes) < 3300


async def test_the_life_of_a_producer(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        with pytest.raises(IllegalStateError, match="not started"):
            await producer.send("orders", b"v")
        await producer.start()
        with pytest.raises(IllegalStateError, match="already started"):
            await producer.start()
        pending = await producer.send("orders", b"v")
        await producer.stop()
        assert pending.result().offset == 0, "stop delivers what was sent"
        await producer.stop()
        with pytest.raises(ProducerClosed):
            await producer.send("orders", b"v")
        with pytest.raises(ProducerClosed):
            await producer.start()
        async with make_producer(cluster) as other:
            await other.send("orders", b"w")


async def test_stop_works_after_start_raised(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        cluster.kill(0)
        producer = make_producer(cluster)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        with pytest.raises(KafkaConnectionError):
            async with make_producer(cluster):
                pytest.fail("it has no cluster")


async def test_stop_ends_by_its_timeout_and_fails_undelivered_records(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, buffer_memory=1000, max_batch_size=1000)
        await producer.start()
        await producer.partitions_for("orders")
        fault = cluster.control(ApiKey.PRODUCE, drop=True, times=None)
        in_flight = await producer.send("orders", b"x" * 900)
        await fault.struck()
        blocked = asyncio.ensure_future(producer.send("orders", b"y" * 900))
        unknown = asyncio.ensure_future(producer.send("nowhere", b"z"))
        await asyncio.sleep(0)
        cluster.control(ApiKey.METADATA, drop=True, times=None)
        await asyncio.wait_for(producer.stop(timeout=0.1), 5)
        with pytest.raises(ProducerClosed, match="acknowledged"):
            await in_flight
        for waiting in (blocked, unknown):
            with pytest.raises(ProducerClosed):
                await waiting
        assert producer._sender.pool.used == 0
        assert not [task for task in asyncio.all_tasks() if producer._name in task.get_name()]


async def test_a_dropped_producer_warns_and_is_collected(room: dict[str, ModuleType]) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = room["producer"].AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        fault = cluster.control(ApiKey.PRODUCE, drop=True)
        ack = await producer.send("orders", b"v")
        await fault.struck()
        gone = weakref.ref(producer)
        with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):  # noqa: PT031
            del producer
            gc.collect()
        assert gone() is None
        with pytest.raises(ProducerClosed):
            await asyncio.wait_for(ack, 5)
        await asyncio.sleep(0.01)
        mine = {asyncio.current_task()}
        assert not [t for t in asyncio.all_tasks() - mine if "producer" in t.get_name()]


def test_it_lives_in_one_event_loop(room: dict[str, ModuleType]) -> None:
    async def make() -> Any:
        return room["producer"].AIOKafkaProducer()

    first = asyncio.new_event_loop()
    try:
        producer = first.run_until_complete(make())
        with pytest.raises(IllegalStateError, match="event loop"):
            asyncio.run(producer.start())
        first.run_until_complete(producer.stop())
    finally:
        first.close()


def test_a_loop_is_needed(room: dict[str, ModuleType]) -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        room["producer"].AIOKafkaProducer()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"acks": 122}, ValueError, "acks"),
        ({"acks": True}, ValueError, "acks"),
        ({"compression_type": "zip"}, ValueError, "compression"),
        ({"compression_type": "snappy", "compression_level": 3}, ValueError, "level"),
        ({"linger_ms": -1}, ValueError, "linger_ms"),
        ({"linger_ms": "5"}, TypeError, "linger_ms"),
        ({"max_batch_size": 0}, ValueError, "max_batch_size"),
        ({"buffer_memory": 10}, ValueError, "buffer_memory"),
        ({"delivery_timeout_ms": 10}, ValueError, "delivery_timeout_ms"),
        ({"enable_idempotence": True, "acks": 1}, ValueError, "acks=1 not supported"),
        (
            {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
            ValueError,
            "remember 5",
        ),
        ({"transactional_id": ""}, KafkaConfigurationError, "transactional_id"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "u"},
            ValueError,
            "sasl_plain_password",
        ),
        ({"linger": 5}, TypeError, "`linger_ms`"),
        ({"batch_size": 5}, TypeError, "`max_batch_size`"),
        ({"bootstrap.servers": "x"}, TypeError, "`bootstrap_servers`"),
        ({"nonsense": 5}, TypeError, "`nonsense`"),
        ({"key_serializer": 5}, TypeError, "key_serializer"),
        ({"security_protocol": "SSL", "ssl_context": 5}, TypeError, "ssl_context"),
    ],
)
async def test_arguments_are_checked(
    room: dict[str, ModuleType], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        room["producer"].AIOKafkaProducer(**options)


async def test_aiokafka_s_arguments_are_taken(room: dict[str, ModuleType]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        producer = room["producer"].AIOKafkaProducer(
            loop=asyncio.get_running_loop(),
            bootstrap_servers=["localhost:9092"],
            client_id="mine",
            metadata_max_age_ms=1000,
            request_timeout_ms=1000,
            api_version="auto",
            acks=1,
            key_serializer=None,
            value_serializer=None,
            compression_type=None,
            max_batch_size=1000,
            partitioner=room["producer"].DefaultPartitioner(),
            max_request_size=1000,
            linger_ms=0,
            retry_backoff_ms=100,
            security_protocol="PLAINTEXT",
            ssl_context=None,
            connections_max_idle_ms=1000,
            enable_idempotence=False,
            transactional_id=None,
            transaction_timeout_ms=60000,
            sasl_mechanism="PLAIN",
            sasl_plain_password=None,
            sasl_plain_username=None,
            sasl_kerberos_service_name="kafka",
            sasl_kerberos_domain_name=None,
            sasl_oauth_token_provider=None,
        )
    await producer.stop()


def test_an_exception_that_stops_the_loop_leaves_the_connection_usable(
    room: dict[str, ModuleType],
) -> None:
    """A task that a response wakes runs in the same loop iteration; its exceptions do not affect
    the connection."""

    async def begin() -> tuple[Any, Any]:
        cluster = FakeCluster(topics=["orders"])
        await cluster.__aenter__()
        producer = room["producer"].AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        warm = [producer.send_and_wait("orders", b"warm") for _ in range(2)]
        await asyncio.gather(*warm)  # in one request: the next records wait for each other
        return cluster, producer

    async def interrupt(stored: Any) -> None:
        await stored
        raise KeyboardInterrupt

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        cluster, producer = runner.run(begin())
        first = loop.create_task(interrupt(producer.send_and_wait("orders", b"first")))
        others = [loop.create_task(producer.send_and_wait("orders", b"same")) for _ in range(3)]
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert isinstance(first.exception(), KeyboardInterrupt)
        for offset, task in enumerate(others, 3):
            assert loop.run_until_complete(task).offset == offset
        (outbox,) = producer._sender._outboxes.values()
        connection = outbox._connection
        assert loop.run_until_complete(producer.send_and_wait("orders", b"last")).offset == 6
        assert outbox._connection is connection
        assert not connection.closed
        runner.run(producer.stop())
        runner.run(cluster.__aexit__(None, None, None))
