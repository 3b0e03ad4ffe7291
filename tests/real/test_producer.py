"""The producer on a real Kafka; aiokafka's consumer reads its records."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    DeliveryTimeoutError,
    IllegalArgumentError,
    InvalidRecordError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerClosed,
)
from aiokafka_lite.producer import AIOKafkaProducer
from aiokafka_lite.record.murmur2 import murmur2
from tools.kafka import OwnCluster, RealKafka

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")

TopicFactory = Callable[..., str]


async def read_all(
    bootstrap: str, topic: str, partitions: int, least: int = 0
) -> dict[int, list[Any]]:
    """All records of a topic by partition, read by aiokafka; waits for at least `least` records."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        assigned = [aiokafka.TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        found: dict[int, list[Any]] = {number: [] for number in range(partitions)}
        until = asyncio.get_running_loop().time() + 30
        while (
            any([await consumer.position(tp) < ends[tp] for tp in assigned])
            or sum(map(len, found.values())) < least
        ):
            assert asyncio.get_running_loop().time() < until, (
                "they never came",
                {number: len(records) for number, records in found.items()},
            )
            for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                found[tp.partition].extend(records)
        return found
    finally:
        await consumer.stop()


@pytest.fixture
async def producer_of() -> AsyncIterator[Callable[..., AIOKafkaProducer]]:
    """Creates producers; after the test, stops them and checks that they hold no memory."""
    made: list[AIOKafkaProducer] = []

    def make(kafka: RealKafka | OwnCluster, **options: Any) -> AIOKafkaProducer:
        made.append(AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **options))
        return made[-1]

    yield make
    for producer in made:
        await producer.stop(timeout=5)
        assert producer._sender.pool.used == 0
        assert producer._sender.pool.waiting == 0


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_codec_and_acks_round_trip(
    kafka: RealKafka, topic: TopicFactory, producer_of: Any, codec: str | None, acks: Any
) -> None:
    name = topic(3)
    # Only a leader returns the end; a broker that is not yet one would drop acks=0 records.
    await read_all(kafka.bootstrap_servers, name, 3)
    producer = producer_of(kafka, compression_type=codec, acks=acks, linger_ms=2)
    await producer.start()
    sent, pending = [], []
    for n in range(3000):
        key = None if n % 3 == 0 else b"key %d" % (n % 50)
        value = None if n % 11 == 0 else b"value %d " % n * (n % 40)
        headers = [("n", b"%d" % n), ("n", b""), ("null", None)] if n % 5 == 0 else []
        stamp = 1_600_000_000_000 + n * 7 % 1000
        sent.append((key, value, tuple(headers), stamp))
        pending.append(await producer.send(name, value, key, None, stamp, headers))
    results = await asyncio.gather(*pending)
    await producer.stop()
    found = await read_all(kafka.bootstrap_servers, name, 3, least=3000)
    assert sum(map(len, found.values())) == 3000
    if acks == 0:
        assert results == [None] * 3000
        flat = [record for records in found.values() for record in records]
        got = sorted((r.timestamp, str(r.key), str(r.value)) for r in flat)
        assert got == sorted((stamp, str(key), str(value)) for key, value, _, stamp in sent)
        return
    for (key, value, headers, stamp), metadata in zip(sent, results, strict=True):
        record = found[metadata.partition][metadata.offset]
        assert (record.offset, record.key, record.value) == (metadata.offset, key, value)
        assert record.headers == headers
        assert record.timestamp == stamp == metadata.timestamp
        assert metadata.timestamp_type == record.timestamp_type == 0
        if key is not None:
            assert metadata.partition == (murmur2(key) & 0x7FFFFFFF) % 3


@pytest.mark.parametrize("without_key", [[0], [2], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("codec", [None, "lz4"])
async def test_only_invalid_records_of_a_rejected_batch_raise_the_broker_s_reason(
    kafka: RealKafka,
    topic: TopicFactory,
    producer_of: Any,
    without_key: list[int],
    codec: str | None,
) -> None:
    name = topic(1, **{"cleanup.policy": "compact"})
    producer = producer_of(kafka, compression_type=codec, linger_ms=1000)
    await producer.start()
    keys = [None if n in without_key else b"%d" % n for n in range(4)]
    acks = [await producer.send(name, b"v", key=key) for key in keys]
    await producer.flush()  # one batch
    for n, ack in enumerate(acks):
        with pytest.raises(KafkaError, match="cannot accept message without key") as caught:
            await ack
        assert type(caught.value) is (InvalidRecordError if n in without_key else KafkaError)
    assert (await producer.send_and_wait(name, b"v", key=b"k")).offset == 0


async def test_log_append_time_comes_from_the_broker(
    kafka: RealKafka, topic: TopicFactory, producer_of: Any
) -> None:
    name = topic(1, **{"message.timestamp.type": "LogAppendTime"})
    producer = producer_of(kafka)
    await producer.start()
    metadata = await producer.send_and_wait(name, b"v", timestamp_ms=5)
    (record,) = (await read_all(kafka.bootstrap_servers, name, 1))[0]
    assert metadata.timestamp_type == 1
    assert metadata.timestamp == record.timestamp > 5


async def test_batch_too_large_for_the_broker(
    kafka: RealKafka, topic: TopicFactory, producer_of: Any
) -> None:
    name = topic(1, **{"max.message.bytes": 10_000})
    producer = producer_of(kafka)
    await producer.start()
    with pytest.raises(MessageSizeTooLargeError, match=r"message\.max\.bytes"):
        await producer.send_and_wait(name, b"x" * 20_000)
    assert (await producer.send_and_wait(name, b"x")).offset == 0


async def test_unknown_partition_raises(
    kafka: RealKafka, topic: TopicFactory, producer_of: Any
) -> None:
    name = topic(2)
    producer = producer_of(kafka)
    await producer.start()
    with pytest.raises(IllegalArgumentError, match="Unrecognized partition 5"):
        await producer.send(name, b"v", partition=5)


async def test_cancelled_senders_leave_nothing_behind(
    kafka: RealKafka, topic: TopicFactory, producer_of: Any
) -> None:
    name = topic(6)
    producer = producer_of(kafka, buffer_memory=100_000)
    await producer.start()

    async def client(number: int) -> int:
        done = 0
        while True:
            await producer.send_and_wait(name, b"%d" % number * 200)
            done += 1

    tasks = [asyncio.ensure_future(client(number)) for number in range(500)]
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    await producer.flush()
    assert producer._sender.pool.used == 0
    assert producer._sender.pool.waiting == 0


@pytest.mark.long
async def test_no_acknowledged_record_is_lost_when_brokers_are_killed(
    kafka3: OwnCluster, topic3: TopicFactory, producer_of: Any
) -> None:
    """Each broker in turn is killed and restarted; records are stored once, in order by key."""
    name = topic3(6, **{"min.insync.replicas": 2})
    producer = producer_of(kafka3, linger_ms=2)
    await producer.start()
    over = asyncio.Event()
    acked: dict[bytes, list[int]] = defaultdict(list)

    async def client(number: int) -> None:
        key, n = b"key %d" % number, 0
        while not over.is_set():
            pending = [await producer.send(name, b"%d" % (n + i), key=key) for i in range(20)]
            for ack in pending:
                await ack
                acked[key].append(n)
                n += 1
            await asyncio.sleep(0.01)

    clients = [asyncio.ensure_future(client(number)) for number in range(50)]
    try:
        for node in kafka3.node_ids:
            await asyncio.sleep(1)
            await asyncio.to_thread(kafka3.kill, node)
            await asyncio.sleep(2)
            await asyncio.to_thread(kafka3.start, node)
            await asyncio.to_thread(kafka3.wait_ready)
        await asyncio.sleep(1)
    finally:
        over.set()
    await asyncio.gather(*clients)
    await producer.flush()
    found: dict[bytes, list[int]] = defaultdict(list)
    total = sum(map(len, acked.values()))
    assert total > 1000
    for records in (await read_all(kafka3.bootstrap_servers, name, 6, least=total)).values():
        for record in records:
            found[record.key].append(int(record.value))
    assert found == acked


async def test_stop_ends_by_its_timeout_with_a_suspended_broker(
    kafka3: OwnCluster, topic3: TopicFactory, producer_of: Any
) -> None:
    name = topic3(3, 1)
    producer = producer_of(kafka3, delivery_timeout_ms=60_000, request_timeout_ms=40_000)
    await producer.start()
    for partition in range(3):
        await producer.send_and_wait(name, b"v", partition=partition)
    node = kafka3.node_ids[0]
    await asyncio.to_thread(kafka3.pause, node)
    try:
        pending = [await producer.send(name, b"v", partition=p) for p in range(3)]
        started = asyncio.get_running_loop().time()
        await producer.stop(timeout=8)  # enough for the other brokers, even if one pauses
        assert asyncio.get_running_loop().time() - started < 20
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        failed = [o for o in outcomes if isinstance(o, ProducerClosed | DeliveryTimeoutError)]
        assert len(failed) == 1
    finally:
        await asyncio.to_thread(kafka3.resume, node)
        await asyncio.to_thread(kafka3.wait_ready)


@pytest.mark.parametrize("codec", [None, "lz4"])
async def test_too_large_batch_is_split(
    kafka: RealKafka, topic: TopicFactory, producer_of: Callable[..., AIOKafkaProducer], codec: str
) -> None:
    name = topic(1, **{"max.message.bytes": 2000})
    producer = producer_of(kafka, max_batch_size=16_384, compression_type=codec)
    await producer.start()
    sent = [random.Random(number).randbytes(150) for number in range(500)]
    sent[77] = bytes(random.Random(0).randbytes(3000))
    acks = [await producer.send(name, value) for value in sent]
    outcomes = await asyncio.gather(*acks, return_exceptions=True)
    assert isinstance(outcomes.pop(77), MessageSizeTooLargeError)
    assert [place.offset for place in outcomes] == list(range(499))
    found = await read_all(kafka.bootstrap_servers, name, 1, least=499)
    assert [record.value for record in found[0]] == sent[:77] + sent[78:]


async def test_send_batch_bulk_and_other_threads(
    kafka: RealKafka, topic: TopicFactory, producer_of: Callable[..., AIOKafkaProducer]
) -> None:
    name = topic(2)
    producer = producer_of(kafka, compression_type="zstd")
    await producer.start()
    batch = producer.create_batch()
    for number in range(100):
        batch.append(timestamp=1000 + number, key=b"k", value=b"batch %d" % number)
    first = await (await producer.send_batch(batch, name, partition=1))
    assert (first.partition, first.offset, first.timestamp) == (1, 0, 1000)
    many = await producer.send_many(name, (b"many %d" % n for n in range(5000)), partition=0)
    assert [place.offset for place in await asyncio.gather(*many)] == list(range(5000))

    def from_a_thread() -> list[Any]:
        futures = [producer.send_threadsafe(name, b"thread %d" % n, None, 1) for n in range(1000)]
        return [future.result(30).offset for future in futures]

    assert await asyncio.to_thread(from_a_thread) == list(range(100, 1100))
    assert (await producer.send_nowait(name, b"now", partition=1)).offset == 1100
    found = await read_all(kafka.bootstrap_servers, name, 2, least=6101)
    assert [record.value for record in found[1][:100]] == [b"batch %d" % n for n in range(100)]
    assert [record.value for record in found[0]] == [b"many %d" % n for n in range(5000)]
    assert found[1][-1].value == b"now"
