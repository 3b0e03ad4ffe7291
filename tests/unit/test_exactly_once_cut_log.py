"""`exactly_once` rewinds an aborted batch of a log that was truncated during its processing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, exactly_once
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import append, numbered, until

P0 = TopicPartition("orders", 0)


@contextlib.asynccontextmanager
async def clients() -> AsyncIterator[tuple[FakeCluster, AIOKafkaProducer, AIOKafkaConsumer]]:
    """A log of eight records, a transactional producer, and a consumer that is assigned the log."""
    async with (
        FakeCluster(topics={"orders": 1}) as cluster,
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="tx", retry_backoff_ms=10
        ) as producer,
        AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            enable_auto_commit=False,
            auto_offset_reset="latest",
            fetch_max_wait_ms=50,
            retry_backoff_ms=10,
        ) as consumer,
    ):
        for first in range(0, 8, 2):
            append(cluster, numbered(2, first))
        consumer.assign([P0])
        yield cluster, producer, consumer


@pytest.mark.parametrize(
    ("cut_at", "begins"),
    [(6, 4), (4, 4), (2, 2)],
    ids=["within the batch", "at its start", "before it"],
)
@pytest.mark.parametrize("sought", [True, False], ids=["epoch unknown", "epoch known"])
async def test_aborted_batch_after_a_log_truncation(cut_at: int, begins: int, sought: bool) -> None:
    async with clients() as (cluster, producer, consumer):
        if sought:
            consumer.seek(P0, 4)
        else:
            consumer.seek(P0, 0)
            assert [(await consumer.getone()).offset for _ in range(4)] == [0, 1, 2, 3]
        state = consumer._core.positions.state(P0)
        read_before = state.fetch_generation

        async def fail() -> None:
            async with exactly_once(consumer, producer, max_records=4) as batches:
                async for batch in batches:
                    assert [record.offset for record in batch] == [4, 5, 6, 7]
                    cluster.truncate("orders", 0, cut_at)
                    append(cluster, [b"n%d" % offset for offset in range(cut_at, cut_at + 3)])
                    await until(lambda: state.fetch_generation > read_before)
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with asyncio.timeout(10):
            read = [await consumer.getone() for _ in range(cut_at + 3 - begins)]
        assert [record.offset for record in read] == list(range(begins, cut_at + 3))
        new = [record.value for record in read if record.offset >= cut_at]
        assert new == [b"n%d" % offset for offset in range(cut_at, cut_at + 3)]


async def test_a_batch_of_unknown_outcome_after_a_log_truncation() -> None:
    """The group has committed nothing, and the log lost the batch and records before it."""
    async with clients() as (cluster, producer, consumer):
        consumer.seek(P0, 4)
        state = consumer._core.positions.state(P0)
        batches = exactly_once(consumer, producer, max_records=4)
        batch = await batches.next_batch()
        assert [record.offset for record in batch] == [4, 5, 6, 7]
        cluster.truncate("orders", 0, 2)
        append(cluster, [b"n%d" % offset for offset in range(2, 5)])
        await until(lambda: state.position == 2)
        await batches._read_on()  # what the next loop does if the first producer has failed
        async with asyncio.timeout(10):
            assert [(await consumer.getone()).value for _ in range(3)] == [b"n2", b"n3", b"n4"]
