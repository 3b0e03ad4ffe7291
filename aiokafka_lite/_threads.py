"""Threads for work that would block the event loop: compression, decompression, name lookups.

Asyncio's default executor belongs to the application, which may fill it, for example with workers
that wait for the very records that need decompression. So this package does not use it. All
clients of a process share these threads.

Non-obvious:
- The threads are daemons and are never joined: a lookup that hangs for half a minute delays
  neither the end of `asyncio.run` nor the exit of the interpreter.
- There is nothing to close. A thread is started when a job finds no idle one, and ends after
  `IDLE_SECONDS` without a job.
- A forked child has none of its parent's threads, but may have a lock that one of them held. So a
  pool is reset in the child.
- Compression and lookups have separate pools, so that lookups that hang do not delay records.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

IDLE_SECONDS: Final = 10.0
"""Seconds after which a thread without a job ends."""

_T = TypeVar("_T")


class NoThreadError(RuntimeError):
    """The system cannot start a thread, and no running thread could do the job later."""


class _Job(Generic[_T]):
    """One call, and the event loop's future that receives its outcome."""

    __slots__ = ("_call", "_future", "_loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[_T]", call: Callable[[], _T]
    ) -> None:
        self._loop = loop
        self._future = future
        self._call = call

    def run(self) -> None:
        """Make the call and set the future's outcome; skip a cancelled job."""
        future, loop = self._future, self._loop
        if future.cancelled():
            return
        try:
            result = self._call()
        except BaseException as error:
            _hand_over(loop, future, future.set_exception, error)
            # Its traceback refers to this frame, so this frame must not refer to the exception.
            del future, self
        else:
            _hand_over(loop, future, future.set_result, result)


def _hand_over(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    settle: Callable[[Any], None],
    outcome: object,
) -> None:
    try:
        loop.call_soon_threadsafe(_settle, future, settle, outcome)
    except RuntimeError:
        # The loop was closed meanwhile, so no caller is waiting.
        if not loop.is_closed():
            raise


def _settle(future: "asyncio.Future[Any]", settle: Callable[[Any], None], outcome: object) -> None:
    if not future.done():
        settle(outcome)


class ThreadPool:
    """A bounded pool of threads, started on demand.

    Args:
        name: Prefix of the threads' names, as debuggers show them.
        most: Maximum number of threads.
        idle_seconds: Seconds after which a thread without a job ends.
    """

    def __init__(self, name: str, most: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self._name = name
        self._most = most
        self._idle_seconds = idle_seconds
        self._begin()
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._jobs: deque[_Job[Any]] = deque()
        self._running = 0
        self._idle = 0
        self._started = 0

    @property
    def running(self) -> int:
        """Number of threads."""
        return self._running

    def run(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., _T], *args: Any
    ) -> "asyncio.Future[_T]":
        """Call a function in a thread.

        Args:
            loop: The caller's event loop, which is running.
            function: The function, called with `args`.

        Returns:
            A future of the loop. It raises the function's exception, or NoThreadError if no thread
            can be started.

        Cancellation: of the future: a call that has started continues, and its outcome is dropped.
        """
        future: asyncio.Future[_T] = loop.create_future()
        job = _Job(loop, future, lambda: function(*args))
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._running < self._most:
                try:
                    self._start()
                except RuntimeError as error:
                    if not self._running:
                        self._jobs.remove(job)
                        future.set_exception(NoThreadError(str(error)))
        return future

    def _start(self) -> None:
        name = f"{self._name}-{self._started}"
        threading.Thread(target=self._work, args=(self._changed,), name=name, daemon=True).start()
        self._started += 1
        self._running += 1

    def _work(self, changed: threading.Condition) -> None:
        while True:
            with changed:
                while not self._jobs:
                    self._idle += 1
                    woken = changed.wait(self._idle_seconds)
                    self._idle -= 1
                    if not woken and not self._jobs:
                        self._running -= 1
                        return
                job = self._jobs.popleft()
            job.run()
            del job  # otherwise, an idle thread would keep the last result


codec_threads: Final = ThreadPool("aiokafka_lite-codec", max(2, min(os.cpu_count() or 1, 8)))
"""For compression and decompression, which release the GIL: one per processor, but two to eight."""

lookup_threads: Final = ThreadPool("aiokafka_lite-lookup", 16)
"""For jobs that wait for the network: host names, tokens over HTTP. Some of them may hang."""
