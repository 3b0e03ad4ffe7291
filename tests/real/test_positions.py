"""Positions on a real Kafka: deleted and recreated topics, and timestamps."""

import asyncio
import time
import uuid
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.consumer.membership import missing_partitions as presence
from aiokafka_lite.errors import LogTruncationError, OffsetOutOfRangeError
from aiokafka_lite.structs import TopicPartition
from tests.real.test_consumer import numbered, reading, take, write, writer
from tests.real.visibility import seen
from tools.kafka import RealKafka

confluent_admin = pytest.importorskip("confluent_kafka.admin")
ConfluentPartition: Any = pytest.importorskip("confluent_kafka").TopicPartition

HOUR = 3_600_000


@pytest.fixture
def admin(kafka: RealKafka) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


async def make_again(kafka: RealKafka, admin: Any, name: str) -> None:
    def act() -> None:
        admin.delete_topics([name])[name].result(30)
        # Until the broker learns of the deletion, it would show the old topic as the new one.
        seen(lambda: name in admin.list_topics(timeout=30).topics, False)
        kafka.create_topic(name, 1)

    await asyncio.to_thread(act)


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_recreated_topic_with_a_longer_log(kafka: RealKafka, admin: Any, policy: str) -> None:
    name = f"again-{uuid.uuid4().hex}"
    kafka.create_topic(name, 1)
    await asyncio.to_thread(write, kafka, name, numbered(5))
    partition = TopicPartition(name, 0)
    # Otherwise a request for the deleted topic could recreate it before this test does.
    async with reading(kafka, auto_offset_reset=policy, allow_auto_create_topics=False) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert [record.value for record in await take(consumer, 5)] == numbered(5)
        await make_again(kafka, admin, name)
        await asyncio.to_thread(write, kafka, name, numbered(20, 100))
        if policy == "none":
            with pytest.raises(LogTruncationError):
                await take(consumer, 1)
            consumer.seek(partition, 0)
        assert [record.value for record in await take(consumer, 20)] == numbered(20, 100)


async def test_deleted_topic_ends_reading(
    kafka: RealKafka, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"gone-{uuid.uuid4().hex}"
    kafka.create_topic(name, 2)
    async with reading(kafka, name, allow_auto_create_topics=False) as consumer:
        monkeypatch.setattr(consumer._core.subscription, "_presence", presence.Presence(1))
        assert len(consumer.assignment()) == 2
        await asyncio.to_thread(lambda: admin.delete_topics([name])[name].result(30))
        async with asyncio.timeout(30):
            while consumer.assignment():
                await consumer.getmany(timeout_ms=100)
        await asyncio.to_thread(kafka.create_topic, name, 1)
        await asyncio.to_thread(write, kafka, name, numbered(3))
        assert [record.value for record in await take(consumer, 3)] == numbered(3)


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
async def test_position_before_the_log_start(kafka: RealKafka, admin: Any, policy: str) -> None:
    """The start of the log has moved past the position."""
    name = f"deleted-{uuid.uuid4().hex}"
    kafka.create_topic(name, 1)
    await asyncio.to_thread(write, kafka, name, numbered(10))
    tp = TopicPartition(name, 0)
    async with reading(kafka, auto_offset_reset=policy) as consumer:
        consumer.assign([tp])
        consumer.pause(tp)
        consumer.seek(tp, 2)
        deleted = admin.delete_records([ConfluentPartition(name, 0, 7)])
        await asyncio.to_thread(next(iter(deleted.values())).result, 30)
        assert await consumer.beginning_offsets([tp]) == {tp: 7}
        consumer.resume(tp)
        if policy == "none":
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError):
                    await take(consumer, 1)
            consumer.seek(tp, 7)
        if policy == "latest":
            async with asyncio.timeout(30):
                while await consumer.position(tp) != 10:
                    await consumer.getmany(timeout_ms=20)
            await asyncio.to_thread(write, kafka, name, [b"new"])
            assert [record.value for record in await take(consumer, 1)] == [b"new"]
        else:
            assert [record.value for record in await take(consumer, 3)] == numbered(3, 7)


async def test_seek_by_timestamp(kafka: RealKafka) -> None:
    name = f"hour-{uuid.uuid4().hex}"
    kafka.create_topic(name, 2)
    now = int(time.time() * 1000)

    def fill() -> None:
        producer = writer(kafka)
        for i, age in enumerate((30 * HOUR, 3 * HOUR, HOUR // 2, HOUR // 4)):
            producer.produce(name, b"%d" % i, partition=0, timestamp=now - age)
            producer.flush(30)
        producer.produce(name, b"old", partition=1, timestamp=now - 3 * HOUR)
        assert producer.flush(30) == 0

    await asyncio.to_thread(fill)

    async def starts(policy: str) -> list[int]:
        consumer: AIOKafkaConsumer
        async with reading(kafka, name, auto_offset_reset=policy) as consumer:
            return [await consumer.position(TopicPartition(name, i)) for i in range(2)]

    assert await starts("by_duration:PT1H") == [2, 1]
    assert await starts("by_duration:P1D") == [1, 0]
    assert await starts("by_duration:P10000000D") == [0, 0]
    assert await starts("by_duration:PT0S") == [4, 1]
