"""`run` and `process` of a share consumer, on the embedded broker."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, AIOKafkaShareConsumer, ShareRecord
from aiokafka_lite.errors import ConsumerStoppedError, IllegalStateError
from aiokafka_lite.testing import FakeCluster
from tests.unit.share.conftest import GROUP, MakeShareConsumer

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0


async def produce(cluster: FakeCluster, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send_and_wait("jobs", b"%d" % number, partition=number % 2)


async def test_run_handles_each_record_and_retries_some(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 40)
    seen: Counter[int] = Counter()
    complete = asyncio.Event()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        number = int(record.value)
        seen[number] += 1
        if len(seen) == 40 and seen.total() == 43:
            complete.set()
        await asyncio.sleep(0)
        if number in (3, 20, 33) and record.delivery_count == 1:
            raise TimeoutError("the database is away")
        if number == 7:
            raise ValueError("not an order")

    consumer = make("jobs")
    await consumer.start()
    running = asyncio.create_task(consumer.run(handle, concurrency=8, retry_delay_ms=0))
    async with asyncio.timeout(PATIENCE):
        await complete.wait()
        await consumer.stop()
        await running
    assert {number for number, count in seen.items() if count == 2} == {3, 20, 33}
    assert consumer.metrics()["acknowledgements-error-total"] == 0


async def test_process_acknowledges_by_the_outcome_of_its_block(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 4)
    outcomes: list[tuple[int, int]] = []
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        async for record in consumer:
            number = int(record.value)
            outcomes.append((number, record.delivery_count))
            try:
                async with record.process(retry=(TimeoutError,)):
                    if number == 1 and record.delivery_count == 1:
                        raise TimeoutError("again")
                    if number == 2:
                        raise ValueError("never")
            except ValueError:
                assert number == 2
            assert record.settled
            if len(outcomes) == 5:
                break
        with pytest.raises(IllegalStateError, match="acknowledged already"):
            await record.process().__aenter__()
    assert sorted(outcomes) == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1)]


async def test_handler_cannot_wait_for_the_end_of_its_own_run(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 1)
    refused = asyncio.Event()
    consumer = make("jobs")
    await consumer.start()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        with pytest.raises(IllegalStateError, match="stop the consumer in another task"):
            await consumer.stop()
        refused.set()

    running = asyncio.create_task(consumer.run(handle))
    async with asyncio.timeout(PATIENCE):
        await refused.wait()
        await consumer.stop()
        await running


async def test_run_is_refused_in_the_implicit_mode(make: MakeShareConsumer) -> None:
    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        """Do nothing."""

    async with make("jobs", acknowledgement_mode="implicit") as consumer:
        with pytest.raises(IllegalStateError, match="explicit"):
            await consumer.run(handle)


async def test_long_handlers_do_not_end_the_membership(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 2)
    begun, finish = asyncio.Event(), asyncio.Event()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        begun.set()
        await finish.wait()

    consumer = make("jobs", max_poll_interval_ms=500)
    await consumer.start()
    running = asyncio.create_task(consumer.run(handle, concurrency=1))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        await asyncio.sleep(1.5)  # three intervals in which nothing is acquired
        assert consumer.assignment()
        finish.set()
        await consumer.stop()
        await running


async def test_cancelled_stop_closes_the_consumer(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 1)
    begun = asyncio.Event()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        begun.set()
        await asyncio.Event().wait()

    consumer = make("jobs")
    await consumer.start()
    running = asyncio.create_task(consumer.run(handle))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0.05)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_an_overridden_getmany_is_used(cluster: FakeCluster) -> None:
    await produce(cluster, 4)
    calls = 0

    class Counting(AIOKafkaShareConsumer[bytes, bytes]):
        async def getmany(self, **arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return await super().getmany(**arguments)

    await handle_all(
        Counting("jobs", bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP), 4
    )
    assert calls


async def handle_all(consumer: AIOKafkaShareConsumer[bytes, bytes], count: int) -> None:
    complete = asyncio.Event()
    seen: set[bytes | None] = set()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        seen.add(record.value)
        if len(seen) == count:
            complete.set()

    await consumer.start()
    running = asyncio.create_task(consumer.run(handle))
    async with asyncio.timeout(PATIENCE):
        await complete.wait()
        await consumer.stop()
        await running


async def test_a_run_shares_the_records_with_another_read(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 40)
    seen: Counter[int] = Counter()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        seen[int(record.value or 0)] += 1

    consumer = make("jobs")
    await consumer.start()
    running = asyncio.create_task(consumer.run(handle, concurrency=3))
    async with asyncio.timeout(PATIENCE):
        while len(seen) < 40:
            for record in await consumer.getmany(timeout_ms=5, max_records=2):
                seen[int(record.value or 0)] += 1
                record.accept()
        await consumer.stop()
        await running
    assert set(seen.values()) == {1}
