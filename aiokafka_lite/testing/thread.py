"""An event loop in a thread of its own, for callers that have none (sync tests, blocking clients).

Invariants: the loop is closed by the thread that ran it; ``stop`` joins that thread.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """Starts the thread at once; it ends with ``stop``, or with the process."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread's loop and wait for what it returns or raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread's loop and wait for what it returns or raises."""
        if threading.current_thread() is self._thread:
            return function()
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # handed to the caller, whatever it is
                future.set_exception(error)

        self.loop.call_soon_threadsafe(call)
        return future.result()

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
