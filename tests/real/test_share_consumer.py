"""The share consumer against a real Kafka: reading, acknowledging, redelivery, close."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter

import pytest

from aiokafka_lite import (
    AcknowledgeType,
    AIOKafkaAdminClient,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
)
from aiokafka_lite.admin import ConfigResource
from aiokafka_lite.errors import IllegalStateError, InvalidRecordStateError
from tests.real.visibility import group_has_configs

PATIENCE = 60.0


async def new_group(cluster, **config: str) -> str:
    """Configure a new group, which begins at the earliest offset."""
    group = f"share-{uuid.uuid4().hex[:10]}"
    changes = {"share.auto.offset.reset": "earliest"}
    changes |= {name.replace("_", "."): value for name, value in config.items()}
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        outcome = await admin.incremental_alter_configs({ConfigResource("group", group): changes})
        outcome.raise_for_errors()
    await group_has_configs(cluster.bootstrap_servers, group, changes)
    return group


async def produce(cluster, topic: str, values: range, partitions: int = 1) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        acks = [
            await producer.send(topic, b"%d" % value, partition=value % partitions)
            for value in values
        ]
        await asyncio.gather(*acks)


async def assert_nothing_is_left(cluster, group: str, topic: str) -> None:
    """Another member gets the next new record, and none before it. (The start offset that the
    brokers report lags behind: they store it with the next acknowledgement.)"""
    async with consumer_of(cluster, topic, group=group) as consumer:
        await produce(cluster, topic, range(-1, 0))
        async with asyncio.timeout(PATIENCE):
            record = await consumer.getone()
            await record.accept()
        assert (record.value, record.delivery_count) == (b"-1", 1)


def consumer_of(cluster, *topics: str, group: str, **options: object) -> AIOKafkaShareConsumer:
    return AIOKafkaShareConsumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, group_id=group, **options
    )


async def test_every_record_is_delivered_and_accepted(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(1000))
    seen: list[int] = []
    async with consumer_of(kafka, name, group=group) as consumer:
        async with asyncio.timeout(PATIENCE):
            async for record in consumer:
                seen.append(int(record.value))
                assert record.delivery_count == 1
                record.accept()
                if len(seen) == 1000:
                    break
        assert consumer.acquisition_lock_timeout_ms == 30000
    assert seen == list(range(1000))
    await assert_nothing_is_left(kafka, group, name)


async def test_awaited_acknowledgements_are_confirmed_by_the_broker(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(3))
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(PATIENCE):
        for _ in range(3):
            record = await consumer.getone()
            assert await record.accept() is None
            with pytest.raises(IllegalStateError, match="already acknowledged"):
                record.release()
        await assert_nothing_is_left(kafka, group, name)


async def test_released_records_come_again_and_rejected_ones_do_not(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(10))
    deliveries: Counter[int] = Counter()
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(PATIENCE):
        while deliveries.total() < 15:
            for record in await consumer.getmany(timeout_ms=1000):
                number = int(record.value)
                deliveries[number] += 1
                assert record.delivery_count == deliveries[number]
                if number % 2:
                    record.reject()
                elif deliveries[number] == 1:
                    record.release()
                else:
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
        await consumer.flush()
        await assert_nothing_is_left(kafka, group, name)
    assert deliveries == {number: 1 if number % 2 else 2 for number in range(10)}


async def test_no_more_records_are_acquired_than_a_read_can_take(kafka, topic) -> None:
    name, group = topic(partitions=3), await new_group(kafka)
    await produce(kafka, name, range(60), partitions=3)
    first = consumer_of(kafka, name, group=group)
    second = consumer_of(kafka, name, group=group)
    async with first, second, asyncio.timeout(PATIENCE):
        held = []
        while len(held) < 6:
            batch = await first.getmany(timeout_ms=1000, max_records=2)
            assert len(batch) <= 2
            held.extend(batch)
        others = 0
        while others < 54:
            for consumer in (first, second):
                batch = await consumer.getmany(timeout_ms=200)
                others += len(batch)
                await batch.accept()
        for record in held:
            await record.accept()
        assert {record.delivery_count for record in held} == {1}


async def test_a_renewed_lock_outlives_its_first_deadline(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka, share_record_lock_duration_ms="8000")
    await produce(kafka, name, range(2))
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(90):
        kept = await consumer.getone()
        dropped = await consumer.getone()
        assert consumer.acquisition_lock_timeout_ms == 8000
        loop = asyncio.get_running_loop()
        deadline = kept.lock_deadline
        assert loop.time() < deadline <= loop.time() + 8
        while loop.time() < deadline + 1:
            renewed = await kept.renew()
            assert renewed == kept.lock_deadline > deadline
            await asyncio.sleep(1)
        assert await kept.accept() is None
        assert dropped.lock_deadline == 0.0 or dropped.lock_deadline < loop.time()
        with pytest.raises(InvalidRecordStateError):
            await dropped.accept()
        again = await consumer.getone()
        assert (again.offset, again.delivery_count) == (dropped.offset, 2)
        await again.accept()


async def test_stop_releases_what_was_not_acknowledged(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(4))
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(PATIENCE):
        batch = await consumer.getmany(timeout_ms=30000)
        while len(batch) < 4:
            batch = [*batch, *await consumer.getmany(timeout_ms=30000)]
        batch[0].accept()
        batch[2].accept()
    seen = {}
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(PATIENCE):
        while len(seen) < 2:
            record = await consumer.getone()
            seen[record.offset] = record.delivery_count
            record.accept()
    assert seen == {1: 2, 3: 2}


async def test_implicit_mode_accepts_with_the_next_read_and_releases_at_the_end(
    kafka, topic
) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(4))
    options = {"acknowledgement_mode": "implicit", "max_poll_records": 2}
    async with (
        consumer_of(kafka, name, group=group, **options) as consumer,
        asyncio.timeout(PATIENCE),
    ):
        first = await consumer.getmany(timeout_ms=30000, max_records=2)
        with pytest.raises(IllegalStateError, match="implicit"):
            first[0].accept()
        while not (second := await consumer.getmany(timeout_ms=30000, max_records=2)):
            pass
        assert [record.offset for record in [*first, *second]] == [0, 1, 2, 3]
    async with consumer_of(kafka, name, group=group, **options) as consumer:
        async with asyncio.timeout(PATIENCE):
            again = await consumer.getmany(timeout_ms=30000)
            assert again[0].offset == 2
            assert again[0].delivery_count == 2
            while again[-1].offset < 3:
                again = await consumer.getmany(timeout_ms=30000)
            await consumer.flush()
    await assert_nothing_is_left(kafka, group, name)


async def test_undecodable_records_are_rejected_or_raised(kafka, topic) -> None:
    name, group = topic(), await new_group(kafka)
    await produce(kafka, name, range(10))

    def deserialize(value: bytes) -> int:
        number = int(value)
        if number == 4:
            raise ValueError("no fours")
        return number

    options = {"value_deserializer": deserialize}
    seen = []
    async with (
        consumer_of(kafka, name, group=group, on_undecodable="raise", **options) as consumer,
        asyncio.timeout(PATIENCE),
    ):
        while len(seen) < 4:
            seen.append((await consumer.getone()).value)
        with pytest.raises(ValueError, match="no fours") as caught:
            await consumer.getone()
        assert "offset 4" in caught.value.__notes__[0]
        assert await consumer.acknowledge(name, 0, 4, AcknowledgeType.RELEASE) is None
    assert seen == [0, 1, 2, 3]
    async with (
        consumer_of(kafka, name, group=group, **options) as consumer,
        asyncio.timeout(PATIENCE),
    ):
        numbers = set()
        while len(numbers) < 9:
            record = await consumer.getone()
            numbers.add(record.value)
            record.accept()
        await consumer.flush()
    assert numbers == set(range(10)) - {4}
    await assert_nothing_is_left(kafka, group, name)


async def test_start_warns_of_a_new_group_at_latest(kafka, topic, caplog) -> None:
    name, group = topic(), f"share-{uuid.uuid4().hex[:10]}"
    await produce(kafka, name, range(1))
    async with consumer_of(kafka, name, group=group):
        pass
    assert "share.auto.offset.reset is 'latest'" in caplog.text
    caplog.clear()
    async with consumer_of(kafka, name, group=await new_group(kafka)):
        pass
    assert "latest" not in caplog.text


async def test_a_new_group_at_latest_is_delivered_what_is_sent_after_start(kafka, topic) -> None:
    name = topic(partitions=3)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(name, b"before", partition=0)
        for number in range(5):  # the leaders look up the start while they answer
            group = f"share-{uuid.uuid4().hex[:10]}"
            async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(60):
                value = b"%d" % number
                for partition in range(3):
                    await producer.send_and_wait(name, value, partition=partition)
                places = set()
                while len(places) < 3:
                    record = await consumer.getone()
                    assert record.value == value
                    places.add(record.partition)
                    record.accept()


async def test_records_sent_after_a_later_subscribe_at_latest_are_delivered(kafka, topic) -> None:
    name = topic(partitions=3)
    group = f"share-{uuid.uuid4().hex[:10]}"
    async with (
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
        consumer_of(kafka, group=group) as consumer,
        asyncio.timeout(60),
    ):
        await producer.send_and_wait(name, b"before", partition=0)
        consumer.subscribe([name])
        core = consumer._core
        while len(core.beginnings.looked) < 3 or core.beginnings.looking:
            await asyncio.sleep(0.01)
        for partition in range(3):
            await producer.send_and_wait(name, b"after", partition=partition)
        for _ in range(3):
            record = await consumer.getone()
            assert record.value == b"after"
            await record.accept()


async def test_batch_optimized_reads_everything_once(kafka, topic) -> None:
    name, group = topic(partitions=2), await new_group(kafka)
    await produce(kafka, name, range(1000), partitions=2)
    seen: list[int] = []
    async with (
        consumer_of(
            kafka, name, group=group, acquire_mode="batch_optimized", max_poll_records=50
        ) as consumer,
        asyncio.timeout(PATIENCE),
    ):
        while len(seen) < 1000:
            batch = await consumer.getmany(timeout_ms=1000)
            assert len(batch) <= 50
            seen += [int(record.value) for record in batch]
            assert all(record.delivery_count == 1 for record in batch)
            batch.accept()
        await consumer.flush()
    assert sorted(seen) == list(range(1000))
    await assert_nothing_is_left(kafka, group, name)
