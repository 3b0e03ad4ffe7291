"""Listeners that hang, fail, or are gone when the consumer stops."""

import asyncio
import logging

import pytest

from aiokafka_lite.consumer.membership.rebalance_listeners import ListenerCalls
from aiokafka_lite.structs import TopicPartition

SET = {TopicPartition("t", 0)}


async def hang(partitions: set[TopicPartition]) -> None:
    await asyncio.sleep(3600)


async def test_a_listener_that_hangs_is_cancelled_at_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    calls = ListenerCalls("g", loop)
    calling = asyncio.create_task(calls.call(hang, SET))
    await asyncio.sleep(0.01)
    assert not calling.done()
    async with asyncio.timeout(30):
        with caplog.at_level(logging.WARNING):
            calls.end_by(loop.time() + 0.1)
            await calling
            await calls.call(hang, SET)  # the remainder is shared again
    assert caplog.text.count("had not returned when the consumer stopped") == 2
    assert "failed" not in caplog.text


async def test_a_quick_one_is_not_hurried() -> None:
    calls = ListenerCalls("g", asyncio.get_running_loop())
    told: list[set[TopicPartition]] = []

    async def listen(partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(0.01)
        told.append(partitions)

    calls.end_by(asyncio.get_running_loop().time() + 10)
    await calls.call(listen, SET)
    await calls.call(told.append, SET)
    assert told == [SET, SET]


async def test_a_cancelled_listener_is_not_reported_as_failed() -> None:
    calls = ListenerCalls("g", asyncio.get_running_loop())
    calling = asyncio.create_task(calls.call(hang, SET))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_cancellation_inside_a_listener_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls = ListenerCalls("g", asyncio.get_running_loop())

    async def listen(partitions: set[TopicPartition]) -> None:
        inner = asyncio.create_task(asyncio.sleep(3600))
        inner.cancel()
        await inner

    with caplog.at_level(logging.ERROR):
        await calls.call(listen, SET)
    assert "CancelledError" in caplog.text


async def test_a_listener_cancelled_before_the_end_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The application cancelled its task; the rebalance continues in it."""
    calls = ListenerCalls("g", asyncio.get_running_loop(), ended=lambda: False)

    async def rebalance() -> int:
        await calls.call(hang, SET)
        task = asyncio.current_task()
        return -1 if task is None else task.cancelling()

    calling = asyncio.create_task(rebalance())
    await asyncio.sleep(0)
    calling.cancel()
    with caplog.at_level(logging.ERROR):
        assert await calling == 0
    assert "CancelledError" in caplog.text
