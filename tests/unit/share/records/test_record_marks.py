"""Acknowledgements are futures for asyncio; marks are the same in both builds."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite import _build
from aiokafka_lite.errors import IllegalStateError, InvalidRecordStateError
from aiokafka_lite.share.acknowledgement import Failures, Outcome
from aiokafka_lite.share.records import _record_marks_python as twin
from aiokafka_lite.share.records.offset_states import ABSENT, ACCEPT, DONE, GAP, HELD, LOST
from aiokafka_lite.structs import TopicPartition

TP = TopicPartition("jobs", 3)


class Sender:
    """Owns outcomes; counts the requests to send at once."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.awaited = 0
        self.unseen: Failures = []

    def on_awaited(self) -> None:
        self.awaited += 1

    def on_unseen_failure(self, topic_partition: TopicPartition, failures: Failures) -> None:
        self.unseen.extend(failures)


def pending(marking: ModuleType, count: int = 1) -> tuple[Sender, Outcome, list[Any]]:
    sender = Sender()
    outcome = Outcome(sender, TP)
    outcome.pending = count
    return sender, outcome, [marking.Acknowledgement(outcome, offset) for offset in range(count)]


async def wait(acknowledgement: Any) -> object:
    return await acknowledgement


async def test_asyncio_accepts_it_as_a_future(marking) -> None:
    _, outcome, marks = pending(marking, 8)
    assert all(asyncio.isfuture(mark) for mark in marks)
    assert asyncio.ensure_future(marks[0]) is marks[0]
    assert marks[0].get_loop() is asyncio.get_running_loop()
    tasks = [
        asyncio.ensure_future(wait(marks[0])),
        asyncio.gather(*marks[1:3]),
        asyncio.ensure_future(asyncio.wait(marks[3:5])),
        asyncio.ensure_future(asyncio.wait_for(marks[5], 60)),
        asyncio.shield(marks[6]),
        asyncio.ensure_future(first_of(marks[7:])),
    ]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    outcome.renewed(6, 6, 12.5, 1)
    outcome.settle(7)
    one, two, (done, left), five, six, seven = await asyncio.gather(*tasks)
    assert (one, two, five, six, seven) == (None, [None, None], None, 12.5, None)
    assert (done, left) == (set(marks[3:5]), set())


async def first_of(marks: list[Any]) -> object:
    return await next(iter(asyncio.as_completed(marks)))


async def test_a_callback_has_it_sent_at_once_and_gets_the_acknowledgement(marking) -> None:
    sender, outcome, [mark] = pending(marking)
    assert not outcome.awaited
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    context = contextvars.copy_context()
    context.run(variable.set, "given")
    seen: list[object] = []
    mark.add_done_callback(lambda it: seen.append((it is mark, variable.get())))
    mark.add_done_callback(lambda it: seen.append(variable.get()), context=context)
    removed = seen.append
    mark.add_done_callback(removed)
    assert mark.remove_done_callback(removed) == 1
    assert mark.remove_done_callback(removed) == 0
    assert (sender.awaited, outcome.awaited) == (1, True)
    outcome.settle(1)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [(True, "none"), "given"]
    mark.add_done_callback(lambda it: seen.append("late"))
    await asyncio.sleep(0)
    assert seen[2:] == ["late"]


async def test_an_acknowledgement_without_a_result_has_no_exception(marking) -> None:
    _, outcome, [mark] = pending(marking)
    for ask in (mark.result, mark.exception):
        with pytest.raises(asyncio.InvalidStateError):
            ask()
    assert "pending" in repr(mark)
    assert "jobs-3 offset 0" in repr(mark)
    outcome.settle(1)
    assert mark.exception() is None
    assert "done" in repr(mark)


async def test_each_wait_raises_an_error_of_its_own(marking) -> None:
    _, outcome, marks = pending(marking, 2)
    tasks = [asyncio.ensure_future(wait(mark)) for mark in marks for _ in range(2)]
    gathered = asyncio.gather(*marks, return_exceptions=True)
    await asyncio.sleep(0)
    error = InvalidRecordStateError("lost")
    outcome.fail(0, 1, error, 2)
    raised = [*await asyncio.gather(*tasks, return_exceptions=True), *await gathered]
    assert {type(each) for each in raised} == {InvalidRecordStateError}
    assert len({id(each) for each in raised}) == 6
    assert error.__traceback__ is None
    assert str(marks[0].exception()) == str(error)


async def test_a_timeout_ends_the_wait_and_not_the_acknowledgement(marking) -> None:
    _, outcome, marks = pending(marking, 2)
    waiting = asyncio.ensure_future(wait(marks[1]))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(marks[0], 0.001)
    assert marks[0].cancelled() is (sys.version_info < (3, 12))
    outcome.settle(2)
    assert await waiting is None


async def test_cancelling_it_wakes_its_waits_and_no_others(marking) -> None:
    _, outcome, (mark, other) = pending(marking, 2)
    waits = [asyncio.ensure_future(wait(mark)) for _ in range(2)]
    others = asyncio.ensure_future(wait(other))
    called: list[object] = []
    mark.add_done_callback(called.append)
    await asyncio.sleep(0)
    assert mark.cancel()
    assert not mark.cancel()
    for each in waits:
        with pytest.raises(asyncio.CancelledError):
            await each
    assert called == [mark]
    for ask in (mark.result, mark.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()
    assert mark.done()
    assert "cancelled" in repr(mark)
    outcome.settle(2)
    assert await others is None
    assert not other.cancel()


async def test_cancelling_one_wait_affects_no_other(marking) -> None:
    _, outcome, [mark] = pending(marking)
    first, second = (asyncio.ensure_future(wait(mark)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not mark.cancelled()
    outcome.settle(1)
    assert await second is None


async def test_a_shielded_acknowledgement_outlives_its_wait(marking) -> None:
    _, outcome, [mark] = pending(marking)
    shielded = asyncio.shield(mark)
    shielded.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shielded
    assert not mark.done()
    outcome.settle(1)
    assert await mark is None


async def test_an_unseen_failure_is_reported_once(marking) -> None:
    sender, outcome, marks = pending(marking, 2)
    error = InvalidRecordStateError("lost")
    outcome.fail(0, 1, error, 2)
    del outcome, marks
    gc.collect()
    assert sender.unseen == [(0, 1, error)]


@pytest.mark.skipif(not _build.NATIVE, reason="nothing was compiled")
async def test_the_collector_does_not_track_native_acknowledgements() -> None:
    from aiokafka_lite.share.records import _record_marks_native as native

    _, _, [mark] = pending(native)
    assert not gc.is_tracked(mark)


# marks


class Slow:
    """Both builds leave other decisions to the acquisition."""

    def _mark_slowly(self, offset: int, kind: int) -> object:
        raise IllegalStateError(f"slowly {offset} {kind}")


def made(marking: ModuleType, states: bytes, refusal: str | None) -> Any:
    kind = type("Acquisition", (Slow, marking.Marks), {"__slots__": ()})
    marks = kind(100, bytearray(states), 50.0)
    marks.outcome = marking.OutcomeCore()
    marks.refusal = refusal
    marks.renewed = {101: 60.0}
    return marks


_STATES = st.lists(st.sampled_from([*range(7), 0x10, 0x13, 0x20, LOST, ABSENT]), min_size=1)
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "mark",
                "accept_undecided",
                "hold",
                "is_marked",
                "deadline_of",
                "take_marked",
                "end",
            ]
        ),
        st.one_of(st.integers(98, 110), st.integers(-(2**63), 2**63 - 1)),
        st.integers(-1, 6),
    )
)


def run(marking: ModuleType, states: list[int], refusal: str | None, calls: Any) -> list[object]:
    marks = made(marking, bytes(states), refusal)
    results: list[object] = []
    for name, offset, kind in calls:
        arguments: tuple[int, ...] = (offset, kind) if name == "mark" else (offset,)
        if name == "take_marked":
            arguments = ()
        elif name == "end":
            last = offset + max(kind, 0)
            arguments = (offset, min(last, 2**63 - 1), LOST if kind % 2 else DONE)
        elif name not in ("mark", "hold") and not 100 <= offset < 100 + len(states):
            continue  # the application cannot have such a record
        try:
            result = getattr(marks, name)(*arguments)
        except (IllegalStateError, IndexError) as error:
            result = str(error)
        results.append("marked" if isinstance(result, marking.Acknowledgement) else result)
    return [*results, bytes(marks.states), marks.outcome.pending]


@pytest.mark.walk
@pytest.mark.skipif(not _build.NATIVE, reason="nothing was compiled")
@given(states=_STATES, refusal=st.sampled_from([None, "implicit"]), calls=_CALLS)
def test_both_builds_mark_alike(states, refusal, calls) -> None:
    from aiokafka_lite.share.records import _record_marks_native as native

    assert run(native, states, refusal, calls) == run(twin, states, refusal, calls)


def test_a_held_record_is_marked_once(marking) -> None:
    marks = made(marking, bytes([HELD, GAP]), None)
    assert isinstance(marks.mark(100, ACCEPT), marking.Acknowledgement)
    with pytest.raises(IllegalStateError, match="slowly 100 1"):
        marks.mark(100, ACCEPT)
    assert marks.hold(101)
    assert not marks.hold(101)
    assert not marks.hold(99)
    assert marks.deadline_of(101) == 60.0
    assert marks.is_marked(100)
    assert marks.outcome.pending == 1


@pytest.mark.skipif(not _build.NATIVE, reason="nothing was compiled")
def test_offsets_outside_of_native_marks_raise() -> None:
    from aiokafka_lite.share.records import _record_marks_native as native

    for base in (0, 100, -(2**63), 2**63 - 1):
        marks = made(native, bytes([HELD]), None)
        marks.base = base
        for offset in {-(2**63), -1, 1, 99, 101, 2**63 - 1} - {base}:
            with pytest.raises(IndexError):
                marks.is_marked(offset)
            assert not marks.hold(offset)
    marks.states = None
    with pytest.raises(TypeError):
        marks.deadline_of(0)
    with pytest.raises(TypeError):
        native.Marks.__new__(native.Marks).hold(0)
