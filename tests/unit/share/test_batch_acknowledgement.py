"""The acknowledgement of a batch is a future to asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.share.share_record import ShareRecords

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0
ACKNOWLEDGE = ApiKey.SHARE_ACKNOWLEDGE


@asynccontextmanager
async def acquired(cluster, make) -> AsyncIterator[tuple[Any, ShareRecords[Any, Any]]]:
    """A consumer, and records of both leaders."""
    for value in range(10):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)
    async with asyncio.timeout(PATIENCE), make("jobs") as consumer:
        records: list[Any] = []
        while len(records) < 10:
            records += await consumer.getmany(timeout_ms=5000)
        assert {record.partition for record in records} == {0, 1}
        yield consumer, ShareRecords(records)


async def test_asyncio_takes_it_as_a_future(cluster, make) -> None:
    async with acquired(cluster, make) as (_, records):
        parts = [ShareRecords(records[at : at + 2]) for at in range(0, 10, 2)]
        batches = [part.accept() for part in parts]
        assert all(asyncio.isfuture(batch) for batch in batches)
        with pytest.raises(asyncio.InvalidStateError):
            batches[0].result()
        done, pending = await asyncio.wait(batches[:2])
        assert (done, pending) == (set(batches[:2]), set())
        assert await asyncio.gather(*batches) == [None] * 5
        assert await asyncio.shield(batches[0]) is None
        assert await asyncio.wait_for(batches[1], 1) is None
        for each in asyncio.as_completed(batches):
            assert await each is None
        assert batches[2].exception() is None


async def test_several_tasks_wait_and_the_cancellation_of_one_stops_no_other(cluster, make) -> None:
    async with acquired(cluster, make) as (_, records):
        fault = cluster.control(ACKNOWLEDGE, times=None, delay=0.2)
        batch = records.accept()

        async def wait() -> None:
            await batch

        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        assert await second is None
        assert not batch.cancelled()
        assert fault.hits


async def test_cancel_stops_all_waits_and_the_records_are_accepted_nevertheless(
    cluster, make
) -> None:
    async with acquired(cluster, make) as (consumer, records):
        batch = records.accept()
        called: list[object] = []
        batch.add_done_callback(called.append)
        removed: list[object] = []
        batch.add_done_callback(removed.append)
        assert batch.remove_done_callback(removed.append) == 1

        async def wait() -> None:
            await batch

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert batch.cancel()
        assert not batch.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert batch.cancelled()
        assert (called, removed) == ([batch], [])
        with pytest.raises(asyncio.CancelledError):
            batch.result()
        await consumer.flush()
        assert batch.failures == {}
    async with make("jobs") as another:
        assert not await another.getmany(timeout_ms=300)


async def test_it_raises_the_first_failure_once_all_have_a_result(cluster, make) -> None:
    async with acquired(cluster, make) as (_, records):
        cluster.control(ACKNOWLEDGE, times=None, node=0, disconnect=True)
        cluster.control(ApiKey.SHARE_FETCH, times=None, node=0, disconnect=True)
        batch = records.accept()
        (outcome,) = await asyncio.gather(batch, return_exceptions=True)
        assert isinstance(outcome, Exception)
        lost = [number for number, record in enumerate(records) if record.partition == 0]
        assert sorted(batch.failures) == lost
        assert type(batch.exception()) is type(outcome)


async def test_a_batch_of_no_records_is_done() -> None:
    batch = ShareRecords[Any, Any]().accept()
    assert batch.done()
    assert await batch is None
    assert await asyncio.gather(batch) == [None]
