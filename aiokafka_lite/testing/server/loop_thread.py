"""Calls into an event loop from another thread, and an event loop in its own thread.

A caller without an event loop (a sync test, a blocking client), or with another framework's loop
(trio's), runs the cluster in a `LoopThread` and blocks while it waits for each call.

Invariants: the thread that ran the loop closes it; `stop` joins that thread.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Final, TypeVar

__all__ = ["DONE", "LoopThread", "call_in", "run_in"]

T = TypeVar("T")

LOOK_AGAIN: Final = 0.1  # seconds


class _Done(Awaitable[None]):
    """An already completed operation; awaiting it is optional, in any async framework."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


DONE: Final = _Done()


def run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of another thread and wait for what it returns or raises.

    Raises:
        RuntimeError: The loop is closed, or was before it came to that.
    """
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise
    return _result(future, loop)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Call a function in a loop of another thread and wait for what it returns or raises.

    Raises:
        RuntimeError: The loop is closed, or was before it came to that.
    """
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # handed to the caller, whatever it is
            future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return _result(future, loop)


def _result(future: Future[T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait for the result, but not for a closed loop, which drops calls that have not begun."""
    while not futures.wait([future], LOOK_AGAIN).done:
        if loop.is_closed():
            raise RuntimeError("the cluster was stopped during the call")
    return future.result()


class LoopThread:
    """Starts the thread at once; it ends with `stop`, or with the process."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread's loop and wait for what it returns or raises."""
        return run_in(self.loop, coroutine)

    def stop(self) -> None:
        """End the loop and wait for its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
