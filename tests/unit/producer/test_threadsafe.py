"""`send_threadsafe`: records from other threads, in order, with few wake-ups, and bounded."""

import asyncio
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite import _build
from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.errors import (
    BufferExhaustedError,
    IllegalOperation,
    KafkaTimeoutError,
    ProducerClosed,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
)
from aiokafka_lite.structs import ProducerRecord
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]

PRODUCE = 0
BUILDS = ["native", "python"] if _build.NATIVE else ["python"]


class Raising(ProducerInterceptor):
    """Raises for each b"bad" value."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def options(self, by: str) -> dict[str, Any]:
        return {
            "serializer": {"value_serializer": self.look},
            "partitioner": {"partitioner": lambda key, every, _: bool(self.look(key)) and every[0]},
            "interceptor": {"interceptors": [self]},
        }[by]

    def look(self, value: Any) -> Any:
        if value == b"bad":
            raise self.kind
        return value

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.look(record.value)
        return record


def number(value: int) -> bytes:
    return b"%d" % value


def send_some(producer: Any, count: int, topic: str = "orders") -> list[Future[Any]]:
    return [producer.send_threadsafe(topic, number(each)) for each in range(count)]


@contextmanager
def closing_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


def started(
    room: dict[str, ModuleType],
    loop: asyncio.AbstractEventLoop,
    cluster: FakeCluster,
    **options: Any,
) -> Any:
    async def start() -> Any:
        producer = room["producer"].AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, **options
        )
        await producer.start()
        return producer

    return loop.run_until_complete(start())


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


async def test_a_future_cancelled_before_its_turn_is_not_sent(
    make_producer: Make, stored: Stored
) -> None:
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
    monkeypatch.setattr(room["threadsafe"], "MAX_QUEUED", 3)
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


async def test_flush_waits_for_records_handed_over_to_an_unknown_topic(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster() as cluster:
        producer = make_producer(cluster, linger_ms=60_000)
        await producer.start()
        futures = await asyncio.to_thread(send_some, producer, 5)
        later = asyncio.create_task(asyncio.to_thread(send_some, producer, 1, "another"))
        await asyncio.wait_for(producer.flush(), 20)
        assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]
        assert [record.value for record in stored(cluster, "orders")[0]] == list(
            map(number, range(5))
        )
        await later


async def test_stop_delivers_records_handed_over_to_an_unknown_topic(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster() as cluster:
        producer = make_producer(cluster)
        await producer.start()
        futures = await asyncio.to_thread(send_some, producer, 5)
        await asyncio.wait_for(producer.stop(), 20)
        assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]
        assert [record.value for record in stored(cluster, "orders")[0]] == list(
            map(number, range(5))
        )


async def test_stop_fails_waiting_records_when_it_times_out(make_producer: Make) -> None:
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        futures = await asyncio.to_thread(send_some, producer, 3)
        await asyncio.wait_for(producer.stop(timeout=0.2), 20)
        for future in futures:
            assert type(future.exception(0)) is ProducerClosed


async def test_a_cancelled_stop_fails_waiting_records(make_producer: Make) -> None:
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        futures = await asyncio.to_thread(send_some, producer, 3)
        stopping = asyncio.create_task(producer.stop())
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in futures)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(stopping, 20)
        for future in futures:
            assert type(future.exception(0)) is ProducerClosed
        assert producer._sender.closed
        await asyncio.wait_for(producer.stop(), 20)


async def test_stop_of_a_transactional_producer_does_not_wait_for_the_line(
    make_producer: Make,
) -> None:
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster, transactional_id="t")
        await producer.start()
        await producer.begin_transaction()
        futures = await asyncio.to_thread(send_some, producer, 3)
        await asyncio.wait_for(producer.stop(), 20)  # max_block_ms is 60 s
        for future in futures:
            assert type(future.exception(0)) is ProducerClosed


async def test_a_commit_includes_records_sent_before_it_from_other_threads(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, transactional_id="t")
        await producer.start()
        await producer.partitions_for("orders")
        await producer.begin_transaction()
        await producer.send("orders", b"known")
        handed = producer.send_threadsafe("orders", b"v")
        await producer.commit_transaction()
        assert (await asyncio.wrap_future(handed)).offset == 1


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
async def test_records_behind_one_that_waits_are_not_sent_in_the_next_transaction(
    make_producer: Make, end: str
) -> None:
    async with FakeCluster(topics={"orders": 1}, auto_create_topics=False) as cluster:
        producer = make_producer(cluster, transactional_id="t")
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"first")
        handed = [producer.send_threadsafe(topic, b"v") for topic in ("later", "orders")]
        await asyncio.sleep(0.01)
        await getattr(producer, end)()
        async with producer.transaction():
            cluster.create_topic("later", 1)
            for future in handed:
                with pytest.raises(IllegalOperation, match="the transaction ended"):
                    await asyncio.wait_for(asyncio.wrap_future(future), 20)
            again = producer.send_threadsafe("orders", b"second")
        assert (await asyncio.wrap_future(again)).topic == "orders"
        values = [record.value for record in cluster.records("orders", committed_only=True)]
        assert values == ([b"first"] if end == "commit_transaction" else []) + [b"second"]


async def test_an_abort_includes_records_sent_before_it_from_other_threads(
    make_producer: Make,
) -> None:
    """Even if nothing else was sent, so that the abort takes no iteration of the event loop."""
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, transactional_id="t")
        await producer.start()
        async with producer.transaction():
            await producer.send("orders", b"first")
        await producer.begin_transaction()
        handed = asyncio.wrap_future(producer.send_threadsafe("orders", b"aborted"))
        await producer.abort_transaction()
        async with producer.transaction():
            await asyncio.wait_for(asyncio.wait([handed]), 20)
            await producer.send("orders", b"second")
        values = [record.value for record in cluster.records("orders", committed_only=True)]
        assert values == [b"first", b"second"]
        assert handed.exception() is None or isinstance(handed.exception(), TransactionAbortedError)


async def test_stop_releases_a_thread_that_waits_for_room(
    make_producer: Make, room: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room["threadsafe"], "MAX_QUEUED", 2)
    async with FakeCluster(auto_create_topics=False) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        futures = await asyncio.to_thread(send_some, producer, 3)  # one of them is waited for
        blocked = asyncio.create_task(asyncio.to_thread(send_some, producer, 1))
        await asyncio.sleep(0.05)
        await producer.stop(timeout=0.1)
        for future in futures + await asyncio.wait_for(blocked, 20):
            assert type(future.exception(0)) is ProducerClosed


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, StopIteration])
@pytest.mark.parametrize("by", ["serializer", "partitioner", "interceptor"])
async def test_an_exception_of_the_application_fails_only_its_record(
    make_producer: Make, kind: type[BaseException], by: str
) -> None:
    raising = Raising(kind)
    async with FakeCluster() as cluster:
        producer = make_producer(cluster, **raising.options(by))
        await producer.start()
        values = (b"bad", b"good", b"bad", b"good")
        # If the topic is unknown, the queue's task calls the partitioner.
        for _ in ("unknown", "known"):
            futures = [producer.send_threadsafe("orders", value, key=value) for value in values]
            await asyncio.wait_for(producer.flush(), 20)
            for future, value in zip(futures, values, strict=True):
                error = future.exception(0)
                if value == b"good" or (by == "interceptor" and kind is StopIteration):
                    assert error is None  # an Exception of an interceptor is logged only
                elif kind is StopIteration:
                    assert type(error) is RuntimeError
                    assert type(error.__cause__) is StopIteration
                else:
                    assert type(error) is kind
        last = producer.send_threadsafe("orders", b"bad", key=b"bad")
        await asyncio.wait_for(producer.stop(), 20)
        assert last.done()
        assert producer._sender.closed


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_serializer_reaches_the_loop_and_its_record(
    room: dict[str, ModuleType], kind: type[BaseException]
) -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, closing_loop() as loop:
        options = Raising(kind).options("serializer")
        producer = started(room, loop, cluster, **options)
        loop.run_until_complete(producer.send_and_wait("orders", b"known"))
        futures = [producer.send_threadsafe("orders", value) for value in (b"bad", b"good")]
        with pytest.raises(kind):
            loop.run_until_complete(asyncio.sleep(0.01))
        assert type(futures[0].exception(0)) is kind
        loop.run_until_complete(asyncio.wrap_future(futures[1], loop=loop))

        async def stop() -> None:
            producer.send_threadsafe("orders", b"bad")
            await producer.stop()

        with pytest.raises(kind):
            loop.run_until_complete(stop())
        assert producer._sender.closed
        loop.run_until_complete(asyncio.wait_for(producer.stop(), 20))


def test_threads_that_send_while_the_loop_ends_are_all_answered(
    room: dict[str, ModuleType],
) -> None:
    ended, hung = threading.Event(), []

    def work(producer: Any) -> None:
        while not ended.is_set():
            try:
                producer.send_threadsafe("orders", b"v").result(10)
            except TimeoutError:
                hung.append(producer)
                return
            except ProducerClosed:
                pass

    async def main(cluster: FakeCluster) -> tuple[Any, list[threading.Thread]]:
        async with room["producer"].AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers
        ) as producer:
            threads = [threading.Thread(target=work, args=(producer,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            await asyncio.sleep(0.05)
        return producer, threads

    with FakeCluster(topics={"orders": 1}) as cluster:
        for _ in range(3):
            ended.clear()
            producer, threads = asyncio.run(main(cluster))
            with pytest.raises(ProducerClosed, match="event loop"):
                producer.send_threadsafe("orders", b"after")
            ended.set()
            for thread in threads:
                thread.join()
    assert not hung


@pytest.mark.parametrize("end", ["closed asyncio", "closed uvloop", "cleaned"])
@pytest.mark.parametrize("build", BUILDS)
async def test_an_abrupt_end_of_the_loop_answers_every_future(build: str, end: str) -> None:
    if "uvloop" in end and find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", Path(__file__).with_name("abrupt_ends.py"), *end.split()),
        env={**os.environ, "AIOKAFKA_LITE_PURE": "1" if build == "python" else ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0, output.decode()


async def test_cancelling_the_task_of_the_line_fails_the_line_and_no_later_record(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 1}, auto_create_topics=False) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"known")
        for pause in (0, 0.05):
            waiting = producer.send_threadsafe("nowhere", b"v")
            behind = producer.send_threadsafe("orders", b"v")
            producer._hand_over.serve()
            await asyncio.sleep(pause)
            [task] = [task for task in asyncio.all_tasks() if "hand over" in task.get_name()]
            task.cancel()
            for future in (waiting, behind):
                with pytest.raises(ProducerClosed, match="cancelled"):
                    await asyncio.wait_for(asyncio.wrap_future(future), 20)
            later = producer.send_threadsafe("orders", b"v")
            await asyncio.wait_for(asyncio.wrap_future(later), 20)


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
        await producer.stop()
        late = producer.send_threadsafe("orders", b"v")
        with pytest.raises(ProducerClosed):
            late.result(0)


def test_after_the_loop(room: dict[str, ModuleType]) -> None:
    async def life() -> Any:
        producer = room["producer"].AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
        await producer.stop()
        return producer

    producer = asyncio.run(life())
    with pytest.raises(ProducerClosed, match="event loop"):
        producer.send_threadsafe("orders", b"v")
