"""`run` of a share consumer against a real Kafka."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.real.test_share_consumer import (
    PATIENCE,
    assert_nothing_is_left,
    consumer_of,
    new_group,
    produce,
)


async def test_two_members_handle_every_record(kafka, topic) -> None:
    name, group = topic(partitions=4), await new_group(kafka)
    await produce(kafka, name, range(2000), partitions=4)
    seen: Counter[int] = Counter()
    failed: set[int] = set()
    complete = asyncio.Event()

    async def handle(record) -> None:
        number = int(record.value)
        seen[number] += 1
        if len(seen) == 2000 and failed == {0, 500, 1000, 1500} and seen.total() >= 2004:
            complete.set()
        if number % 500 == 0 and record.delivery_count == 1:
            failed.add(number)
            raise TimeoutError("again")
        if number % 50 == 0:
            await asyncio.sleep(0.02)

    async with (
        consumer_of(kafka, name, group=group) as one,
        consumer_of(kafka, name, group=group) as two,
    ):
        runs = [
            asyncio.create_task(each.run(handle, concurrency=50, retry_delay_ms=100))
            for each in (one, two)
        ]
        async with asyncio.timeout(PATIENCE):
            await complete.wait()
            await asyncio.gather(one.stop(), two.stop())
            await asyncio.gather(*runs)
    assert {number for number, count in seen.items() if count > 1} == failed
    await assert_nothing_is_left(kafka, group, name)


async def test_lock_lasts_as_long_as_the_handler(kafka, topic) -> None:
    name = topic()
    group = await new_group(kafka, share_record_lock_duration_ms="8000")
    await produce(kafka, name, range(1))
    deliveries: list[int] = []
    done = asyncio.Event()

    async def handle(record) -> None:
        deliveries.append(record.delivery_count)
        await asyncio.sleep(10)  # longer than the lock
        done.set()

    async with consumer_of(kafka, name, group=group) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        async with asyncio.timeout(PATIENCE):
            await done.wait()
            await consumer.stop()
            await running
    assert deliveries == [1]
    await assert_nothing_is_left(kafka, group, name)
