"""The worker of `run` where the consumer hands records over as they arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import TopicAuthorizationFailedError
from aiokafka_lite.share.handling.run_options import RunOptions
from aiokafka_lite.share.handling.worker import Worker
from tests.unit.share.handling.fake_queue import FakeQueue, FakeRecord


class FakeFeed:
    """Hands over what a test says."""

    def __init__(self) -> None:
        self.worker: Any = None
        self.begun = asyncio.Event()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls = 0  # of on_room

    async def feed(self, worker: Any) -> None:
        self.worker = worker
        self.begun.set()
        await self.failure

    def on_room(self) -> None:
        self.calls += 1


class Line:
    """A worker that is fed."""

    def __init__(self, concurrency: int) -> None:
        self.queue, self.feed = FakeQueue(), FakeFeed()
        self.finish = asyncio.Semaphore(0)

        async def handle(record: FakeRecord) -> None:
            await self.finish.acquire()

        options = RunOptions.checked(
            handle,
            concurrency=concurrency,
            retry=TimeoutError,
            retry_delay_ms=0,
            ordered_by_key=False,
            renew_locks=True,
            drain_timeout_ms=1000,
        )
        self.worker: Worker[FakeRecord] = Worker(
            self.queue, handle, options, "test", Backoff(0.01, 0.01), feed=self.feed
        )
        self.running = asyncio.create_task(self.worker.run())

    def give(self, count: int) -> list[FakeRecord]:
        records = [FakeRecord(self.queue, offset, None, 1) for offset in range(count)]
        assert self.worker.takes(count)
        self.worker.take(records)
        return records

    async def handled(self, count: int) -> None:
        for _ in range(count):
            self.finish.release()
        for _ in range(20):
            await asyncio.sleep(0)


async def test_room_is_asked_for_again_once_half_of_the_slots_are_free() -> None:
    line = Line(4)
    await line.feed.begun.wait()
    assert line.worker.room() == 4
    line.give(4)
    assert not line.worker.takes(1)
    assert line.worker.room() == 0
    await line.handled(1)
    assert line.feed.calls == 1  # a slot is free
    assert line.worker.room() == 0  # it waits for another
    await line.handled(1)
    assert line.feed.calls == 2
    assert line.worker.room() == 2
    line.finish.release()
    line.finish.release()
    await line.worker.stop()
    await line.running


async def test_a_free_slot_does_not_wait_long_for_others() -> None:
    line = Line(4)
    await line.feed.begun.wait()
    line.give(4)
    assert line.worker.room() == 0
    await line.handled(1)
    assert line.worker.room() == 0
    async with asyncio.timeout(30):
        while line.feed.calls < 2:
            await asyncio.sleep(0.001)
    assert line.worker.room() == 1
    for _ in range(3):
        line.finish.release()
    await line.worker.stop()
    await line.running


async def test_nothing_is_taken_once_the_run_ends() -> None:
    line = Line(2)
    await line.feed.begun.wait()
    [record] = line.give(1)
    stopping = asyncio.create_task(line.worker.stop())
    await asyncio.sleep(0)
    assert line.worker.room() == 0
    assert not line.worker.takes(1)
    line.finish.release()
    await stopping
    await line.running
    assert record.outcome in ("accepted", "released")


async def test_a_failure_of_the_feed_ends_the_run() -> None:
    line = Line(2)
    await line.feed.begun.wait()
    line.feed.failure.set_exception(TopicAuthorizationFailedError())
    with pytest.raises(TopicAuthorizationFailedError):
        await line.running
