"""Calls in threads, outside of the event loop and of the application's executor."""

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite._threads import NoThreadError, ThreadPool, codec_threads, lookup_threads
from aiokafka_lite.producer.batching import _batches_python
from aiokafka_lite.reading import heavy_batches
from aiokafka_lite.testing import FakeCluster


async def call(pool: ThreadPool, function: Callable[[], object]) -> object:
    return await pool.run(asyncio.get_running_loop(), function)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def test_call_returns_or_raises_the_outcome_of_the_function() -> None:
    pool = ThreadPool("pool", 2)
    loop = asyncio.get_running_loop()
    assert await pool.run(loop, divmod, 7, 3) == (2, 1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(loop, divmod, 7, 0)


async def test_idle_thread_is_reused() -> None:
    pool = ThreadPool("pool", 2)
    for _ in range(3):
        assert await call(pool, lambda: threading.current_thread().name) == "pool-0"
        await until(lambda: pool._idle == 1)
    assert pool.running == 1


async def test_number_of_threads_is_bounded() -> None:
    pool = ThreadPool("pool", 3)
    free = threading.Event()
    at_once: list[str] = []

    def work() -> None:
        at_once.append(threading.current_thread().name)
        free.wait(10)

    calls = [asyncio.ensure_future(call(pool, work)) for _ in range(9)]
    await until(lambda: len(at_once) == 3)
    assert pool.running == len(set(at_once)) == 3
    free.set()
    await asyncio.gather(*calls)
    assert len(at_once) == 9
    assert len(set(at_once)) == 3


async def test_idle_threads_end() -> None:
    pool = ThreadPool("pool", 2, idle_seconds=0.01)
    await asyncio.gather(*[call(pool, lambda: time.sleep(0.001)) for _ in range(4)])
    await until(lambda: pool.running == 0)
    assert await call(pool, lambda: 5) == 5


async def test_an_idle_thread_keeps_no_result() -> None:
    class Result:
        pass

    pool = ThreadPool("pool", 1)
    result = await call(pool, Result)
    seen = weakref.ref(result)
    del result
    await until(lambda: gc.collect() >= 0 and seen() is None)


async def test_an_exception_is_in_no_reference_cycle() -> None:
    """Otherwise objects in its traceback, such as a socket, would live until the collector runs."""

    class Held:
        pass

    seen: list[weakref.ref[Held]] = []

    def fail() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        raise ZeroDivisionError

    pool = ThreadPool("pool", 1)
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(ZeroDivisionError):
                await pool.run(asyncio.get_running_loop(), fail)
        await until(lambda: [each() for each in seen] == [None] * 3)
    finally:
        gc.enable()


async def test_a_cancelled_call_that_has_not_begun_never_begins() -> None:
    pool = ThreadPool("pool", 1)
    free, begun = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        free.wait(10)

    blocking = asyncio.ensure_future(call(pool, block))
    await until(begun.is_set)
    called: list[int] = []
    waiting = asyncio.ensure_future(call(pool, lambda: called.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    free.set()
    await blocking
    await call(pool, lambda: called.append(2))
    assert called == [2]


async def test_the_outcome_of_a_cancelled_call_is_dropped() -> None:
    pool = ThreadPool("pool", 1)
    free, begun = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        free.wait(10)
        raise ValueError("too late")

    calling = asyncio.ensure_future(call(pool, fail))
    await until(begun.is_set)
    calling.cancel()
    await asyncio.wait([calling])
    free.set()
    assert await call(pool, lambda: "next") == "next"


def test_outcome_for_a_closed_loop_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    pool = ThreadPool("pool", 1, idle_seconds=0.05)
    free = threading.Event()
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        pool.run(asyncio.get_running_loop(), free.wait, 10)

    loop.run_until_complete(leave())
    loop.close()
    free.set()
    deadline = time.monotonic() + 10
    while pool.running and time.monotonic() < deadline:
        time.sleep(0.005)
    assert pool.running == 0
    assert capfd.readouterr().err == ""


async def test_thread_start_failure_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = ThreadPool("pool", 2)
    free = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NoThreadError, match="can't start"):
            await call(pool, lambda: 1)
    first = asyncio.ensure_future(call(pool, lambda: free.wait(10)))
    await until(lambda: pool.running == 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        second = asyncio.ensure_future(call(pool, lambda: 2))  # done by the running thread
        await asyncio.sleep(0)
    free.set()
    assert await first
    assert await second == 2


# On a busy machine, asyncio's debug mode warns of slow callbacks.
NO_SLOW_CALLBACKS = "import logging\nlogging.getLogger('asyncio').setLevel(logging.ERROR)\n"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", NO_SLOW_CALLBACKS + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_hanging_call_delays_neither_the_loop_nor_the_exit() -> None:
    done = run(
        """
        import asyncio, threading
        from aiokafka_lite._threads import lookup_threads

        async def main():
            hanging = lookup_threads.run(asyncio.get_running_loop(), threading.Event().wait)
            await asyncio.wait([hanging], timeout=0.1)

        asyncio.run(main())
        print("over")
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("over\n", "", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_child_has_its_own_threads() -> None:
    done = run(
        """
        import asyncio, os, threading, warnings
        from aiokafka_lite._threads import codec_threads, lookup_threads

        warnings.simplefilter("ignore")  # of forking with threads

        async def use(pool):
            return await pool.run(asyncio.get_running_loop(), threading.get_ident)

        async def hang(pool):
            loop = asyncio.get_running_loop()
            for _ in range(100):
                pool.run(loop, threading.Event().wait)

        pools = (codec_threads, lookup_threads)
        for pool in pools:
            asyncio.run(use(pool))
            asyncio.run(hang(pool))
            pool._changed.acquire()  # as a thread might at the moment of the fork
        child = os.fork()
        if child == 0:
            for pool in pools:
                assert pool.running == 0
                assert asyncio.run(asyncio.wait_for(use(pool), 10)) != threading.get_ident()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        os._exit(8)
        """
    )
    assert (done.stderr, done.returncode) == ("", 8)


# --- an application that fills the executor of its event loop


@pytest.fixture
async def full_executor() -> AsyncIterator[None]:
    """Keeps all threads of the default executor busy."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(2))
    free = threading.Event()
    at_work = [asyncio.create_task(asyncio.to_thread(free.wait, 60)) for _ in range(4)]
    try:
        yield
        assert not any(task.done() for task in at_work)
    finally:
        free.set()
        await asyncio.gather(*at_work)


def by_name(cluster: FakeCluster) -> str:
    """The bootstrap servers with a host name, which must be resolved."""
    return cluster.bootstrap_servers.replace("127.0.0.1", "localhost")


@pytest.mark.usefixtures("full_executor")
@pytest.mark.parametrize("compression", ["gzip", "lz4"])
async def test_clients_work_while_the_default_executor_is_full(
    compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    for pool, name in ((codec_threads, "codec"), (lookup_threads, "lookup")):

        def spy(*args: object, pool: ThreadPool = pool, name: str = name) -> object:
            seen.append(name)
            return ThreadPool.run(pool, *args)  # type: ignore[arg-type]  # handed on

        monkeypatch.setattr(pool, "run", spy)
    values = [os.urandom(1000) for _ in range(900)]
    assert _batches_python.COMPRESS_FAST_ELSEWHERE_FROM < 900_000
    assert heavy_batches.HEAVY_BATCH < 900_000
    async with asyncio.timeout(30), FakeCluster(topics={"big": 1}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=by_name(cluster),
            compression_type=compression,
            max_batch_size=1_000_000,
            linger_ms=50,
        )
        async with producer:
            await asyncio.gather(*[await producer.send("big", value) for value in values])
        assert {"codec", "lookup"} <= set(seen)
        seen.clear()
        consumer = AIOKafkaConsumer(
            "big", bootstrap_servers=by_name(cluster), auto_offset_reset="earliest"
        )
        async with consumer:
            assert [(await consumer.getone()).value for _ in values] == values
            assert {"codec", "lookup"} <= set(seen)


@pytest.mark.usefixtures("full_executor")
async def test_clients_reconnect_while_the_default_executor_is_full() -> None:
    async with asyncio.timeout(30), FakeCluster(topics={"orders": 1}) as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=by_name(cluster),
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
        )
        async with (
            AIOKafkaProducer(bootstrap_servers=by_name(cluster), retry_backoff_ms=10) as producer,
            consumer,
        ):
            await producer.send_and_wait("orders", b"1")
            cluster.kill(0)
            await asyncio.sleep(0)
            await cluster.restart(0)
            await producer.send_and_wait("orders", b"2")
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]
