"""Every check recognizes `send` and `send_and_wait` as coroutine functions, in both builds."""

import asyncio
import gc
import inspect
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import ModuleType
from typing import Any
from unittest.mock import AsyncMock, create_autospec

import pytest

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]


def values(cluster: FakeCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("orders")]


@pytest.mark.parametrize("call", ["send", "send_and_wait"])
async def test_asyncio_accepts_the_result_of_send_as_a_coroutine(
    make_producer: Make, call: str
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        send = getattr(producer, call)
        await producer.partitions_for("orders")
        assert asyncio.iscoroutinefunction(send)
        for run in (asyncio.create_task, asyncio.ensure_future, asyncio.gather):
            sent = send("orders", b"x")
            assert asyncio.iscoroutine(sent)
            assert inspect.isawaitable(sent)
            assert isinstance(sent, Coroutine)
            assert not asyncio.isfuture(sent)
            await run(sent)
        async with asyncio.timeout(5):
            await asyncio.wait_for(send("orders", b"x"), 5)
        task = asyncio.create_task(send("orders", b"x"))
        assert f"AIOKafkaProducer.{call}" in repr(task)
        await asyncio.wait([task])
        await producer.flush()
        assert values(cluster) == [b"x"] * 5


async def test_a_send_that_is_not_awaited_is_sent(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        await producer.send_and_wait("orders", b"0")
        producer.send("orders", b"1")
        producer.send_and_wait("orders", b"2")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gc.collect()
        await producer.flush()
        assert values(cluster) == [b"0", b"1", b"2"]


async def test_a_blocked_send_that_is_not_awaited_warns(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        with pytest.warns(RuntimeWarning, match="never awaited"):  # noqa: PT031
            producer.send("orders", b"1")
            gc.collect()
        await producer.flush()
        assert values(cluster) == []


@pytest.mark.parametrize("call", ["send", "send_and_wait"])
async def test_errors_come_out_of_the_await(make_producer: Make, call: str) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        sent = getattr(producer, call)("orders", b"x")
        with pytest.raises(IllegalStateError, match="not started"):
            await sent
        async with producer:
            await producer.partitions_for("orders")
            for wrong in ({"value": "text"}, {"key": 5}, {"timestamp_ms": -7}):
                sent = getattr(producer, call)(**{"topic": "orders", "value": b"x", **wrong})
                assert asyncio.iscoroutine(sent)
                with pytest.raises((TypeError, ValueError)):
                    await sent
            with pytest.raises(TypeError, match="argument"):  # no call at all
                getattr(producer, call)()
        assert values(cluster) == []


@pytest.mark.parametrize("call", ["send", "send_and_wait"])
async def test_called_in_another_thread_it_appends_in_the_loop(
    make_producer: Make, call: str
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        await producer.send_and_wait("orders", b"0")
        loop = asyncio.get_running_loop()

        def elsewhere() -> int:
            sent = getattr(producer, call)("orders", b"x")
            used: int = producer._sender.pool.used
            asyncio.run_coroutine_threadsafe(sent, loop).result(10)
            return used

        assert await asyncio.to_thread(elsewhere) == 0  # nothing was appended by the call
        await producer.flush()
        assert values(cluster) == [b"0", b"x"]


def test_a_loop_that_moves_to_another_thread(make_producer: Make) -> None:
    loop = asyncio.new_event_loop()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(coroutine)

    def in_a_thread(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with ThreadPoolExecutor(1) as elsewhere:
            return elsewhere.submit(run, coroutine).result()

    async def begin() -> tuple[FakeCluster, Any]:
        cluster = FakeCluster(topics={"orders": 1})
        await cluster.start()
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"0")
        return cluster, producer

    async def send_two(producer: Any) -> list[int]:
        first = await producer.send_and_wait("orders", b"1")
        return [first.offset, (await producer.send_and_wait("orders", b"2")).offset]

    async def end(cluster: FakeCluster, producer: Any) -> None:
        await producer.stop()
        await cluster.stop()

    with closing(loop):
        cluster, producer = run(begin())
        assert in_a_thread(send_two(producer)) == [1, 2]
        assert run(send_two(producer)) == [3, 4]
        run(end(cluster, producer))


def test_called_while_its_loop_does_not_run(make_producer: Make) -> None:
    with closing(asyncio.new_event_loop()) as loop:

        async def begin() -> tuple[FakeCluster, Any]:
            cluster = FakeCluster(topics={"orders": 1})
            await cluster.start()
            producer = make_producer(cluster)
            await producer.start()
            return cluster, producer

        cluster, producer = loop.run_until_complete(begin())
        for offset in range(2):  # the first one has to wait for the topic
            sent = producer.send_and_wait("orders", b"x")
            assert loop.run_until_complete(sent).offset == offset
        loop.run_until_complete(producer.stop())
        loop.run_until_complete(cluster.stop())


async def test_cancelling_its_task_cancels_the_wait_alone(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        await producer.send_and_wait("orders", b"0")
        fault = cluster.control(ApiKey.PRODUCE, delay=0.1)
        given_up = asyncio.create_task(producer.send_and_wait("orders", b"1"))
        never_begun = asyncio.create_task(producer.send_and_wait("orders", b"2"))
        never_begun.cancel()
        kept = asyncio.create_task(producer.send_and_wait("orders", b"3"))
        await fault.struck()
        given_up.cancel()
        for task in (given_up, never_begun):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not kept.done()
        assert (await kept).offset == 3
        assert values(cluster) == [b"0", b"1", b"2", b"3"]


async def test_a_stop_iteration_that_is_kept_keeps_its_value(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        await producer.send_and_wait("orders", b"0")
        stops = []
        for _ in range(30):
            with pytest.raises(StopIteration) as stop:
                producer.send("orders", b"1").send(None)
            assert "changed" not in stop.value.args
            stop.value.args = ("changed",)
            stops.append(stop.value)
        assert [(await stop.value).offset for stop in stops] == list(range(1, 31))


async def test_a_send_driven_like_a_coroutine(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster, make_producer(cluster) as producer:
        await producer.send_and_wait("orders", b"0")
        sent = producer.send("orders", b"1")
        with pytest.raises(StopIteration) as stop:
            sent.send(None)
        ack = stop.value.value
        with pytest.raises(KeyError, match="mine"):
            producer.send("orders", b"2").throw(KeyError("mine"))
        with pytest.raises(KeyError):
            producer.send_and_wait("orders", b"3").throw(KeyError)
        for call in (producer.send, producer.send_and_wait):
            call("orders", b"4").close()
        assert (await ack).offset == 1
        await producer.flush()
        assert values(cluster) == [b"0", b"1", b"2", b"3", b"4", b"4"]


def test_a_mock_made_after_it_is_awaitable(room: dict[str, ModuleType]) -> None:
    mock = create_autospec(room["producer"].AIOKafkaProducer, instance=True)
    assert isinstance(mock.send, AsyncMock) or asyncio.iscoroutinefunction(mock.send)
    signature = inspect.signature(room["producer"].AIOKafkaProducer.send)
    expected = ["self", "topic", "value", "key", "partition", "timestamp_ms", "headers"]
    assert list(signature.parameters) == expected
    assert "Appen" in (room["producer"].AIOKafkaProducer.send.__doc__ or "")
