"""TaskOwner loses no task, and its close ends within the deadline."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.errors import IllegalStateError


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[str, BaseException]] = []

    def __call__(self, name: str, error: BaseException) -> None:
        self.seen.append((name, error))


async def forever() -> None:
    await asyncio.Event().wait()


def soon() -> float:
    return asyncio.get_running_loop().time() + 5


async def test_unexpected_exception_is_reported_to_the_owner() -> None:
    reports = Reports()
    owner = TaskOwner("producer 1", reports)

    async def fail() -> None:
        raise LookupError("lost")

    task = owner.spawn(fail(), "drain")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    [(name, error)] = reports.seen
    assert name == "producer 1: drain"
    assert isinstance(error, LookupError)
    assert owner.running == ()


async def test_results_and_cancellations_are_not_errors() -> None:
    reports = Reports()
    owner = TaskOwner("o", reports)

    async def seven() -> int:
        return 7

    assert await owner.spawn(seven(), "seven") == 7
    task = owner.spawn(forever(), "forever")
    task.cancel()
    await asyncio.wait([task])
    assert await owner.close(soon()) == ()
    assert reports.seen == []


async def test_close_cancels_and_waits_for_all() -> None:
    owner = TaskOwner("o", Reports())
    ended = []

    async def tidy(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    owner.spawn(tidy("a"), "a")
    owner.spawn(tidy("b"), "b")
    assert owner.running == ("o: a", "o: b")
    await asyncio.sleep(0)
    assert await owner.close(soon()) == ()
    assert sorted(ended) == ["a", "b"]
    assert owner.running == ()
    assert await owner.close(soon()) == ()


async def test_an_exception_while_closing_is_reported() -> None:
    reports = Reports()
    owner = TaskOwner("o", reports)

    async def untidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while closing")

    owner.spawn(untidy(), "untidy")
    await asyncio.sleep(0)
    assert await owner.close(soon()) == ()
    assert [str(error) for _, error in reports.seen] == ["while closing"]


async def test_close_returns_the_task_that_did_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = TaskOwner("o", Reports())
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = owner.spawn(stubborn(), "stubborn")
    await asyncio.sleep(0)
    try:
        assert await owner.close(asyncio.get_running_loop().time() + 0.02) == ("o: stubborn",)
        assert "Task o: stubborn did not end before the deadline" in caplog.text
    finally:
        release.set()
        await task
    assert await owner.close(soon()) == ()


async def test_a_deadline_in_the_past_still_cancels() -> None:
    owner = TaskOwner("o", Reports())
    task = owner.spawn(forever(), "forever")
    await asyncio.sleep(0)
    await owner.close(asyncio.get_running_loop().time() - 1)
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


async def test_a_task_may_close_its_own_owner() -> None:
    owner = TaskOwner("o", Reports())

    async def close() -> tuple[str, ...]:
        return await owner.close(soon())

    owner.spawn(forever(), "other")
    assert await owner.spawn(close(), "closer") == ()


async def test_spawn_after_close_raises() -> None:
    owner = TaskOwner("o", Reports())
    await owner.close(soon())
    with pytest.raises(IllegalStateError, match="task 'late' was not started"):
        owner.spawn(forever(), "late")
    assert owner.closed


async def test_a_task_takes_no_step_before_its_owner_has_it() -> None:
    """Whatever the application's task factory, such as `asyncio.eager_task_factory`."""
    loop = asyncio.get_running_loop()
    owner = TaskOwner("o", Reports())
    running: list[tuple[str, ...]] = []

    async def look() -> None:
        running.append(owner.running)

    def at_once(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return asyncio.Task(asyncio.sleep(0), loop=loop, **options)

    factory = loop.get_task_factory()
    loop.set_task_factory(at_once)  # type: ignore[arg-type]  # it takes `name` only
    try:
        await owner.spawn(look(), "look")
    finally:
        loop.set_task_factory(factory)
    assert running == [("o: look",)]


async def test_cancelling_close_leaves_the_tasks_cancelled() -> None:
    owner = TaskOwner("o", Reports())
    release = asyncio.Event()

    async def slow_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    task = owner.spawn(slow_end(), "slow")
    await asyncio.sleep(0)
    closing = asyncio.create_task(owner.close(soon()))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    release.set()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


async def test_cancel_cancels_all_tasks_without_waiting() -> None:
    reports = Reports()
    owner = TaskOwner("o", reports)
    tasks = [owner.spawn(forever(), "one"), owner.spawn(forever(), "two")]
    owner.cancel()
    with pytest.raises(IllegalStateError):
        owner.spawn(forever(), "late")
    assert await owner.close(soon()) == ()
    assert all(task.cancelled() for task in tasks)
    assert reports.seen == []
