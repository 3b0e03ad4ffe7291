"""Share consumers whose event loop is blocked for longer than their locks last, on a real Kafka."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from aiokafka_lite.errors import InvalidRecordStateError
from tests.real.test_share_consumer import (
    PATIENCE,
    assert_nothing_is_left,
    consumer_of,
    new_group,
    produce,
)

LOCK = 8.0  # seconds
STALL = LOCK + 1.5
RECORDS = 20

pytestmark = [pytest.mark.real, pytest.mark.long]


async def test_acceptances_after_a_stall_fail_one_by_one_and_the_records_come_again(
    kafka, topic
) -> None:
    name = topic()
    group = await new_group(kafka, share_record_lock_duration_ms=str(int(LOCK * 1000)))
    await produce(kafka, name, range(RECORDS))
    async with consumer_of(kafka, name, group=group) as consumer, asyncio.timeout(PATIENCE):
        held = []
        while len(held) < RECORDS:
            held += await consumer.getmany(timeout_ms=1000, max_records=RECORDS - len(held))
        time.sleep(STALL)  # noqa: ASYNC251 (the loop is to be blocked)
        for record, mark in [(record, record.accept()) for record in held]:
            with pytest.raises(InvalidRecordStateError):
                await mark
            assert record.delivery_count == 1
        again: dict[int, int] = {}
        while len(again) < RECORDS:
            for record in await consumer.getmany(timeout_ms=1000):
                again[int(record.value)] = record.delivery_count
                assert await record.accept() is None
        assert again == dict.fromkeys(range(RECORDS), 2)
    await assert_nothing_is_left(kafka, group, name)


async def test_run_continues_after_a_handler_that_blocks_the_loop_beyond_the_locks(
    kafka, topic
) -> None:
    name = topic()
    group = await new_group(kafka, share_record_lock_duration_ms=str(int(LOCK * 1000)))
    await produce(kafka, name, range(RECORDS))
    deliveries: Counter[int] = Counter()
    second: set[int] = set()
    complete = asyncio.Event()
    async with consumer_of(kafka, name, group=group) as consumer:

        async def handle(record) -> None:
            number = int(record.value)
            deliveries[number] += 1
            assert record.delivery_count <= 2
            if record.delivery_count == 2:
                second.add(number)
            if number == 0 and record.delivery_count == 1:
                time.sleep(STALL)  # noqa: ASYNC251 (the loop is to be blocked)
            if second == set(range(RECORDS)):
                complete.set()

        running = asyncio.create_task(consumer.run(handle, concurrency=RECORDS))
        async with asyncio.timeout(PATIENCE):
            await complete.wait()
            await consumer.stop()
            await running
    assert deliveries[0] == 2
    assert set(deliveries.values()) <= {1, 2}
    await assert_nothing_is_left(kafka, group, name)
