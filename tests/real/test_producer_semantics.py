"""Behaviour that applications of aiokafka rely on, beyond signatures: producers on a real Kafka.

Most tests also run with aiokafka, to verify that it behaves this way.
"""

import asyncio
import gc
import warnings
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import aiokafka_lite
from aiokafka_lite.structs import RecordMetadata, TopicPartition
from tests.real.test_producer import read_all
from tools.kafka import RealKafka

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")

TopicFactory = Callable[..., str]

BOTH = pytest.mark.parametrize("library", [aiokafka_lite, aiokafka], ids=["ours", "aiokafka"])
PATIENCE = 30  # seconds


def error_of(library: ModuleType, name: str) -> type[Exception]:
    errors = library.errors if library is aiokafka_lite else aiokafka.errors
    found: type[Exception] = getattr(errors, name)
    return found


async def first_record(bootstrap: str, topic: str, offset: int = 0) -> Any:
    """A record read by aiokafka's consumer."""
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return await asyncio.wait_for(consumer.getone(), PATIENCE)


# Row 2: life cycle


@BOTH
async def test_stop_is_idempotent_and_works_after_a_failed_start(library: ModuleType) -> None:
    producer = library.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(error_of(library, "KafkaConnectionError")):
        await producer.start()
    await producer.stop()
    await producer.stop()


# Row 4: the client


@BOTH
async def test_client_tracks_an_added_topic(
    kafka: RealKafka, topic: TopicFactory, library: ModuleType
) -> None:
    name = topic(2)
    async with library.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        client = producer.client
        assert name not in client.cluster.topics()
        client.add_topic(name)  # not a coroutine: nothing needs to be awaited
        assert await client.force_metadata_update()
        assert name in client.cluster.topics()


# Row 5: results of send


@BOTH
async def test_send_returns_a_future_of_the_metadata(
    kafka: RealKafka, topic: TopicFactory, library: ModuleType
) -> None:
    name = topic(1)
    async with library.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, linger_ms=1000
    ) as producer:
        first = await producer.send(name, b"one", b"key", 0, 1_700_000_000_000, [("h", b"1")])
        second = await producer.send(name, b"two")
        assert not first.done()
        assert not second.done()
        told: list[Any] = []
        first.add_done_callback(told.append)
        done, waiting = await asyncio.wait([first, second], timeout=PATIENCE)
        assert (done, waiting) == ({first, second}, set())
        assert told == [first]
        assert first.done()
        assert not first.cancelled()
        assert first.exception() is None
        metadata = first.result()
        assert metadata._fields == RecordMetadata._fields
        assert (metadata.topic, metadata.partition, metadata.offset) == (name, 0, 0)
        assert metadata.topic_partition == TopicPartition(name, 0)
        assert (metadata.timestamp, metadata.timestamp_type) == (1_700_000_000_000, 0)
        assert (await second).offset == 1
        fields = (await asyncio.gather(first, asyncio.shield(second)))[1]
        assert fields == await asyncio.wait_for(second, PATIENCE)
    record = await first_record(kafka.bootstrap_servers, name)
    assert (record.key, record.value, record.headers) == (b"key", b"one", (("h", b"1"),))
    assert record.timestamp == metadata.timestamp


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_metadata_has_the_timestamp_of_the_record(
    kafka: RealKafka, topic: TopicFactory, kind: str
) -> None:
    name = topic(1, **{"message.timestamp.type": kind})
    async with aiokafka_lite.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, linger_ms=100
    ) as producer:
        acks = [await producer.send(name, b"%d" % n, timestamp_ms=1000 + n) for n in range(2)]
        found = [await ack for ack in acks]
    for offset, metadata in enumerate(found):
        record = await first_record(kafka.bootstrap_servers, name, offset)
        assert metadata is not None
        assert metadata.offset == offset
        assert (metadata.timestamp, metadata.timestamp_type) == (
            record.timestamp,
            record.timestamp_type,
        )
        assert (metadata.timestamp == 1000 + offset) == (kind == "CreateTime")


@BOTH
async def test_acks_0_returns_no_metadata(
    kafka: RealKafka, topic: TopicFactory, library: ModuleType
) -> None:
    name = topic(1)
    # Only a leader returns the end; a broker that is not yet one would drop the record.
    await read_all(kafka.bootstrap_servers, name, 1)
    async with library.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, acks=0
    ) as producer:
        assert await producer.send_and_wait(name, b"gone") is None
    assert (await first_record(kafka.bootstrap_servers, name)).value == b"gone"


@BOTH
async def test_invalid_record_raises_from_send(
    kafka: RealKafka, topic: TopicFactory, library: ModuleType
) -> None:
    name = topic(1)
    producer = library.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, max_request_size=5000
    )
    await producer.start()
    try:
        with pytest.raises(TypeError):
            await producer.send(name, "text without a serializer")
        with pytest.raises(error_of(library, "MessageSizeTooLargeError")):
            await producer.send(name, b"x" * 6000)
        assert (await producer.send_and_wait(name, b"fits")).offset == 0
    finally:
        await producer.stop()
    with pytest.raises(error_of(library, "ProducerClosed")):
        await producer.send(name, b"late")


# Row 19: send_batch


@BOTH
async def test_send_batch(kafka: RealKafka, topic: TopicFactory, library: ModuleType) -> None:
    name = topic(2)
    async with library.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        max_batch_size=300,
        value_serializer=str.encode,
    ) as producer:
        await producer.send_and_wait(name, "before", partition=1)
        batch = producer.create_batch()
        appended = 0
        while batch.append(timestamp=None, key=None, value="x" * 50) is not None:
            appended += 1
        assert batch.record_count() == appended > 2
        batch.close()
        assert batch.append(timestamp=None, key=None, value="late") is None
        metadata = await (await producer.send_batch(batch, name, partition=1))
        assert metadata.offset == 1, "that of the first of them"
        assert (await producer.send_and_wait(name, "after", partition=1)).offset == 1 + appended

        large = producer.create_batch()
        assert large.append(timestamp=None, key=None, value="x" * 1000) is not None
        assert large.append(timestamp=None, key=None, value="x") is None
        assert (await (await producer.send_batch(large, name, partition=0))).offset == 0

        partitions = await producer.partitions_for(name)
        assert partitions == {0, 1}
        partitions.clear()
        assert await producer.partitions_for(name) == {0, 1}


# Row 20: garbage collection


async def test_dropped_producer_warns_and_is_freed_at_once(
    kafka: RealKafka, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = aiokafka_lite.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    await producer.send_and_wait(topic(1), b"it has worked")
    dropped = weakref.ref(producer)
    texts: list[str] = []  # not the warnings, which keep their source alive
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda text, *_: texts.append(str(text)))
        del producer
        gc.collect()
    assert dropped() is None, "without a pass of the loop: no task of its holds it"
    assert any(text.startswith("Unclosed AIOKafkaProducer") for text in texts), texts
    await asyncio.sleep(0)  # its remaining tasks end
