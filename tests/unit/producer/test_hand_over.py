"""`send_threadsafe`: records from other threads, in order, with few wake-ups, and bounded."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from itertools import chain
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.errors import (
    BufferExhaustedError,
    KafkaTimeoutError,
    ProducerClosed,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]

PRODUCE = 0


async def test_each_thread_s_records_arrive_in_its_order(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, value_serializer=str.encode)
        await producer.start()

        def send(name: str) -> list[Any]:
            futures = [
                producer.send_threadsafe("orders", f"{name}{number}") for number in range(1000)
            ]
            return [future.result(20) for future in futures]

        sent = await asyncio.gather(*[asyncio.to_thread(send, name) for name in "abcd"])
        offsets = [[place.offset for place in places] for places in sent]
        assert all(found == sorted(found) for found in offsets)
        assert sorted(chain.from_iterable(offsets)) == list(range(4000))
        values = [record.value.decode() for record in stored(cluster, "orders")[0]]
        for name in "abcd":
            mine = [value for value in values if value[0] == name]
            assert mine == [f"{name}{number}" for number in range(1000)]


async def test_a_burst_wakes_the_loop_once(
    make_producer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"known")
        loop = asyncio.get_running_loop()
        wakes: list[None] = []
        call = loop.call_soon_threadsafe

        def count(*arguments: Any, **more: Any) -> Any:
            wakes.append(None)
            return call(*arguments, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        futures: list[Future[Any]] = []

        def send() -> None:
            futures.extend(producer.send_threadsafe("orders", b"v") for _ in range(500))

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()  # the loop does not run meanwhile
        assert len(wakes) == 1
        monkeypatch.undo()
        places = await asyncio.gather(*map(asyncio.wrap_future, futures))
        assert [place.offset for place in places] == list(range(1, 501))


async def test_waiting_for_memory_keeps_the_order(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=500, buffer_memory=1000)
        await producer.start()
        sent = [bytes([number]) * 90 for number in range(100)]
        futures = [producer.send_threadsafe("orders", value) for value in sent]
        await asyncio.gather(*map(asyncio.wrap_future, futures))
        assert [record.value for record in stored(cluster, "orders")[0]] == sent
        assert producer._sender.pool.used == 0


async def test_errors_reach_the_thread(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        cluster.control(PRODUCE, error=TopicAuthorizationFailedError.errno)
        refused = producer.send_threadsafe("orders", b"v")
        wrong = producer.send_threadsafe("orders", "text")
        unknown = producer.send_threadsafe("orders", b"v", partition=9)
        with pytest.raises(TopicAuthorizationFailedError):
            await asyncio.wrap_future(refused)
        good = producer.send_threadsafe("orders", b"v")  # not before: it would share its batch
        with pytest.raises(TypeError, match="bytes"):
            await asyncio.wrap_future(wrong)
        with pytest.raises(ValueError, match="partition 9"):
            await asyncio.wrap_future(unknown)
        assert (await asyncio.wrap_future(good)).offset == 0


async def test_a_future_cancelled_in_time_is_not_sent(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        given_up = producer.send_threadsafe("orders", b"no")
        assert given_up.cancel()
        kept = producer.send_threadsafe("orders", b"yes")
        assert (await asyncio.wrap_future(kept)).offset == 0
        with pytest.raises(CancelledError):
            given_up.result()
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"yes"]


async def test_the_line_is_bounded(
    make_producer: Make, room: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room["hand_over"], "LONGEST_LINE", 3)
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_block_ms=100)
        await producer.start()
        futures = [producer.send_threadsafe("orders", b"v") for _ in range(3)]
        with pytest.raises(BufferExhaustedError):  # here, in the loop's own thread
            producer.send_threadsafe("orders", b"v")

        def send() -> None:
            with pytest.raises(KafkaTimeoutError, match="max_block_ms"):
                producer.send_threadsafe("orders", b"v")

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()  # the loop does not run meanwhile
        more = await asyncio.to_thread(
            lambda: [producer.send_threadsafe("orders", b"v") for _ in range(20)]
        )
        await asyncio.gather(*map(asyncio.wrap_future, futures + more))


async def test_flush_and_stop_take_what_stands_in_line(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"known")
        flushed = producer.send_threadsafe("orders", b"v")
        await producer.flush()
        assert flushed.done() or (await asyncio.wrap_future(flushed)).offset == 1
        stopped = producer.send_threadsafe("orders", b"v")
        await producer.stop()
        assert (await asyncio.wrap_future(stopped)).offset == 2


async def test_a_dropped_producer_is_collected_at_once(room: dict[str, ModuleType]) -> None:
    producer = room["producer"].AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    gone = weakref.ref(producer)
    with pytest.warns(ResourceWarning, match="Unclosed"):
        del producer
    assert gone() is None


async def test_after_the_end(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        waiting = producer.send_threadsafe("nowhere-yet", b"v")
        await producer.stop()
        late = producer.send_threadsafe("orders", b"v")
        for future in (waiting, late):
            with pytest.raises(ProducerClosed):
                await asyncio.wrap_future(future)


def test_after_the_loop(room: dict[str, ModuleType]) -> None:
    async def life() -> Any:
        producer = room["producer"].AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
        await producer.stop()
        return producer

    producer = asyncio.run(life())
    with pytest.raises(ProducerClosed, match="event loop"):
        producer.send_threadsafe("orders", b"v")
