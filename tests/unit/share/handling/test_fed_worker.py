"""The worker of `run` if the consumer hands over records as they arrive."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import TopicAuthorizationFailedError
from aiokafka_lite.share.handling import room, worker
from aiokafka_lite.share.handling.run_options import RunOptions
from aiokafka_lite.share.handling.worker import Worker
from tests.unit.share.handling.fake_queue import FakeQueue, FakeRecord


class FakeFeed:
    """Hands over the records that a test specifies."""

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


@pytest.fixture
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit of a few milliseconds passes during the test, however slow the machine is."""
    monkeypatch.setattr(room, "COALESCE", 60.0)
    monkeypatch.setattr(worker, "_SLICE", 60.0)
    monkeypatch.setattr(worker, "_LOOK", 60.0)


@pytest.mark.usefixtures("ample_time")
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


class QuickLine(Line):
    """A worker whose handlers suspend only on request."""

    def __init__(self) -> None:
        super().__init__(4)
        self.handled_by: list[asyncio.Task[Any] | None] = []
        self.takes_long = False

        async def handle(record: FakeRecord) -> None:
            self.handled_by.append(asyncio.current_task())
            if self.takes_long:
                time.sleep(0.01)  # noqa: ASYNC251 (a handler that blocks the loop)

        self.worker._handler = handle

    async def called(self, count: int) -> int:
        """Feed records in a callback of the event loop; return how many it had handled."""
        over = asyncio.get_running_loop().create_future()

        def feed() -> None:
            before = len(self.handled_by)
            self.worker.add([FakeRecord(self.queue, at, None, 1) for at in range(count)])
            self.worker.begin()
            over.set_result(len(self.handled_by) - before)

        asyncio.get_running_loop().call_soon(feed)
        handled: int = await over
        for _ in range(5):
            await asyncio.sleep(0)
        return handled


@pytest.mark.usefixtures("ample_time")
async def test_an_idle_slot_handles_records_within_the_callback_that_feeds_them() -> None:
    line = QuickLine()
    await line.feed.begun.wait()
    assert await line.called(2) == 0  # there is no slot yet
    assert await line.called(3) == 3
    assert len(line.handled_by) == 5
    [slot] = set(line.handled_by)
    assert slot is not None
    assert slot is not asyncio.current_task()
    await line.worker.stop()
    await line.running


@pytest.mark.usefixtures("ample_time")
async def test_handlers_do_not_run_within_a_task_that_feeds_them() -> None:
    line = QuickLine()
    await line.feed.begun.wait()
    await line.called(1)
    line.give(2)
    assert len(line.handled_by) == 1
    await asyncio.sleep(0)
    assert len(line.handled_by) == 3
    await line.worker.stop()
    await line.running


async def test_after_slow_handlers_other_callbacks_go_first() -> None:
    line = QuickLine()
    await line.feed.begun.wait()
    await line.called(1)
    line.takes_long = True
    assert await line.called(1) == 1
    line.worker._at_once_from += 60  # as if no time had passed
    assert await line.called(1) == 0
    assert len(line.handled_by) == 3
    await line.worker.stop()
    await line.running


async def test_a_handler_that_suspends_leaves_the_callback() -> None:
    line = Line(4)
    await line.feed.begun.wait()
    line.give(1)
    await line.handled(1)
    loop = asyncio.get_running_loop()
    records = [FakeRecord(line.queue, at, None, 1) for at in range(3)]
    loop.call_soon(line.worker.add, records)
    loop.call_soon(line.worker.begin)
    await line.handled(3)
    assert [record.outcome for record in records] == ["accepted"] * 3
    await line.worker.stop()
    await line.running
