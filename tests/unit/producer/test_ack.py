"""Acks: they share one batch's outcome and have asyncio's whole future protocol, in both builds."""

import asyncio
import contextvars
import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite._build import NATIVE
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.structs import RecordMetadata, TopicPartition

ORDERS_3 = TopicPartition("orders", 3)


def make_batch(acks: ModuleType, buffer: bytearray | None = None) -> Any:
    build = acks.__name__.rpartition("_")[2]
    builder = import_module(f"aiokafka_lite.record._batch_{build}").BatchBuilder(1024, buffer)
    loop = asyncio.get_running_loop()
    return acks.ProducerBatch(loop, ORDERS_3, builder, buffer, 0.0)


def fill(acks: ModuleType, records: int = 3) -> tuple[Any, list[Any]]:
    batch = make_batch(acks)
    return batch, [batch.append(1000 + n, None, b"v", ()) for n in range(records)]


async def until(condition: Any) -> None:
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came")


async def test_each_record_has_its_own_offset_and_timestamp(acks: ModuleType) -> None:
    batch, (first, second, third) = fill(acks)
    assert not first.done()
    batch.acknowledge(500, -1, 7)
    assert first.done()
    assert first.result() == RecordMetadata("orders", 3, ORDERS_3, 500, 1000, 0, 7)
    assert isinstance(first.result(), RecordMetadata)
    assert await second == RecordMetadata("orders", 3, ORDERS_3, 501, 1001, 0, 7)
    assert (await third).offset == 502
    assert first.exception() is None


async def test_a_topic_with_log_append_time_gives_all_the_broker_s(acks: ModuleType) -> None:
    batch, pending = fill(acks)
    batch.acknowledge(0, 99_999, 0)
    for metadata in await asyncio.gather(*pending):
        assert (metadata.timestamp, metadata.timestamp_type) == (99_999, 1)


async def test_stored_where_the_broker_forgot_is_offset_minus_one_for_all(acks: ModuleType) -> None:
    batch, pending = fill(acks)
    batch.acknowledge(-1, -1, -1)
    assert [ack.result().offset for ack in pending] == [-1, -1, -1]
    assert pending[0].result().log_start_offset is None


async def test_without_acks_the_result_is_none(acks: ModuleType) -> None:
    batch, pending = fill(acks)
    batch.confirm_sent()
    assert await pending[0] is None


async def test_a_batch_has_one_outcome(acks: ModuleType) -> None:
    batch, _ = fill(acks)
    batch.acknowledge(0, -1, 0)
    with pytest.raises(RuntimeError, match="has an outcome"):
        batch.fail(KafkaConnectionError("too late"))


async def test_asking_too_early(acks: ModuleType) -> None:
    _, (ack, *_) = fill(acks)
    with pytest.raises(asyncio.InvalidStateError):
        ack.result()
    with pytest.raises(asyncio.InvalidStateError):
        ack.exception()


async def test_every_awaiter_gets_an_error_of_its_own(acks: ModuleType) -> None:
    batch, pending = fill(acks)
    reason = OSError("cut")
    error = KafkaConnectionError("lost")
    error.__cause__ = reason
    tasks = [asyncio.ensure_future(wait(ack)) for ack in pending for _ in range(2)]
    await asyncio.sleep(0)
    batch.fail(error)
    raised = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(type(r) is KafkaConnectionError and str(r) == str(error) for r in raised)
    assert all(r.__cause__ is reason for r in raised)
    assert len({id(r) for r in raised}) == len(raised)
    assert error.__traceback__ is None, "nobody raised the shared one"
    assert str(pending[0].exception()) == str(error)


async def wait(ack: Any) -> Any:
    return await ack


async def test_asyncio_takes_it_for_a_future(acks: ModuleType) -> None:
    batch, pending = fill(acks, 8)
    assert all(asyncio.isfuture(ack) for ack in pending)
    assert asyncio.ensure_future(pending[0]) is pending[0]
    assert pending[0].get_loop() is asyncio.get_running_loop()
    tasks = [
        asyncio.ensure_future(wait(pending[0])),
        asyncio.gather(*pending[1:3]),
        asyncio.ensure_future(asyncio.wait(pending[3:5])),
        asyncio.ensure_future(asyncio.wait_for(pending[5], 10)),
        asyncio.shield(pending[6]),
        asyncio.ensure_future(first_of(pending[7:])),
    ]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    batch.acknowledge(100, -1, 0)
    one, two, (done, left), five, six, seven = await asyncio.gather(*tasks)
    assert one.offset == 100
    assert [metadata.offset for metadata in two] == [101, 102]
    assert (done, left) == (set(pending[3:5]), set())
    assert (five.offset, six.offset, seven.offset) == (105, 106, 107)


async def first_of(pending: list[Any]) -> Any:
    return await next(iter(asyncio.as_completed(pending)))


async def test_gather_of_a_failed_batch_raises_its_error(acks: ModuleType) -> None:
    batch, pending = fill(acks)
    gathered = asyncio.gather(*pending)
    batch.fail(KafkaConnectionError("lost"))
    with pytest.raises(KafkaConnectionError, match="lost"):
        await gathered


async def test_a_timeout_ends_the_wait_and_not_the_delivery(acks: ModuleType) -> None:
    batch, (late, other, _) = fill(acks)
    waiting = asyncio.ensure_future(wait(other))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late, 0.001)
    # From 3.12 on wait_for cancels its own task's wait, before it the future itself.
    assert late.cancelled() is (sys.version_info < (3, 12))
    batch.acknowledge(0, -1, 0)
    assert (await waiting).offset == 1


async def test_cancelling_one_waiter_touches_no_other(acks: ModuleType) -> None:
    batch, (ack, *_) = fill(acks)
    first, second = (asyncio.ensure_future(wait(ack)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    assert not ack.cancelled()
    batch.acknowledge(5, -1, 0)
    assert (await second).offset == 5


async def test_cancelling_an_ack_wakes_all_its_waiters(acks: ModuleType) -> None:
    batch, (ack, other, _) = fill(acks)
    order: list[str] = []
    ack.add_done_callback(lambda _: order.append("first"))
    waiting = asyncio.ensure_future(wait(ack))
    others = asyncio.ensure_future(wait(other))
    await asyncio.sleep(0)
    ack.add_done_callback(lambda _: order.append("second"))
    assert ack.cancel()
    assert not ack.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert order == ["first", "second"]
    for ask in (ack.result, ack.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()
    batch.acknowledge(0, -1, 0)
    assert (await others).offset == 1
    assert ack.cancelled()


async def test_cancelling_an_ack_wakes_waiters_before_a_cancelled_one(acks: ModuleType) -> None:
    _, (ack, *_) = fill(acks)
    first, second = (asyncio.ensure_future(wait(ack)) for _ in range(2))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    assert ack.cancel()
    _, pending = await asyncio.wait([first], timeout=1)
    assert not pending


async def test_gather_over_a_cancelled_ack_is_cancelled(acks: ModuleType) -> None:
    _, pending = fill(acks)
    gathered = asyncio.gather(*pending)
    pending[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathered


async def test_an_acked_record_cannot_be_cancelled(acks: ModuleType) -> None:
    batch, (ack, *_) = fill(acks)
    batch.acknowledge(0, -1, 0)
    assert not ack.cancel()
    assert not ack.cancelled()


async def test_a_task_cancelled_between_outcome_and_wake_up_is_cancelled(acks: ModuleType) -> None:
    batch, (ack, *_) = fill(acks)
    task = asyncio.ensure_future(wait(ack))
    await asyncio.sleep(0)
    batch.acknowledge(0, -1, 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ack.result().offset == 0


async def test_callbacks_run_in_order_in_their_context_and_never_at_once(acks: ModuleType) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    batch, (ack, *_) = fill(acks)
    seen: list[tuple[str, int, bool]] = []

    def note(done: Any) -> None:
        seen.append((who.get(), done.result().offset, done is ack))

    context = contextvars.copy_context()
    context.run(who.set, "given")
    who.set("registering")
    ack.add_done_callback(note)
    who.set("completing")
    ack.add_done_callback(note, context=context)
    batch.acknowledge(3, -1, 0)
    assert seen == []
    ack.add_done_callback(note)
    await until(lambda: len(seen) == 3)
    assert seen == [("registering", 3, True), ("given", 3, True), ("completing", 3, True)]


async def test_removed_callbacks_are_not_called(acks: ModuleType) -> None:
    batch, (ack, *_) = fill(acks)
    seen: list[str] = []

    def forget(_: Any) -> None:
        seen.append("forgotten")

    def keep(_: Any) -> None:
        seen.append("kept")

    for callback in (forget, keep, forget):
        ack.add_done_callback(callback)
    assert ack.remove_done_callback(forget) == 2
    assert ack.remove_done_callback(forget) == 0
    batch.acknowledge(0, -1, 0)
    await until(lambda: seen)
    assert seen == ["kept"]


async def test_a_failing_callback_is_reported_and_harms_no_other(acks: ModuleType) -> None:
    loop = asyncio.get_running_loop()
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    batch, (ack, *_) = fill(acks)
    mistake = ZeroDivisionError("callback")

    def fail(_: Any) -> None:
        raise mistake

    ack.add_done_callback(fail)
    task = asyncio.ensure_future(wait(ack))
    await asyncio.sleep(0)
    batch.acknowledge(0, -1, 0)
    assert (await task).offset == 0
    assert reported == [mistake]


def test_an_interrupt_in_a_callback_loses_no_wake_up(acks: ModuleType) -> None:
    loop = asyncio.new_event_loop()

    async def scenario() -> tuple[Any, Any]:
        batch, (ack, other, _) = fill(acks)

        def interrupt(_: Any) -> None:
            raise KeyboardInterrupt

        ack.add_done_callback(interrupt)
        task = asyncio.ensure_future(wait(other))
        await asyncio.sleep(0)
        return batch, task

    try:
        batch, task = loop.run_until_complete(scenario())
        loop.call_soon(batch.acknowledge, 0, -1, 0)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.sleep(0.01))
        assert loop.run_until_complete(task).offset == 1
    finally:
        loop.close()


async def test_an_ack_does_not_keep_its_batch_s_buffer(acks: ModuleType) -> None:
    buffer = bytearray(1024)
    alone = sys.getrefcount(buffer)
    batch = make_batch(acks, buffer)
    ack = batch.append(1, None, b"v", ())
    batch.payload = batch.builder.seal()
    assert sys.getrefcount(buffer) > alone
    batch.acknowledge(0, -1, 0)
    assert sys.getrefcount(buffer) == alone
    assert ack.result().offset == 0


@pytest.mark.parametrize("way", ["cancel", "remove", "cancel ack"])
async def test_a_waiter_that_gave_up_keeps_no_batch_alive(acks: ModuleType, way: str) -> None:
    batch, pending = fill(acks)
    ack = pending.pop()
    pending.clear()
    alone = sys.getrefcount(batch)
    tasks = [asyncio.ensure_future(wait(ack)) for _ in range(3)]
    ack.add_done_callback(print)
    await asyncio.sleep(0)
    if way == "cancel ack":
        ack.cancel()
    if way == "cancel":
        tasks[1].cancel()
        tasks[2].cancel()
    ack.remove_done_callback(print)
    batch.acknowledge(0, -1, 0)
    await asyncio.wait(tasks)
    tasks.clear()
    gc.collect()
    assert sys.getrefcount(batch) == alone
    del ack
    gc.collect()
    assert sys.getrefcount(batch) == alone - 1


async def test_a_batch_with_no_room_gives_no_ack(acks: ModuleType) -> None:
    batch, _ = fill(acks)
    assert batch.append(1, None, b"x" * 1024, ()) is None
    assert batch.count == 3
    assert batch.append(1, None, b"x", ()) is not None


async def test_ten_thousand_waits_are_cancelled_without_searching(acks: ModuleType) -> None:
    """Each drops its callback and stays in the batch's list: it needs no scan and no order."""
    batch = make_batch(acks)
    ack = batch.append(1, None, b"v", ())
    tasks = [asyncio.ensure_future(wait(ack)) for _ in range(10_000)]
    await asyncio.sleep(0)
    for task in reversed(tasks[1:]):
        task.cancel()
    results = await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    batch.acknowledge(8, -1, 0)
    assert (await tasks[0]).offset == 8


@pytest.mark.skipif(not NATIVE, reason="nothing was compiled, or the twins were asked for")
async def test_native_acks_are_not_tracked_by_the_garbage_collector() -> None:
    acks = import_module("aiokafka_lite.producer.batching._ack_native")
    _, (ack, *_) = fill(acks)
    assert not gc.is_tracked(ack)


async def test_both_builds_have_the_same_repr(acks: ModuleType) -> None:
    batch, (ack, *_) = fill(acks)
    assert repr(ack) == "<Ack pending orders-3 record 0 of its batch>"
    batch.acknowledge(0, -1, 0)
    assert repr(ack) == "<Ack acked orders-3 record 0 of its batch>"


async def test_a_waiter_that_gave_up_does_not_count_as_awaiting(acks: ModuleType) -> None:
    batch, (first, second, _) = fill(acks)
    assert not batch.awaited
    _, pending = await asyncio.wait([first], timeout=0)
    assert pending
    assert not batch.awaited, "so the log reports it if it is lost"
    waiting = asyncio.ensure_future(wait(second))
    await asyncio.sleep(0)
    assert batch.awaited
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not batch.awaited
    batch.acknowledge(0, -1, 0)
