"""Waiting to be woken: nothing is handed over, so nothing can be lost."""

import asyncio

import pytest

from aiokafka_lite.consumer.waiters import Waiters
from aiokafka_lite.structs import TopicPartition

P0 = TopicPartition("t", 0)


async def test_all_are_woken() -> None:
    begun: list[int] = []
    waiters = Waiters(lambda: begun.append(bool(waiters)))
    assert not waiters
    assert not waiters.wake()
    one = asyncio.ensure_future(waiters.wait([P0], None))
    two = asyncio.ensure_future(waiters.wait([], None))
    await asyncio.sleep(0)
    assert begun == [True, True]  # it is told when the waiter is counted already
    assert waiters
    assert list(waiters.awaited()) == [[P0], []]
    assert waiters.wake()
    assert await one
    assert await two
    assert not waiters


async def test_who_wants_what() -> None:
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
