"""`run` with handlers that use their consumer, change the subscription, or raise no `Exception`."""

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, ShareRecord
from aiokafka_lite.testing import FakeCluster
from tests.unit.share.conftest import MakeShareConsumer

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0

Record = ShareRecord[bytes, bytes]


async def produce(cluster: FakeCluster, count: int, topic: str = "jobs") -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)


class Seen:
    """Counts values; `until` waits for this many different ones."""

    def __init__(self) -> None:
        self.values: Counter[tuple[str, bytes | None]] = Counter()
        self._changed = asyncio.Event()

    def add(self, record: Record) -> None:
        self.values[record.topic, record.value] += 1
        self._changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.values) < count:
                self._changed.clear()
                await self._changed.wait()


async def test_a_handler_may_read_and_flush_with_its_own_consumer(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 40)
    seen = Seen()
    consumer = make("jobs")
    await consumer.start()

    async def handle(record: Record) -> None:
        seen.add(record)
        for other in await consumer.getmany(timeout_ms=0, max_records=1):
            seen.add(other)
            other.accept()
        await record.accept()
        await consumer.flush()

    running = asyncio.create_task(consumer.run(handle, concurrency=4))
    await seen.until(40)
    await consumer.stop()
    await running
    assert set(seen.values.values()) == {1}
    assert consumer.metrics()["acknowledgements-error-total"] == 0


async def test_a_handler_may_change_the_subscription(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    cluster.create_topic("mails", partitions=2)
    await produce(cluster, 20)
    await produce(cluster, 20, "mails")
    seen = Seen()
    consumer = make("jobs")
    await consumer.start()

    async def handle(record: Record) -> None:
        seen.add(record)
        if record.topic == "jobs" and len(seen.values) == 5:
            consumer.unsubscribe()
            await asyncio.sleep(0.1)
            consumer.subscribe(["jobs", "mails"])

    running = asyncio.create_task(consumer.run(handle, concurrency=3))
    await seen.until(40)
    await consumer.stop()
    await running
    assert Counter(topic for topic, _ in seen.values) == {"jobs": 20, "mails": 20}


async def test_two_runs_share_the_records_of_a_consumer(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 100)
    seen = Seen()
    consumer = make("jobs")
    await consumer.start()

    async def quick(record: Record) -> None:
        seen.add(record)

    async def slow(record: Record) -> None:
        await asyncio.sleep(0.01)
        seen.add(record)

    runs = [asyncio.create_task(consumer.run(each, concurrency=7)) for each in (quick, slow)]
    await seen.until(100)
    await consumer.stop()
    await asyncio.gather(*runs)
    assert set(seen.values.values()) == {1}


class Fatal(BaseException):
    """No error that a handler is expected to raise."""


@pytest.mark.parametrize("error", [Fatal, GeneratorExit, asyncio.CancelledError])
async def test_an_exception_that_is_no_error_leaves_the_other_handlers_their_time(
    cluster: FakeCluster, make: MakeShareConsumer, error: type[BaseException]
) -> None:
    await produce(cluster, 20)
    ended: list[bytes | None] = []
    raised: list[bytes | None] = []
    consumer = make("jobs")
    await consumer.start()

    async def handle(record: Record) -> None:
        await asyncio.sleep(0.02)
        if record.value == b"3" and record.delivery_count == 1:
            raised.append(record.value)
            raise error
        await asyncio.sleep(0.5)
        ended.append(record.value)

    running = asyncio.create_task(consumer.run(handle, concurrency=20, retry_delay_ms=0))
    async with asyncio.timeout(PATIENCE):
        if error is asyncio.CancelledError:  # its record is delivered again, and the run continues
            while len(ended) < 20:
                await asyncio.sleep(0.01)
            await consumer.stop()
            await running
        else:
            with pytest.raises(error):
                await running
            assert len(ended) in range(1, 20)
            await consumer.stop()
    assert raised == [b"3"]
    assert len(ended) == len(set(ended))
    handled = make("jobs")
    await handled.start()
    left = 20 - len(ended)
    found: list[Record] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < left:
            found += await handled.getmany(timeout_ms=1_000)
    assert not set(ended) & {record.value for record in found}
    for record in found:
        record.accept()


async def test_a_handler_may_be_any_callable_that_returns_an_awaitable(
    cluster: FakeCluster, make: MakeShareConsumer
) -> None:
    await produce(cluster, 12)

    class Handler:
        async def __call__(self, record: Record) -> None:
            await asyncio.sleep(0)
            seen.add(record)

        async def method(self, record: Record) -> None:
            seen.add(record)

    def starts_a_task(record: Record) -> asyncio.Task[None]:
        return asyncio.create_task(Handler().method(record))

    async def two(prefix: str, record: Record) -> None:
        seen.add(record)

    handlers: list[Callable[[Any], Awaitable[object]]] = [
        Handler(),
        Handler().method,
        starts_a_task,
        functools.partial(two, "prefix"),
        lambda record: asyncio.gather(Handler().method(record), asyncio.sleep(0)),
    ]
    for number, handler in enumerate(handlers):
        seen = Seen()
        if number:
            await produce(cluster, 12)
        consumer = make("jobs")
        await consumer.start()
        running = asyncio.create_task(consumer.run(handler, concurrency=3))
        await seen.until(12)
        await consumer.stop()
        await running
        assert set(seen.values.values()) == {1}
