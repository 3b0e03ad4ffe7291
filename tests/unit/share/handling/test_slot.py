"""The slots of `run` in both builds: handlers in the task of a slot."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import types
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from importlib import import_module
from typing import Any

import pytest

from aiokafka_lite import _build
from tests.unit.share.handling.fake_queue import FakeQueue, FakeRecord

BUILDS = ["native", "python"] if _build.NATIVE else ["python"]


@pytest.fixture(params=BUILDS)
def slots(request: pytest.FixtureRequest) -> types.ModuleType:
    """`_slot_native`, then its twin."""
    return import_module(f"aiokafka_lite.share.handling._slot_{request.param}")


class Line:
    """Records in a queue, with a slot that handles them."""

    def __init__(self, slots: Any, handler: Callable[[Any], object], count: int = 3) -> None:
        self.source = FakeQueue()
        self.records = [FakeRecord(self.source, offset, None, 1) for offset in range(count)]
        self.queue = deque(self.records)
        self.enough = 0
        self.tally = slots.Tally(self.on_enough)
        self.tally.outstanding = count
        self.slot = slots.Slot(self.queue, handler, self.tally)

    def on_enough(self) -> None:
        self.enough += 1
        self.tally.enough = -1

    @property
    def outcomes(self) -> list[str | None]:
        return [record.outcome for record in self.records]


async def test_records_are_accepted_without_suspending(slots) -> None:
    async def handle(record: FakeRecord) -> None:
        assert line.slot.record is record

    line = Line(slots, handle)
    line.tally.enough = 1
    coroutine = _run(line.slot.handle(2))
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert stop.value.value is None
    assert line.outcomes == ["accepted", "accepted", None]
    assert (line.tally.outstanding, line.enough, len(line.queue)) == (1, 1, 1)
    await line.slot.handle(100)
    assert line.outcomes == ["accepted"] * 3
    assert line.tally.outstanding == 0
    await line.slot.handle(100)
    assert line.tally.outstanding == 0


async def test_a_handler_runs_in_the_task_of_the_slot_and_may_suspend(slots) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    tasks: set[Any] = set()
    seen: list[int] = []

    async def handle(record: FakeRecord) -> str:
        tasks.add(asyncio.current_task())
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
        seen.append(variable.get())
        variable.set(record.offset + 1)
        return "dropped"

    line = Line(slots, handle)
    task = asyncio.create_task(_run(line.slot.handle(3)))
    await asyncio.sleep(0)
    assert line.slot.record is line.records[0]
    assert line.outcomes == [None] * 3
    await task
    assert line.outcomes == ["accepted"] * 3
    assert tasks == {task}
    assert seen == [0, 1, 2]


async def test_each_kind_of_awaitable_is_awaited(slots) -> None:
    loop = asyncio.get_running_loop()
    steps: list[object] = []

    class Awaited:
        def __await__(self) -> Generator[Any, None, None]:
            yield from asyncio.sleep(0).__await__()
            steps.append(self)

    @types.coroutine
    def generator() -> Generator[Any, None, None]:
        yield
        steps.append("generator")

    async def later() -> None:
        await asyncio.sleep(0)
        steps.append("task")

    def soon() -> asyncio.Future[None]:
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    makers: list[Callable[[], Any]] = [
        soon,
        Awaited,
        generator,
        lambda: loop.create_task(later()),
    ]

    def handle(record: FakeRecord) -> Awaitable[object]:
        made: Awaitable[object] = makers[record.offset]()
        return made

    line = Line(slots, handle, 4)
    await line.slot.handle(4)
    assert line.outcomes == ["accepted"] * 4
    assert len(steps) == 3


@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("kind", [ValueError, TypeError, StopAsyncIteration, KeyboardInterrupt])
async def test_an_exception_of_a_handler_ends_the_call_with_its_record(
    slots, kind, suspends
) -> None:
    async def handle(record: FakeRecord) -> None:
        if suspends:
            await asyncio.sleep(0)
        if record.offset == 1:
            raise kind("wrong")

    line = Line(slots, handle)
    with pytest.raises(kind, match="wrong"):
        await line.slot.handle(3)
    assert line.slot.record is line.records[1]
    assert line.outcomes == ["accepted", None, None]
    assert not line.slot.misfit
    await line.slot.handle(3)
    assert line.outcomes == ["accepted", None, "accepted"]


@pytest.mark.parametrize(
    ("handler", "misfit"),
    [
        (lambda: None, True),
        (lambda record: None, True),
        (lambda record: 5, True),
        (lambda record: int(None), False),  # type: ignore[arg-type]
        (lambda record: _failed(TypeError("later")), False),
    ],
    ids=["no argument", "None", "a number", "its own TypeError", "a future with one"],
)
async def test_what_is_no_handler_differs_from_a_handler_that_fails(slots, handler, misfit) -> None:
    line = Line(slots, handler)
    with pytest.raises(TypeError):
        await line.slot.handle(3)
    assert line.slot.misfit is misfit
    assert line.outcomes == [None] * 3


async def test_cancellation_reaches_the_handler_and_the_call_continues_if_it_returns(slots) -> None:
    cancelled: list[int] = []

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(record.offset)
            if record.offset == 1:
                raise

    line = Line(slots, handle)
    task = asyncio.create_task(_run(line.slot.handle(3)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert line.outcomes == ["accepted", None, None]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [0, 1]
    assert line.outcomes == ["accepted", None, None]
    assert line.slot.record is line.records[1]


async def test_a_handler_that_awaits_again_after_its_cancellation_is_awaited(slots) -> None:
    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.append(record.offset)

    ended: list[int] = []
    line = Line(slots, handle, 1)
    task = asyncio.create_task(_run(line.slot.handle(3)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0]


async def test_a_lost_record_is_not_accepted_and_ends_the_call(slots) -> None:
    async def handle(record: FakeRecord) -> None:
        if record.offset == 1:
            line.slot.lost = "the leader changed"
            await asyncio.sleep(0)

    line = Line(slots, handle)
    await line.slot.handle(3)
    assert line.outcomes == ["accepted", None, None]
    assert line.slot.record is line.records[1]
    assert line.tally.outstanding == 2


async def test_closing_the_call_closes_the_handler(slots) -> None:
    closed: list[int] = []

    async def handle(record: FakeRecord) -> None:
        try:
            await asyncio.sleep(60)
        except GeneratorExit:
            closed.append(record.offset)
            raise

    line = Line(slots, handle)
    coroutine = _run(line.slot.handle(3))
    coroutine.send(None)
    coroutine.close()
    assert closed == [0]
    assert line.outcomes == [None] * 3


async def test_an_awaitable_without_throw_gets_the_exception_where_it_is_awaited(slots) -> None:
    class Bare:
        def __await__(self) -> Any:
            return iter([None, None])

    line = Line(slots, lambda record: Bare())
    coroutine = _run(line.slot.handle(3))
    coroutine.send(None)
    with pytest.raises(ValueError, match="thrown"):
        coroutine.throw(ValueError("thrown"))
    assert line.slot.record is line.records[0]


async def test_a_record_is_freed_once_the_next_one_is_handled(slots) -> None:
    alive: list[int] = []

    async def handle(record: FakeRecord) -> None:
        alive.append(sum(reference() is not None for reference in references))

    line = Line(slots, handle, 5)
    references = [weakref.ref(record) for record in line.records]
    line.records.clear()
    line.source.on_outcome = lambda record, outcome: None  # type: ignore[method-assign]
    await line.slot.handle(5)
    assert alive == [5, 4, 3, 2, 1]


async def test_a_slot_in_a_reference_cycle_is_collected(slots) -> None:
    class Handler:
        async def __call__(self, record: FakeRecord) -> None:
            await asyncio.sleep(0)

    handler: Any = Handler()
    line = Line(slots, handler)
    handler.slot = line.slot
    await line.slot.handle(1)
    reference = weakref.ref(handler)
    del handler, line
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("step", [next, lambda awaited: awaited.send(None)], ids=["next", "send"])
async def test_next_and_send_continue_a_slot(slots, step: Callable[[Any], object]) -> None:
    """From Python 3.12 on, `await` calls `next`; in 3.11 it passes both over."""

    async def handle(record: FakeRecord) -> None:
        if record.offset == 1:
            await asyncio.sleep(0)

    line = Line(slots, handle)
    awaited = line.slot.handle(3).__await__()
    assert step(awaited) is None
    assert line.outcomes == ["accepted", None, None]
    with pytest.raises(StopIteration) as stop:
        step(awaited)
    assert stop.value.value is None
    assert line.outcomes == ["accepted"] * 3


async def test_a_slot_ends_if_its_handler_returns_after_throw(slots) -> None:
    async def handle(record: FakeRecord) -> None:
        with contextlib.suppress(ValueError):
            await asyncio.sleep(0)

    line = Line(slots, handle, 1)
    awaited = line.slot.handle(1).__await__()
    assert next(awaited) is None
    with pytest.raises(StopIteration) as stop:
        awaited.throw(ValueError("thrown"))
    assert stop.value.value is None
    assert line.outcomes == ["accepted"]


async def _run(awaitable: Awaitable[None]) -> None:
    await awaitable


def _failed(error: Exception) -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
