"""Waiters are woken without being given a record, so none can be lost."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.structs import TopicPartition

P0 = TopicPartition("t", 0)

T = TypeVar("T")


async def test_all_are_woken() -> None:
    begun: list[int] = []
    waiters = Waiters(lambda: begun.append(bool(waiters)))
    assert not waiters
    waiters.wake()
    one = asyncio.ensure_future(waiters.wait([P0], None))
    two = asyncio.ensure_future(waiters.wait([], None))
    await asyncio.sleep(0)
    assert begun == [True, True]  # called when the waiter already counts
    assert waiters
    assert list(waiters.awaited()) == [[P0], []]
    waiters.wake()
    assert await one
    assert await two
    assert not waiters


async def test_awaited_partitions_are_those_of_current_waiters() -> None:
    waiters = Waiters(lambda: None)
    waiting = asyncio.ensure_future(waiters.wait([P0], None))
    await asyncio.sleep(0)
    assert list(waiters.awaited()) == [[P0]]
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert list(waiters.awaited()) == []


async def test_a_deadline() -> None:
    waiters = Waiters(lambda: None)
    loop = asyncio.get_running_loop()
    assert not await waiters.wait([], loop.time())
    assert not await waiters.wait([], loop.time() - 1)
    assert not waiters


async def test_a_waiter_that_is_woken_and_cancelled_at_once() -> None:
    waiters = Waiters(lambda: None)
    waiting = asyncio.ensure_future(waiters.wait([], None))
    await asyncio.sleep(0)
    waiters.wake()
    waiters.wake()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not waiters


def in_a_pass(call: Callable[[], T]) -> asyncio.Future[T]:
    """Let the event loop call a function, outside of any task."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    loop.call_soon(lambda: done.set_result(call()))
    return done


async def test_wake_now_returns_after_the_waiter_has_run() -> None:
    waiters = Waiters(lambda: None)
    events: list[str] = []

    async def read(name: str) -> None:
        assert await waiters.wait([], None)
        events.append(name)
        if await waiters.wait([], None):  # again: it is not woken twice
            events.append(f"{name} again")

    def wake() -> list[str]:
        waiters.wake_now()
        return list(events)

    one, two = (asyncio.ensure_future(read(name)) for name in ("one", "two"))
    await asyncio.sleep(0)
    assert await in_a_pass(wake) == ["one", "two"]
    assert waiters
    waiters.wake()
    await asyncio.gather(one, two)
    assert events == ["one", "two", "one again", "two again"]
    assert not waiters


async def test_wake_now_ignores_woken_cancelled_and_late_waiters() -> None:
    waiters = Waiters(lambda: None)
    woken, cancelled, late = (
        asyncio.ensure_future(waiters.wait([], at))
        for at in (None, None, asyncio.get_running_loop().time() - 1)
    )
    await asyncio.sleep(0)

    def wake() -> None:
        waiters.wake()
        cancelled.cancel()
        waiters.wake_now()

    await in_a_pass(wake)
    assert await woken
    assert await late
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not waiters


async def test_a_read_that_is_woken_before_it_waits_does_not_wait() -> None:
    for wake in (Waiters.wake, Waiters.wake_now):
        waiters = Waiters(lambda: wake(waiters))  # noqa: B023 (called here)
        async with asyncio.timeout(10):
            assert await waiters.wait([], None)


async def test_the_cancel_message_is_preserved() -> None:
    waiters = Waiters(lambda: None)
    waiting = asyncio.ensure_future(waiters.wait([], None))
    await asyncio.sleep(0)
    waiting.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await waiting


def test_an_exception_that_stops_the_loop_is_raised_in_its_own_iteration() -> None:
    waiters = Waiters(lambda: None)
    events: list[str] = []

    async def interrupted() -> None:
        await waiters.wait([], None)
        events.append("interrupted")
        raise KeyboardInterrupt

    def wake() -> None:
        waiters.wake_now()
        events.append("woke")

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(interrupted()),
            asyncio.ensure_future(waiters.wait([], None)),
        ]
        await asyncio.sleep(0)
        await in_a_pass(wake)
        await asyncio.gather(*tasks)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert events == ["interrupted", "woke"]
