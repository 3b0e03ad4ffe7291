"""The loop of a process, and the clients that it lends."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading

import pytest

from aiokafka_lite.errors import IllegalStateError, KafkaTimeoutError
from aiokafka_lite.spark import runtime


class Thing:
    """A client that records its calls."""

    def __init__(self, fails=False):
        self.fails = fails
        self.started = self.stopped = 0

    async def start(self):
        self.started += 1
        if self.fails:
            raise OSError("no such luck")

    async def stop(self):
        self.stopped += 1


async def borrow(arguments, error=None, fails=False):
    async with runtime.lease("thing", arguments, lambda: Thing(fails)) as thing:
        assert (thing.started, thing.stopped) == (1, 0)
        if error is not None:
            raise error
        return thing


@pytest.fixture(autouse=True)
def closed():
    yield
    runtime.close_idle()


def test_a_coroutine_runs_in_the_thread_of_the_loop():
    async def where():
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert runtime.call(where()) == "aiokafka_lite.spark"
    assert runtime.call(where(), 10) == "aiokafka_lite.spark"


def test_exceptions_of_the_coroutine_are_raised():
    async def fail(error):
        raise error

    with pytest.raises(ZeroDivisionError):
        runtime.call(fail(ZeroDivisionError()))
    with pytest.raises(TimeoutError) as info:
        runtime.call(fail(TimeoutError("its own")), 10)
    assert not isinstance(info.value, KafkaTimeoutError)


def test_a_timeout_cancels_the_coroutine():
    ended = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(KafkaTimeoutError, match=r"0\.05 s"):
        runtime.call(wait(), 0.05)
    assert ended.wait(10)


def test_calling_from_the_loop_is_an_error():
    async def nothing():
        raise AssertionError("it must not run")

    async def ask():
        runtime.call(nothing())

    with pytest.raises(IllegalStateError, match="would deadlock"):
        runtime.call(ask())


def test_equal_arguments_reuse_a_client():
    first = runtime.call(borrow({"a": 1, "b": ["x"]}))
    assert runtime.call(borrow({"b": ["x"], "a": 1})) is first
    assert runtime.call(borrow({"a": 2, "b": ["x"]})) is not first
    assert first.stopped == 0


def test_concurrent_leases_have_separate_clients():
    async def two():
        async with (
            runtime.lease("thing", {}, Thing) as one,
            runtime.lease("thing", {}, Thing) as two,
        ):
            return one, two

    one, two = runtime.call(two())
    assert one is not two
    assert runtime.call(borrow({})) in (one, two)


def test_a_client_is_not_lent_again_after_an_error():
    arguments = {"error": 1}

    async def failing():
        async with runtime.lease("thing", arguments, Thing) as thing:
            things.append(thing)
            raise ZeroDivisionError

    things = []
    with pytest.raises(ZeroDivisionError):
        runtime.call(failing())
    assert runtime.call(borrow(arguments)) is not things[0]
    runtime.close_idle()
    assert things[0].stopped == 1


def test_a_client_that_does_not_start_is_closed():
    things = []

    def make():
        things.append(Thing(fails=True))
        return things[-1]

    async def start():
        async with runtime.lease("thing", {"fails": 1}, make):
            raise AssertionError("it must not get here")

    with pytest.raises(OSError, match="luck"):
        runtime.call(start())
    runtime.close_idle()
    assert things[0].stopped == 1


def test_idle_clients_are_closed_after_their_timeout(monkeypatch):
    monkeypatch.setattr(runtime, "IDLE_SECONDS", 0.01)

    async def stopped(thing):
        async with asyncio.timeout(10):
            while not thing.stopped:
                await asyncio.sleep(0.001)

    thing = runtime.call(borrow({"idle": 1}))
    runtime.call(stopped(thing))
    assert runtime.call(borrow({"idle": 1})) is not thing


def test_the_number_of_idle_clients_is_bounded():
    things = [runtime.call(borrow({"number": i})) for i in range(runtime.MOST_IDLE + 3)]
    runtime.call(asyncio.sleep(0))
    assert [thing.stopped for thing in things] == [1] * 3 + [0] * runtime.MOST_IDLE


def test_clients_are_lent_on_the_loop_only():
    async def elsewhere():
        async with runtime.lease("thing", {}, Thing):
            raise AssertionError("it must not get here")

    with pytest.raises(IllegalStateError, match="runtime's event loop"):
        asyncio.run(elsewhere())


def test_the_key_of_a_client():
    key = runtime.client_key
    assert key({"a": [1, {"x": 2}], "b": None}) == key({"b": None, "a": [1, {"x": 2}]})
    assert key({"a": 1}) != key({"a": 2})
    assert key({"a": object()}) != key({"a": object()})


def child(queue):
    queue.put((os.getpid(), runtime.call(pid_of_loop())))


async def pid_of_loop():
    return os.getpid()


# From Python 3.12 on, a fork with threads warns of problems that this test checks for.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_its_own_loop():
    assert runtime.call(pid_of_loop()) == os.getpid()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    pid, of_loop = queue.get()
    process.join(30)
    assert (pid, of_loop, process.exitcode) == (process.pid, process.pid, 0)
    assert runtime.call(pid_of_loop()) == os.getpid()  # the parent's loop is unchanged


def test_the_exit_of_the_process_closes_the_clients():
    program = """
from aiokafka_lite.spark import runtime

class Thing:
    async def start(self): pass
    async def stop(self): print("stopped", flush=True)

async def borrow():
    async with runtime.lease("thing", {}, Thing): pass

runtime.call(borrow())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)


def test_the_collector_is_left_alone_outside_of_spark():
    import gc

    before = gc.get_freeze_count()
    runtime.prepare_worker()
    assert gc.get_freeze_count() == before
