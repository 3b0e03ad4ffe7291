"""The consumer against a real Kafka, reading records of other clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka_lite.structs import TopicPartition
from tools.kafka import OwnCluster, RealKafka

confluent_kafka = pytest.importorskip("confluent_kafka")

TopicFactory = Callable[..., str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def writer(kafka: RealKafka, **config: object) -> Any:
    """A producer that keeps the order even when it resends."""
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "linger.ms": 5,
            "enable.idempotence": True,
            **config,
        }
    )


def write(
    kafka: RealKafka,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    by: Any = None,
    **config: Any,
) -> None:
    """Write values in order, and wait until they are acknowledged.

    Args:
        by: A `writer` for repeated calls, because a new one takes up to half a second.
    """
    producer = writer(kafka, **config) if by is None else by
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


@asynccontextmanager
async def reading(
    kafka: RealKafka, *topics: str, **options: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=kafka.bootstrap_servers,
        **{"auto_offset_reset": "earliest", **options},
    )
    async with consumer:
        yield consumer


async def take(consumer: AIOKafkaConsumer, count: int, seconds: float = 60) -> list[Any]:
    records = []
    async with asyncio.timeout(seconds):
        async for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"value %d" % i for i in range(start, start + count)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("face", ["async for", "getmany"])
async def test_records_of_librdkafka_are_read(
    kafka: RealKafka, topic: TopicFactory, codec: str, face: str
) -> None:
    name = topic(3)
    producer = writer(kafka, **{"compression.type": codec})
    sent: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    for i in range(9000):
        key = None if i % 5 == 0 else b"key %d" % i
        value = None if i % 7 == 0 else b'{"number": %d, "text": "%s"}' % (i, b"abc" * (i % 60))
        headers = [("a", b"1"), ("a", None), ("b", b"")] if i % 3 == 0 else []
        timestamp = 1_600_000_000_000 + i
        producer.produce(name, value, key, i % 3, timestamp=timestamp, headers=headers)
        sent[i % 3].append((timestamp, key, value, tuple(headers)))
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    seen: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    async with reading(kafka, name) as consumer:
        if face == "async for":
            records = await take(consumer, 9000)
        else:
            records = []
            while len(records) < 9000:
                lists = await consumer.getmany(timeout_ms=30_000, max_records=700)
                assert lists
                records += [record for each in lists.values() for record in each]
        for record in records:
            assert record.offset == len(seen[record.partition])
            seen[record.partition].append(
                (record.timestamp, record.key, record.value, record.headers)
            )
        assert seen == sent
        for partition in range(3):
            tp = TopicPartition(name, partition)
            assert await consumer.position(tp) == consumer.highwater(tp) == 3000


async def test_latest_starts_at_the_end(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(2)
    write(kafka, name, numbered(10))
    for round_ in range(3):
        async with reading(kafka, name, auto_offset_reset="latest") as consumer:
            await asyncio.to_thread(write, kafka, name, [b"new %d" % round_])
            assert [r.value for r in await take(consumer, 1)] == [b"new %d" % round_]


async def test_offset_lookups(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(3)
    p0, p1, p2 = (TopicPartition(name, i) for i in range(3))
    producer = writer(kafka)
    for i in range(100):
        producer.produce(name, b"v", partition=0, timestamp=1_600_000_000_000 + 10 * i)
    assert producer.flush(60) == 0
    write(kafka, name, numbered(7), partition=1)
    async with reading(kafka) as consumer:
        assert await consumer.beginning_offsets([p0, p1, p2]) == {p0: 0, p1: 0, p2: 0}
        assert await consumer.end_offsets([p0, p1, p2]) == {p0: 100, p1: 7, p2: 0}
        found = await consumer.offsets_for_times({p0: 1_600_000_000_095, p2: 0, p1: 2**60})
        assert found[p0] is not None
        assert (found[p0].offset, found[p0].timestamp) == (10, 1_600_000_000_100)
        assert found[p1] is None
        assert found[p2] is None
        assert name in await consumer.topics()
        consumer.assign([p0])
        consumer.seek(p0, found[p0].offset)
        assert (await consumer.getone()).timestamp == 1_600_000_000_100


async def test_seek_and_pause(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(2)
    p0, p1 = TopicPartition(name, 0), TopicPartition(name, 1)
    write(kafka, name, numbered(1000), partition=0)
    write(kafka, name, numbered(1000), partition=1)
    async with reading(kafka) as consumer:
        consumer.assign([p0, p1])
        consumer.pause(p1)
        assert [r.offset for r in await take(consumer, 600)] == list(range(600))
        consumer.seek(p0, 10)
        assert [r.offset for r in await take(consumer, 5)] == [10, 11, 12, 13, 14]
        consumer.pause(p0)
        assert await consumer.getmany(timeout_ms=700) == {}
        consumer.resume(p1)
        assert {r.partition for r in await take(consumer, 1000)} == {1}
        consumer.resume(p0)
        assert (await take(consumer, 1))[0].offset == 15
        await consumer.seek_to_end(p0)
        assert await consumer.position(p0) == 1000
        await consumer.seek_to_beginning()
        assert (await consumer.getone(p1)).offset == 0


async def test_out_of_range_offset_is_reset(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    write(kafka, name, numbered(5))
    async with reading(kafka, name, auto_offset_reset="none") as consumer:
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError):
                await consumer.getone()
        consumer.seek(tp, 77)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()
    async with reading(kafka) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 77)
        assert [r.value for r in await take(consumer, 5)] == numbered(5)


async def test_record_larger_than_a_fetch(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(2, **{"max.message.bytes": 12_000_000})
    large = bytes(range(256)) * 40_000
    for partition in range(2):
        write(
            kafka,
            name,
            [b"before", large, b"after"],
            partition=partition,
            **{"message.max.bytes": 12_000_000},
        )
    async with reading(kafka, name) as consumer:
        records = await take(consumer, 6)
    for partition in range(2):
        mine = [r.value for r in records if r.partition == partition]
        assert mine == [b"before", large, b"after"]


async def test_empty_partitions_do_not_delay_others(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(50)
    producer = writer(kafka)
    async with reading(kafka, name) as consumer:
        assert await consumer.getmany(timeout_ms=100) == {}
        began = time.monotonic()
        for i in range(20):
            await asyncio.to_thread(write, kafka, name, [b"v%d" % i], partition=i, by=producer)
            assert (await take(consumer, 1))[0].value == b"v%d" % i
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_read_committed_hides_aborted_records(
    kafka: RealKafka, topic: TopicFactory, isolation: str
) -> None:
    name = topic()
    tp = TopicPartition(name, 0)
    producer = writer(kafka, **{"transactional.id": f"{name}-{isolation}"})
    producer.init_transactions(60)
    for round_ in range(6):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(name, b"%d %d" % (round_, i), partition=0)
        assert producer.flush(60) == 0  # aborting discards unsent records
        if round_ % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=0)
    assert producer.flush(60) == 0
    rounds = range(0, 6, 2) if isolation == "read_committed" else range(6)
    expected = [b"%d %d" % (round_, i) for round_ in rounds for i in range(10)]
    if isolation == "read_uncommitted":
        expected.append(b"open")
    async with reading(kafka, name, isolation_level=isolation) as consumer:
        values = [r.value for r in await take(consumer, len(expected))]
        assert values == expected
        assert await consumer.getmany(timeout_ms=300) == {}
        committed = isolation == "read_committed"
        assert await consumer.position(tp) == (66 if committed else 67)
        assert consumer.last_stable_offset(tp) == (66 if committed else -1)
        assert await consumer.end_offsets([tp]) == {tp: 66 if committed else 67}
    producer.abort_transaction(60)


@pytest.mark.timeout(180)
async def test_a_compacted_topic(kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": 100,
            "min.cleanable.dirty.ratio": 0.001,
            "min.compaction.lag.ms": 0,
            "max.compaction.lag.ms": 100,
        }
    )
    tp = TopicPartition(name, 0)
    producer = writer(kafka)
    for i in range(1000):
        producer.produce(name, b"v%d" % i, b"k%d" % (i % 10), partition=0)
    assert producer.flush(60) == 0
    deadline = time.monotonic() + 150
    while True:
        await asyncio.sleep(1)
        # Only a closed segment is compacted, and only a write closes one.
        await asyncio.to_thread(write_keyed, kafka, name)
        async with reading(kafka, name) as consumer:
            ends = await consumer.end_offsets([tp])
            records = []
            while await consumer.position(tp) < ends[tp]:
                lists = await consumer.getmany(timeout_ms=1000)
                records += [record for each in lists.values() for record in each]
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        if len(records) < 1000:
            break
        assert time.monotonic() < deadline, "the broker has compacted nothing"
    last = {record.key: record.value for record in records}
    assert [last[b"k%d" % i] for i in range(10)] == [b"v%d" % i for i in range(990, 1000)]


def write_keyed(kafka: RealKafka, topic: str) -> None:
    producer = writer(kafka)
    producer.produce(topic, b"tick", b"tick", partition=0)
    assert producer.flush(60) == 0


async def test_reading_survives_killed_leaders(kafka3: OwnCluster, topic3: TopicFactory) -> None:
    name = topic3(6, **{"min.insync.replicas": 2})
    producer = writer(kafka3)
    total = 12_000
    seen: dict[int, list[int]] = {i: [] for i in range(6)}

    def write_all() -> None:
        for i in range(total):
            producer.produce(name, b"%d" % i, partition=i % 6)
            producer.poll(0.001 if i % 10 == 0 else 0)
        assert producer.flush(120) == 0

    async with reading(kafka3, name, fetch_max_wait_ms=100, request_timeout_ms=5000) as consumer:

        async def read_all() -> None:
            async for record in consumer:
                seen[record.partition].append(int(record.value))
                if sum(map(len, seen.values())) == total:
                    break

        reading_all = asyncio.ensure_future(read_all())
        writing = asyncio.ensure_future(asyncio.to_thread(write_all))
        victim = kafka3.node_ids[0]
        await asyncio.sleep(1)
        await asyncio.to_thread(kafka3.kill, victim)
        try:
            await asyncio.sleep(3)
        finally:
            await asyncio.to_thread(kafka3.start, victim)
        async with asyncio.timeout(120):
            await writing
            await reading_all
    for partition, numbers in seen.items():
        assert numbers == list(range(partition, total, 6))


async def test_stop_does_not_wait_for_a_hanging_broker(
    kafka3: OwnCluster, topic3: TopicFactory
) -> None:
    name = topic3(3)
    consumer = AIOKafkaConsumer(name, bootstrap_servers=kafka3.bootstrap_servers)
    await consumer.start()
    kafka3.pause(kafka3.node_ids[1])
    try:
        pending = asyncio.ensure_future(consumer.getmany(timeout_ms=60_000))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await consumer.stop()
        assert time.monotonic() - began < 10
        assert await pending == {}
    finally:
        kafka3.resume(kafka3.node_ids[1])
