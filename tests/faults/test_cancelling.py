"""Cancels producer operations at every step: no memory, task or sequence number is leaked.

In `exhaustively`, an operation is cancelled before its first loop pass, after one, after two, and
so on, until it ends before it is cancelled, and so at each of its awaits. At random, many calls
are cancelled concurrently while brokers fail.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import (
    BrokerResponseError,
    KafkaError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds

Operation = Callable[[AIOKafkaProducer], Awaitable[object]]

VALUE = b"v" * 300
MEMORY = 2_000  # bytes: two batches, so that most have to wait
LONGEST = 2_000  # loop passes: far more than any of these takes


def make(cluster: FakeCluster, **options: Any) -> AIOKafkaProducer:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "retry_backoff_ms": 1,
        "max_batch_size": 1_000,
        "buffer_memory": MEMORY,
        # uvloop's clock keeps running while a busy machine does not schedule the test.
        "request_timeout_ms": 30_000,
        "delivery_timeout_ms": 60_000,
    }
    return AIOKafkaProducer(**{**settings, **options})


async def send(producer: AIOKafkaProducer) -> None:
    await (await producer.send("orders", VALUE))


async def send_while_memory_is_short(producer: AIOKafkaProducer) -> None:
    for _ in range(12):
        await producer.send("orders", VALUE)


async def send_and_wait(producer: AIOKafkaProducer) -> None:
    await producer.send_and_wait("orders", VALUE, b"key")


async def send_large(producer: AIOKafkaProducer) -> None:
    await producer.send("orders", VALUE)
    await producer.send_and_wait("orders", VALUE * 5)


async def send_many(producer: AIOKafkaProducer) -> None:
    await asyncio.gather(*await producer.send_many("orders", [VALUE] * 10))


async def send_batch(producer: AIOKafkaProducer) -> None:
    for _ in range(4):
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=VALUE)
        await producer.send_batch(batch, "orders", partition=0)


async def send_to_a_new_topic(producer: AIOKafkaProducer) -> None:
    await producer.send_and_wait(f"new-{random.random()}", VALUE)


async def flush(producer: AIOKafkaProducer) -> None:
    for _ in range(3):
        await producer.send("orders", VALUE)
    await producer.flush()


async def stop(producer: AIOKafkaProducer) -> None:
    for _ in range(3):
        await producer.send("orders", VALUE)
    await producer.stop()


async def partitions_for(producer: AIOKafkaProducer) -> None:
    await producer.partitions_for(f"new-{random.random()}")


def _holds_several(request: Any) -> bool:
    """Whether every batch of a produce request has several records, so that it can be split."""
    return all(
        int.from_bytes(partition.records[57:61], "big") > 1
        for topic in request.topic_data
        for partition in topic.partition_data
    )


OPERATIONS: list[Operation] = [
    send,
    send_while_memory_is_short,
    send_and_wait,
    send_large,
    send_many,
    send_batch,
    send_to_a_new_topic,
    flush,
    stop,
    partitions_for,
]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(brokers=2, topics={"orders": 2}) as running:
        yield running


async def cancelled_after(passes: int, awaitable: Awaitable[object]) -> bool:
    """Cancel after a number of loop passes; True if it had already ended."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(passes):
        if task.done():
            break
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert result is None or isinstance(result, asyncio.CancelledError), repr(result)
    return ended


async def assert_nothing_is_left(
    producer: AIOKafkaProducer, before: "set[asyncio.Task[Any]]"
) -> None:
    """Check a stopped producer: all its memory is free, and its tasks have ended."""
    pool = producer._sender.pool
    assert pool.used == 0
    assert pool.waiting == 0
    assert not [queue for queue in producer._accumulator.active if queue.waiting]
    for _ in range(10):  # cancelled tasks end within some passes of the loop
        left = {t for t in asyncio.all_tasks() - before if "aiokafka_lite" in t.get_name()}
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left running: {left}")


PEACE: list[tuple[Operation, type[BrokerResponseError] | None]] = [
    (operation, None) for operation in OPERATIONS
]
TROUBLE = [
    (operation, refusal)
    for operation in (send_many, flush, stop)
    for refusal in (NotLeaderForPartitionError, MessageSizeTooLargeError)
]


@pytest.mark.parametrize(
    ("operation", "refusal"),
    PEACE + TROUBLE,
    ids=lambda each: "undisturbed" if each is None else each.__name__,
)
async def test_an_operation_is_cancelled_at_each_step(
    cluster: FakeCluster, operation: Operation, refusal: type[BrokerResponseError] | None
) -> None:
    """Undisturbed, or with the first request refused: it is sent again, or split."""
    refused = 0
    for passes in range(LONGEST):
        before = asyncio.all_tasks()
        memory = {"max_batch_size": 3_000, "buffer_memory": 6_000} if refusal else {}
        async with make(cluster, **memory) as producer:
            fault = None
            if refusal is not None:
                fault = cluster.control(ApiKey.PRODUCE, error=refusal, when=_holds_several)
            ended = await cancelled_after(passes, operation(producer))
            if fault is not None:
                refused += fault.hits
                fault.remove()
            if operation is not stop:
                # The producer still works: it can send the next record.
                await asyncio.wait_for(producer.send_and_wait("orders", b"next"), 60)
        await assert_nothing_is_left(producer, before)
        if ended:
            break
    assert ended, f"{operation.__name__} takes more than {LONGEST} passes"
    # The walk's last operation ran to its end, so at least it met the refusal. How many of the
    # cancelled ones before it got that far depends on the machine.
    assert (refused > 0) == (refusal is not None)
    assert passes > 3


async def test_start_is_cancelled_at_each_step(cluster: FakeCluster) -> None:
    for passes in range(LONGEST):
        before = asyncio.all_tasks()
        producer = make(cluster)
        ended = await cancelled_after(passes, producer.start())
        await cancelled_after(1_000, producer.stop(1))
        await assert_nothing_is_left(producer, before)
        if ended:
            break
    assert ended
    assert passes > 3


async def test_stop_is_cancelled_at_each_step_with_an_unresponsive_broker(
    cluster: FakeCluster,
) -> None:
    """It does not end by itself, so try each number of passes, up to well beyond its awaits."""
    for passes in range(1, 60):  # before its first step it has done nothing
        before = asyncio.all_tasks()
        producer = make(cluster, request_timeout_ms=500, delivery_timeout_ms=5_000)
        await producer.start()
        await producer.send_and_wait("orders", VALUE)
        mute = cluster.control(ApiKey.PRODUCE, drop=True, times=None)
        acks = [await producer.send("orders", VALUE) for _ in range(3)]
        waiting = [asyncio.ensure_future(producer.send("orders", VALUE)) for _ in range(9)]
        assert not await cancelled_after(passes, producer.stop())
        mute.remove()
        results = await asyncio.gather(*acks, *waiting, return_exceptions=True)
        assert len([each for each in results if isinstance(each, KafkaError)]) >= 9
        await assert_nothing_is_left(producer, before)


@pytest.mark.parametrize("seed", seeds(2))
async def test_random_cancellations_with_failing_brokers(cluster: FakeCluster, seed: int) -> None:
    draw = random.Random(seed)
    before = asyncio.all_tasks()
    operations = [each for each in OPERATIONS if each is not stop]

    async def weather() -> None:
        while True:
            node = draw.randrange(2)
            match draw.randrange(6):
                case 0:
                    cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True)
                case 1:
                    cluster.control(ApiKey.PRODUCE, error=draw.choice([6, 7, 19, 10]))
                case 2:
                    cluster.disconnect(node)
                case 3:
                    cluster.pause(node)
                    await asyncio.sleep(draw.random() * 0.05)
                    cluster.resume(node)
                case 4:
                    cluster.control(ApiKey.METADATA, delay=0.02)
                case 5:
                    cluster.control(ApiKey.INIT_PRODUCER_ID, error=15)
            await asyncio.sleep(draw.random() * 0.02)

    async def cancelled_soon(producer: AIOKafkaProducer) -> None:
        task = asyncio.ensure_future(draw.choice(operations)(producer))
        await asyncio.sleep(draw.random() * 0.05)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, KafkaError), repr(error)

    troubles = asyncio.create_task(weather())
    for _ in range(8):
        producer = make(cluster)
        starting = asyncio.ensure_future(producer.start())
        if draw.random() < 0.2:
            await asyncio.sleep(draw.random() * 0.01)
            starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await asyncio.gather(*(cancelled_soon(producer) for _ in range(60)))
        stopping = asyncio.ensure_future(producer.stop(draw.choice([0.0, 0.1, 5.0])))
        if draw.random() < 0.3:
            await asyncio.sleep(draw.random() * 0.02)
            stopping.cancel()
        await asyncio.wait([stopping], timeout=8)
        assert stopping.done()
        await assert_nothing_is_left(producer, before | {troubles})
    troubles.cancel()
    await asyncio.wait([troubles])
