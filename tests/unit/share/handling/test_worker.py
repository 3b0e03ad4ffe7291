"""`run`: acquisition, outcomes, locks, order, and the end."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaError,
    RequestTimedOutError,
)
from aiokafka_lite.share.handling.run_options import TRANSIENT, RunOptions
from aiokafka_lite.share.handling.worker import Worker
from tests.unit.share.handling.fake_queue import REFUSED, FakeQueue, FakeRecord, Handler

Begin = Callable[..., "Running"]


class Running:
    """A run in a task."""

    def __init__(self, queue: FakeQueue, handler: Handler, **options: Any) -> None:
        arguments: dict[str, Any] = {
            "concurrency": 10,
            "retry": TRANSIENT,
            "retry_delay_ms": 500,
            "ordered_by_key": False,
            "renew_locks": True,
            "drain_timeout_ms": 20_000,
        }
        checked = RunOptions.checked(handler, **{**arguments, **options})
        self.worker = Worker[FakeRecord](queue, handler, checked, "c", Backoff(0.1, 1.0))
        self.task = asyncio.create_task(self.worker.run())

    async def until(self, done: Callable[[], bool], seconds: float = 1_000) -> None:
        """Wait for a condition, in the loop's time; raises what the run raised."""
        async with asyncio.timeout(seconds):
            while not done():
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the run ended")
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        await self.worker.stop()
        await self.task


async def nothing(record: FakeRecord) -> None:
    """A handler."""


# Outcomes


async def test_every_record_is_accepted_once() -> None:
    queue = FakeQueue([None] * 1_000)
    running = Running(queue, nothing)
    await running.until(lambda: len(queue.outcomes) == 1_000)
    await running.stop()
    assert sorted(queue.of("accepted")) == list(range(1_000))


async def test_a_retriable_exception_releases_after_a_growing_delay() -> None:
    queue = FakeQueue([None])
    began: list[float] = []

    async def handle(record: FakeRecord) -> None:
        began.append(queue.loop.time())
        if record.delivery_count < 4:
            raise ConnectionResetError("the database is down")

    running = Running(queue, handle, retry_delay_ms=1_000)
    await running.until(lambda: "accepted" in queue.counts())
    await running.stop()
    assert queue.counts() == {"released": 3, "accepted": 1}
    delays = [later - earlier for earlier, later in itertools.pairwise(began)]
    for delay, expected in zip(delays, [1, 2, 4], strict=True):
        assert 0.8 * expected <= delay <= 1.2 * expected + 0.1


async def test_the_lock_is_renewed_during_the_delay_of_a_release() -> None:
    queue = FakeQueue([None], lock=15)

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, retry_delay_ms=40_000)
    await running.until(lambda: "released" in queue.counts())
    await running.stop()
    assert len(queue.renewals) >= 4


async def test_without_renewals_the_release_comes_before_the_end_of_the_lock() -> None:
    queue = FakeQueue([None], lock=15)

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, retry_delay_ms=40_000, renew_locks=False)
    began = queue.loop.time()
    await running.until(lambda: "released" in queue.counts())
    await running.stop()
    assert queue.outcomes[0][2] - began < 15
    assert not queue.renewals


async def test_without_a_delay_a_record_is_released_at_once() -> None:
    queue = FakeQueue([None])

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, retry_delay_ms=0)
    await running.until(lambda: len(queue.outcomes) == queue.limit)
    await running.stop()
    assert queue.counts() == {"released": 5}
    assert queue.outcomes[-1][2] - queue.outcomes[0][2] < 0.2


async def test_any_other_exception_rejects_and_the_run_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FakeQueue([None] * 3)

    async def handle(record: FakeRecord) -> None:
        if record.offset == 1:
            raise ValueError("no such order")

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 3)
    await running.stop()
    assert queue.of("rejected") == [1]
    assert sorted(queue.of("accepted")) == [0, 2]
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "rejected work-0@1 (delivery 1): ValueError('no such order')" in line.getMessage()
    assert line.exc_info


async def test_failures_are_logged_at_a_limited_rate(caplog: pytest.LogCaptureFixture) -> None:
    queue = FakeQueue([None] * 1_000)

    async def fail(record: FakeRecord) -> None:
        raise ValueError("bug")

    running = Running(queue, fail)
    await running.until(lambda: len(queue.outcomes) == 1_000)
    assert len(caplog.records) == 5
    await asyncio.sleep(11)
    queue.add()
    await running.until(lambda: len(queue.outcomes) == 1_001)
    await running.stop()
    assert "(995 similar lines were suppressed)" in caplog.records[-1].getMessage()


async def test_an_outcome_that_the_handler_marked_stands() -> None:
    queue = FakeQueue([None] * 3)

    async def handle(record: FakeRecord) -> None:
        if record.offset == 0:
            record.reject()
        elif record.offset == 1:
            record.accept()
            raise ValueError("too late")

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 3)
    await running.stop()
    assert sorted(queue.outcomes)[0][1] == "rejected"
    assert queue.counts() == {"rejected": 1, "accepted": 2}


async def test_a_cancelled_future_in_a_handler_releases_its_record() -> None:
    queue = FakeQueue([None] * 5)

    async def handle(record: FakeRecord) -> None:
        if record.offset == 2 and record.delivery_count == 1:
            future: asyncio.Future[None] = queue.loop.create_future()
            future.cancel()
            await future

    running = Running(queue, handle, concurrency=1)
    await running.until(lambda: queue.counts()["accepted"] == 5)
    await running.stop()
    assert queue.of("released") == [2]


async def test_a_handler_that_cancels_its_own_task_does_not_end_the_run() -> None:
    queue = FakeQueue([None] * 5)

    async def handle(record: FakeRecord) -> None:
        if record.delivery_count == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if record.offset != 2:
                await asyncio.sleep(0)

    running = Running(queue, handle, concurrency=2)
    await running.until(lambda: queue.counts()["accepted"] == 5)
    await running.stop()
    assert queue.counts()["released"] >= 4


# Arguments


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("concurrency", 0, KafkaConfigurationError),
        ("concurrency", 1.5, TypeError),
        ("concurrency", True, TypeError),
        ("retry", "TimeoutError", TypeError),
        ("retry", (asyncio.CancelledError,), TypeError),
        ("retry", [TimeoutError], TypeError),
        ("retry_delay_ms", -1, KafkaConfigurationError),
        ("drain_timeout_ms", float("nan"), KafkaConfigurationError),
        ("ordered_by_key", 1, TypeError),
        ("renew_locks", None, TypeError),
    ],
)
async def test_wrong_arguments_are_named(name: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        Running(FakeQueue(), nothing, **{name: value})


async def test_a_handler_must_be_callable() -> None:
    with pytest.raises(TypeError, match="handler"):
        Running(FakeQueue(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [lambda record: None, lambda: nothing, print])
async def test_what_is_no_handler_ends_the_run_and_rejects_nothing(handler: Any) -> None:
    queue = FakeQueue([None] * 5)
    running = Running(queue, handler)
    with pytest.raises(TypeError, match="`handler` should be a coroutine function"):
        await running.task
    assert queue.counts() == {"released": 5 * 1}


async def test_a_type_error_inside_a_handler_rejects_its_record() -> None:
    queue = FakeQueue([None])

    async def handle(record: FakeRecord) -> None:
        raise TypeError("unsupported operand")

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 1)
    await running.stop()
    assert queue.counts() == {"rejected": 1}


async def test_a_type_error_of_an_awaited_future_rejects_its_record() -> None:
    queue = FakeQueue([None])

    def handle(record: FakeRecord) -> asyncio.Future[None]:
        future: asyncio.Future[None] = queue.loop.create_future()
        future.set_exception(TypeError("unsupported operand"))
        return future

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 1)
    await running.stop()
    assert queue.counts() == {"rejected": 1}


# Acquisition and concurrency


async def test_only_as_many_records_are_acquired_as_slots_are_free() -> None:
    queue = FakeQueue([None] * 200)
    running_now = most = 0

    async def handle(record: FakeRecord) -> None:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0.1 + record.offset % 7 / 10)
        running_now -= 1

    running = Running(queue, handle, concurrency=7)
    await running.until(lambda: len(queue.outcomes) == 200)
    await running.stop()
    assert most == queue.most_outstanding == 7
    assert max(queue.requests) == 7


async def test_slots_that_become_free_soon_after_each_other_share_a_request() -> None:
    queue = FakeQueue([None] * 1_000)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(0.1 + record.offset % 100 / 100_000)  # all within 1 ms

    running = Running(queue, handle, concurrency=100)
    await running.until(lambda: len(queue.outcomes) == 1_000)
    await running.stop()
    assert len(queue.requests) <= 2 * 1_000 / 100 + 1
    assert queue.most_outstanding == 100


async def test_a_free_slot_does_not_wait_for_handlers_that_take_long() -> None:
    queue = FakeQueue([None] * 50)
    ended = asyncio.Event()

    async def handle(record: FakeRecord) -> None:
        if record.offset < 9:
            await ended.wait()

    running = Running(queue, handle, concurrency=10)
    began = queue.loop.time()
    await running.until(lambda: len(queue.outcomes) == 41)
    assert queue.loop.time() - began < 41 * (queue.round_trip + 0.005) + 1.0
    ended.set()
    await running.until(lambda: len(queue.outcomes) == 50)
    await running.stop()


async def test_all_slots_start_at_once_when_handlers_suspend() -> None:
    queue = FakeQueue([None] * 1_000)
    began: list[float] = []

    async def handle(record: FakeRecord) -> None:
        began.append(queue.loop.time())
        await asyncio.sleep(60)

    running = Running(queue, handle, concurrency=1_000)
    await running.until(lambda: len(began) == 1_000)
    assert began[0] == began[-1]  # the loop never slept between them
    assert queue.most_outstanding == 1_000
    await running.until(lambda: len(queue.outcomes) == 1_000)
    await running.stop()


async def test_a_handler_that_does_not_suspend_needs_one_task() -> None:
    queue = FakeQueue([None] * 5_000)
    tasks: set[asyncio.Task[Any] | None] = set()

    async def handle(record: FakeRecord) -> None:
        tasks.add(asyncio.current_task())

    running = Running(queue, handle, concurrency=500)
    await running.until(lambda: len(queue.outcomes) == 5_000)
    await running.stop()
    assert len(tasks) == 1


async def test_handlers_that_never_suspend_let_the_loop_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = FakeQueue([None] * 100)
    queue.round_trip = 0.0  # the loop is never idle, so its clock stands still
    monkeypatch.setattr(queue.loop, "time", (clock := Clock(queue.loop)).time)
    seen: list[int] = []

    async def handle(record: FakeRecord) -> None:
        clock.work(0.02)

    async def watch() -> None:
        while len(queue.outcomes) < 100:
            if queue.outcomes and (not seen or seen[-1] != len(queue.outcomes)):
                seen.append(len(queue.outcomes))
            await asyncio.sleep(0)

    running = Running(queue, handle, concurrency=100)
    await watch()
    await running.stop()
    assert len(seen) > 80  # after nearly every record, as each takes longer than a slice


class Clock:
    """A loop's clock that handlers can advance."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time, self._worked = loop.time, 0.0

    def time(self) -> float:
        return self._time() + self._worked

    def work(self, seconds: float) -> None:
        self._worked += seconds


async def test_postponed_releases_take_slots() -> None:
    queue = FakeQueue([None] * 100)

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, concurrency=5, retry_delay_ms=1_000)
    await asyncio.sleep(0.5)
    assert len(queue.delivered) == len(queue.outstanding) == 5
    await running.stop()
    assert queue.counts() == {"released": 5}


async def test_retriable_errors_of_an_acquisition_are_retried() -> None:
    queue = FakeQueue([None] * 3)
    queue.errors = [RequestTimedOutError(), RequestTimedOutError()]
    running = Running(queue, nothing)
    await running.until(lambda: len(queue.outcomes) == 3)
    await running.stop()


async def test_a_fatal_error_lets_the_handlers_end_and_is_raised() -> None:
    queue = FakeQueue([None] * 3)
    gate = asyncio.Event()

    async def handle(record: FakeRecord) -> None:
        await gate.wait()

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outstanding) == 3)
    queue.fail(GroupAuthorizationFailedError("workers"))
    await asyncio.sleep(1)
    assert not running.task.done()
    gate.set()
    with pytest.raises(GroupAuthorizationFailedError):
        await running.task
    assert queue.counts() == {"accepted": 3}


async def test_what_getmany_raises_by_a_bug_is_raised() -> None:
    queue = FakeQueue()
    running = Running(queue, nothing)
    await asyncio.sleep(1)
    queue.fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await running.task


# Locks


async def test_a_lock_is_renewed_while_its_handler_lives() -> None:
    queue = FakeQueue([None] * 20, lock=30)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(100 if record.offset == 7 else 1)

    running = Running(queue, handle, concurrency=20)
    began = queue.loop.time()
    await running.until(lambda: len(queue.outcomes) == 20)
    await running.stop()
    assert queue.counts() == {"accepted": 20}
    assert {offset for offset, _ in queue.renewals} == {7}
    times = [time - began for _, time in queue.renewals]
    assert times == pytest.approx([15, 30, 45, 60, 75, 90], abs=0.5)


async def test_a_renewal_that_fails_for_now_is_repeated() -> None:
    queue = FakeQueue([None], lock=30)
    queue.renewal_errors = [RequestTimedOutError(), RequestTimedOutError(), None]

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(40)

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 1)
    await running.stop()
    assert queue.counts() == {"accepted": 1}
    first, second, third, *_ = [time for _, time in queue.renewals]
    assert second - first == pytest.approx(3, abs=0.2)
    assert third - second == pytest.approx(3, abs=0.2)


async def test_a_lock_whose_renewals_all_fail_expires() -> None:
    queue = FakeQueue([None], lock=30)
    queue.renewal_errors = [RequestTimedOutError()] * 100
    ended: list[float] = []

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(queue.loop.time())

    running = Running(queue, handle)
    began = queue.loop.time()
    await running.until(lambda: bool(ended))
    assert ended[0] - began == pytest.approx(30, abs=0.5)
    assert len(queue.renewals) <= 6
    await running.stop()
    assert not queue.outcomes  # nothing is acknowledged without the lock


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_refused_renewal_cancels_the_handler_and_frees_the_slot(
    caplog: pytest.LogCaptureFixture, swallows: bool
) -> None:
    queue = FakeQueue([None], lock=30)
    queue.renewal_errors = [REFUSED]
    cancelled: list[str] = []

    async def handle(record: FakeRecord) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        if record.offset == 0:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError as error:
                cancelled.append(str(error))
                if not swallows:
                    raise
        else:
            await asyncio.sleep(1)

    running = Running(queue, handle, concurrency=1)
    await running.until(lambda: bool(cancelled))
    queue.outstanding.clear()
    queue.outcomes.append((0, "lost", 0))
    queue.add()
    await running.until(lambda: "accepted" in queue.counts())
    await running.stop()
    assert queue.of("accepted") == [1]
    assert "work-0@0 (delivery 1): its lock was not renewed" in cancelled[0]
    assert "cancelled the handler of work-0@0" in caplog.text


async def test_a_lock_known_to_be_lost_cancels_its_handler_at_once() -> None:
    queue = FakeQueue([None] * 3, lock=30)
    ended: list[int] = []

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            ended.append(record.offset)
            raise

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outstanding) == 3)
    await asyncio.sleep(0.1)
    queue.lose(queue.delivered[1])
    running.worker.check_locks()
    await running.until(lambda: len(queue.outcomes) == 2)
    assert ended == [1]
    assert sorted(queue.of("accepted")) == [0, 2]
    await running.stop()


async def test_a_handler_may_end_by_another_exception_when_its_lock_is_lost() -> None:
    queue = FakeQueue([None], lock=30)

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise ValueError("cleaning up failed") from None

    running = Running(queue, handle, renew_locks=False)
    await asyncio.sleep(31)
    assert not queue.outcomes
    queue.outstanding.clear()
    await running.stop()
    assert not queue.outcomes


async def test_a_record_whose_lock_has_expired_is_not_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = FakeQueue([None] * 3, lock=15)
    monkeypatch.setattr(queue.loop, "time", (clock := Clock(queue.loop)).time)
    handled: list[int] = []

    async def handle(record: FakeRecord) -> None:
        handled.append(record.offset)
        clock.work(20)  # as if the process had been stopped

    running = Running(queue, handle)
    await running.until(lambda: bool(handled))
    await asyncio.sleep(1)
    await running.stop()
    assert handled == [0]


async def test_a_lost_record_that_waits_for_its_release_is_forgotten() -> None:
    queue = FakeQueue([None], lock=15)
    queue.renewal_errors = [REFUSED]

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, retry_delay_ms=40_000)
    await asyncio.sleep(60)
    assert not queue.outcomes
    assert len(queue.renewals) == 1
    await running.stop()
    assert not queue.outcomes


# Order by key


async def test_records_of_a_key_are_handled_in_order_and_others_meanwhile() -> None:
    keys = [None if n % 10 == 0 else b"%d" % (n % 4) for n in range(300)]
    queue = FakeQueue(keys)
    active: set[Any] = set()
    order: dict[Any, list[int]] = {}
    most = 0

    async def handle(record: FakeRecord) -> None:
        nonlocal most
        assert record.key is None or record.key not in active
        active.add(record.key)
        most = max(most, len(active))
        order.setdefault(record.key, []).append(record.offset)
        await asyncio.sleep(0.05 + record.offset % 3 / 20)
        active.discard(record.key)

    running = Running(queue, handle, concurrency=30, ordered_by_key=True)
    await running.until(lambda: len(queue.outcomes) == 300)
    await running.stop()
    for key, offsets in order.items():
        assert key is None or offsets == sorted(offsets)
    assert most >= 4
    assert queue.counts() == {"accepted": 300}


async def test_a_record_that_is_delivered_again_goes_before_later_ones_that_wait() -> None:
    queue = FakeQueue([b"k"] * 6)
    handled: list[int] = []

    async def handle(record: FakeRecord) -> None:
        handled.append(record.offset)
        await asyncio.sleep(1)
        if record.offset == 0 and record.delivery_count == 1:
            raise TimeoutError

    running = Running(queue, handle, concurrency=6, ordered_by_key=True, retry_delay_ms=0)
    await running.until(lambda: queue.counts()["accepted"] == 6)
    await running.stop()
    # 1 was admitted when 0 ended; 0 is delivered again while 1 is handled.
    assert handled == [0, 1, 0, 2, 3, 4, 5]


async def test_locks_of_records_that_wait_for_their_key_are_renewed() -> None:
    queue = FakeQueue([b"k"] * 5, lock=15)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(20)

    running = Running(queue, handle, concurrency=5, ordered_by_key=True)
    await running.until(lambda: len(queue.outcomes) == 5)
    await running.stop()
    assert queue.of("accepted") == [0, 1, 2, 3, 4]
    assert {offset for offset, _ in queue.renewals} == {0, 1, 2, 3, 4}


async def test_a_lost_record_that_waits_for_its_key_is_skipped() -> None:
    queue = FakeQueue([b"k"] * 4, lock=30)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(5)

    running = Running(queue, handle, concurrency=4, ordered_by_key=True)
    await running.until(lambda: len(queue.outstanding) == 4)
    queue.lose(queue.delivered[2])
    running.worker.check_locks()
    await running.until(lambda: len(queue.outcomes) == 3)
    await running.stop()
    assert queue.of("accepted") == [0, 1, 3]


async def test_keys_that_are_not_hashable_end_an_ordered_run() -> None:
    queue = FakeQueue([b"k", {"id": 1}, b"k"])
    running = Running(queue, nothing, ordered_by_key=True)
    with pytest.raises(TypeError, match=r"hashable keys: work-0@1 \(delivery 1\) has a dict"):
        await running.task
    assert not queue.outstanding


# The end


async def test_stop_waits_for_the_handlers_and_releases_what_has_not_started() -> None:
    queue = FakeQueue([b"k"] * 3 + [b"x"])

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(10)

    running = Running(queue, handle, ordered_by_key=True)
    await running.until(lambda: len(queue.outstanding) == 4)
    queue.available.clear()
    await running.stop()
    assert sorted(queue.of("accepted")) == [0, 3]
    assert sorted(queue.of("released")) == [1, 2]


async def test_stop_releases_at_once_what_waits_for_its_release() -> None:
    queue = FakeQueue([None])

    async def fail(record: FakeRecord) -> None:
        raise TimeoutError

    running = Running(queue, fail, retry_delay_ms=60_000)
    await asyncio.sleep(1)
    began = queue.loop.time()
    await running.stop()
    assert queue.counts() == {"released": 1}
    assert queue.loop.time() - began < 1


async def test_locks_are_renewed_while_the_run_drains() -> None:
    queue = FakeQueue([None], lock=15)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(50)

    running = Running(queue, handle, drain_timeout_ms=100_000)
    await running.until(lambda: len(queue.outstanding) == 1)
    await running.stop()
    assert queue.counts() == {"accepted": 1}
    assert len(queue.renewals) >= 5


async def test_handlers_that_outlast_the_drain_are_cancelled_and_released(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FakeQueue([None] * 3)
    cleaned: list[int] = []

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(1 if record.offset == 0 else 1_000)
        finally:
            await asyncio.sleep(0.5)  # a handler's cleanup is not cut short
            cleaned.append(record.offset)

    running = Running(queue, handle, drain_timeout_ms=5_000)
    await running.until(lambda: len(queue.outstanding) == 3)
    began = queue.loop.time()
    await running.stop()
    assert queue.loop.time() - began == pytest.approx(5.5, abs=0.2)
    assert queue.of("accepted") == [0]
    assert sorted(queue.of("released")) == [1, 2]
    assert sorted(cleaned) == [0, 1, 2]
    assert "2 handlers had not ended within 5 s" in caplog.text


async def test_cancellation_cancels_the_handlers_and_releases_their_records() -> None:
    queue = FakeQueue([None] * 3)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(1_000)

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outstanding) == 3)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    assert queue.counts() == {"released": 3}
    assert running.task.cancelled()


async def test_a_second_cancellation_ends_a_drain() -> None:
    queue = FakeQueue([None])

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(1_000)

    running = Running(queue, handle, drain_timeout_ms=500_000)
    await running.until(lambda: len(queue.outstanding) == 1)
    stopping = asyncio.create_task(running.worker.stop())
    await asyncio.sleep(1)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task
    await stopping
    assert queue.counts() == {"released": 1}


@pytest.mark.parametrize("ending", ["returns", "raises"])
async def test_a_handler_that_swallows_the_last_cancellation_does_not_delay_the_end(
    ending: str,
) -> None:
    queue = FakeQueue([None])

    async def handle(record: FakeRecord) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1_000)
        if ending == "raises":
            raise ValueError("interrupted")

    running = Running(queue, handle, drain_timeout_ms=0)
    await running.until(lambda: len(queue.outstanding) == 1)
    began = queue.loop.time()
    await running.stop()
    assert queue.loop.time() - began < 1
    assert len(queue.outcomes) == 1


async def test_a_handler_that_does_not_end_is_left_after_a_grace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FakeQueue([None])
    gate = asyncio.Event()

    async def handle(record: FakeRecord) -> None:
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()

    running = Running(queue, handle, drain_timeout_ms=1_000)
    await running.until(lambda: len(queue.outstanding) == 1)
    began = queue.loop.time()
    await running.stop()
    assert queue.loop.time() - began == pytest.approx(6, abs=0.5)
    assert "did not end before the deadline" in caplog.text
    gate.set()
    await asyncio.sleep(1)


async def test_a_consumer_that_was_stopped_ends_the_run() -> None:
    queue = FakeQueue([None] * 3)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(1)

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outstanding) == 3)
    queue.fail(ConsumerStoppedError())
    await running.task
    assert queue.counts() == {"accepted": 3}


async def test_a_handler_cannot_wait_for_the_end_of_its_own_run() -> None:
    queue = FakeQueue([None])
    caught: list[Exception] = []

    async def handle(record: FakeRecord) -> None:
        try:
            running.worker.check_caller()
        except IllegalStateError as error:
            caught.append(error)

    running = Running(queue, handle)
    await running.until(lambda: len(queue.outcomes) == 1)
    await running.stop()
    assert "stop the consumer in another task" in str(caught[0])


async def test_two_tasks_may_stop_a_run() -> None:
    queue = FakeQueue([None])
    running = Running(queue, nothing)
    await running.until(lambda: len(queue.outcomes) == 1)
    await asyncio.gather(running.worker.stop(), running.worker.stop())
    await running.task
    await running.worker.stop()


async def test_a_run_leaves_no_task_and_no_timer() -> None:
    queue = FakeQueue([None] * 50)

    async def handle(record: FakeRecord) -> None:
        await asyncio.sleep(0.1)
        if record.offset % 2:
            raise TimeoutError

    before = asyncio.all_tasks()
    running = Running(queue, handle)
    await asyncio.sleep(0.3)
    await running.stop()
    assert asyncio.all_tasks() == before
    assert [timer for timer in queue.loop._scheduled if not timer.cancelled()] == []  # type: ignore[attr-defined]


async def test_an_exception_that_is_no_exception_ends_the_run() -> None:
    class Stop(BaseException):
        pass

    queue = FakeQueue([None])

    async def handle(record: FakeRecord) -> None:
        raise Stop

    running = Running(queue, handle)
    with pytest.raises(Stop):
        await running.task
    assert queue.counts() == {"released": 1}


def test_an_error_of_the_consumer_is_a_kafka_error() -> None:
    assert issubclass(GroupAuthorizationFailedError, KafkaError)
