"""The event that the task of a leader link awaits."""

from __future__ import annotations

import asyncio

import pytest

from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.share.leaders.bell import Answer, Bell


async def passes(count: int = 2) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_bell_wakes_its_task_at_once_from_a_callback() -> None:
    loop = asyncio.get_running_loop()
    bell, heard = Bell(loop), []

    async def listen() -> None:
        await bell.wait()
        heard.append(asyncio.current_task())

    task = asyncio.create_task(listen())
    await passes()

    def ring() -> None:
        bell.ring_now()
        assert heard == [task]

    loop.call_soon(ring)
    await task


async def test_a_bell_that_rang_ends_the_next_wait_until_it_is_cleared() -> None:
    bell = Bell(asyncio.get_running_loop())
    bell.ring_now()  # without a waiter
    await bell.wait()
    bell.clear()
    waiting = asyncio.create_task(bell.wait())
    await passes()
    assert not waiting.done()
    bell.ring()
    assert not waiting.done()
    await waiting


async def test_a_wait_for_a_bell_can_be_cancelled() -> None:
    bell = Bell(asyncio.get_running_loop())
    waiting = asyncio.create_task(bell.wait())
    await passes()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bell.ring_now()
    await bell.wait()


async def test_an_answer_returns_its_response() -> None:
    answer = Answer(asyncio.get_running_loop(), Waiter.wake)
    asyncio.get_running_loop().call_soon(answer.set_result, "response")
    assert await answer == "response"
    assert answer.done()
    assert answer.exception() is None


async def test_an_answer_raises_its_failure_even_if_that_came_first() -> None:
    answer = Answer(asyncio.get_running_loop(), Waiter.wake)
    answer.set_exception(ConnectionError("lost"))
    assert answer.done()
    assert isinstance(answer.exception(), ConnectionError)
    with pytest.raises(ConnectionError, match="lost"):
        await answer


async def test_a_cancelled_answer_wants_no_response() -> None:
    answer = Answer(asyncio.get_running_loop(), Waiter.wake_now)

    async def receive() -> object:
        return await answer

    task = asyncio.create_task(receive())
    await passes()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answer.done()
