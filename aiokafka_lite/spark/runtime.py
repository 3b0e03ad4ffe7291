"""One event loop per process, in its own thread, and the clients in it.

Spark calls a Python data source in threads without asyncio: `call` runs a coroutine in the loop
and waits for it. Spark reuses its Python workers, so clients stay from task to task, with their
connections and metadata: `lease` lends an idle client with the same arguments, or creates one.

Non-obvious:

- Importing creates nothing, and nothing survives a fork: a child process ignores its parent's loop
  (it shares the selector and the sockets) and creates its own at the first call.
- A lent client belongs to one borrower. It returns to the pool when the borrower's block ends
  normally; after an exception it is closed, because its state is unknown.
- Idle clients are closed after `IDLE_SECONDS`, and all of them at process exit. If Spark kills a
  worker, only the operating system closes its sockets.
- Spark's worker loop runs a full garbage collection after every task. `prepare_worker` freezes the
  permanent objects, mostly modules and classes, which saves 40 ms of CPU per task.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast

from aiokafka_lite.errors import IllegalStateError, KafkaTimeoutError
from aiokafka_lite.spark.notices import warn_of_pure_build

__all__ = ["call", "client_key", "close_idle", "lease", "prepare_worker", "submit"]

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 60.0
"""Seconds to keep an unused client: micro-batches are usually more frequent, and for rarer ones
the milliseconds to connect do not matter."""

MOST_IDLE: Final = 8
"""Maximum number of idle clients; the least recently used one is closed first."""

CLOSE_WITHIN: Final = 3.0
"""Seconds that process exit waits for clients to close."""

_T = TypeVar("_T")


class Client(Protocol):
    """A client that can be lent: a consumer or a producer."""

    async def start(self) -> Any:
        """Connect."""

    async def stop(self) -> Any:
        """Close."""


_C = TypeVar("_C", bound=Client)


@dataclass
class _Idle:
    """Idle clients with the same arguments, the most recently used one last."""

    clients: list[tuple[Client, asyncio.TimerHandle]] = field(default_factory=list)


class _Runtime:
    """The loop of this process, its thread and its clients.

    All methods but `submit` and `close` run in the loop's thread.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._idle: OrderedDict[Hashable, _Idle] = OrderedDict()
        self._closings: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="aiokafka_lite.spark", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise IllegalStateError("call() would deadlock: it was called in the loop's own thread")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    # --- clients

    def take(self, key: Hashable) -> Client | None:
        """Return the most recently used idle client with this key, if any."""
        idle = self._idle.get(key)
        if idle is None:
            return None
        client, timer = idle.clients.pop()
        timer.cancel()
        if not idle.clients:
            del self._idle[key]
        return client

    def give_back(self, key: Hashable, client: Client) -> None:
        """Keep a client for the next borrower with the same key."""
        timer = self.loop.call_later(IDLE_SECONDS, self._on_idle_for_long, key, client)
        self._idle.setdefault(key, _Idle()).clients.append((client, timer))
        self._idle.move_to_end(key)
        if sum(len(each.clients) for each in self._idle.values()) > MOST_IDLE:
            oldest = next(iter(self._idle))
            self._on_idle_for_long(oldest, self._idle[oldest].clients[0][0])

    def _on_idle_for_long(self, key: Hashable, client: Client) -> None:
        idle = self._idle[key]
        for at, (each, timer) in enumerate(idle.clients):
            if each is client:
                timer.cancel()
                del idle.clients[at]
                break
        if not idle.clients:
            del self._idle[key]
        self.discard(client)

    def discard(self, client: Client) -> None:
        """Close a client in the background."""
        task = self.loop.create_task(_stop(client))
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)

    # --- closing

    def close(self) -> None:
        """Close the clients within `CLOSE_WITHIN` and end the thread. Call from another thread."""
        if self._thread.is_alive():
            with contextlib.suppress(TimeoutError):  # do not wait longer for brokers
                self.submit(self.close_idle()).result(CLOSE_WITHIN)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSE_WITHIN)
        if not self._thread.is_alive():
            self.loop.close()

    async def close_idle(self) -> None:
        """Close the idle clients."""
        for key in list(self._idle):
            while (client := self.take(key)) is not None:
                self.discard(client)
        if self._closings:
            await asyncio.wait(self._closings)


async def _stop(client: Client) -> None:
    try:
        await client.stop()
    except Exception as error:
        log.warning("Closing an idle client failed: %r", error)


_current: _Runtime | None = None
_making = threading.Lock()
_frozen_in: int | None = None  # pid of the process that called gc.freeze()
_left_to_parent: list[_Runtime] = []
"""Runtimes of the parent process. They are kept, because the finalizers of their loops and clients
would close the parent's sockets."""


def _runtime() -> _Runtime:
    global _current
    with _making:
        if _current is None:
            _current = _Runtime()
        return _current


def _after_fork() -> None:
    global _current, _making
    _making = threading.Lock()  # the parent may have held the lock
    if _current is not None:
        _left_to_parent.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    global _current
    runtime, _current = _current, None
    if runtime is not None and runtime.pid == os.getpid():
        runtime.close()


def submit(coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
    """Start a coroutine on the loop of this process; cancelling the future cancels it.

    Raises:
        IllegalStateError: Called in that loop, which would wait for itself.
    """
    return _runtime().submit(coroutine)


def call(coroutine: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
    """Run a coroutine in the loop of this process and return its result.

    Args:
        coroutine: Closed without running if it cannot be started.
        timeout: Maximum wait in seconds; None for no limit.

    Raises:
        KafkaTimeoutError: The coroutine timed out and is cancelled.
        Exception: Any exception of the coroutine.
        IllegalStateError: Called in that loop.

    Cancellation: an interrupt of this thread (KeyboardInterrupt) cancels the coroutine.
    """
    future = submit(coroutine)
    try:
        return future.result(timeout)
    except TimeoutError as error:
        if future.done():
            raise  # its own
        future.cancel()
        raise KafkaTimeoutError(f"The call timed out after {timeout} s") from error
    except BaseException:
        future.cancel()
        raise


def close_idle() -> None:
    """Close the idle clients of this process and wait until they are closed."""
    if _current is not None:
        call(_current.close_idle())


@contextlib.asynccontextmanager
async def lease(
    kind: str, arguments: Mapping[str, object], make: Callable[[], _C]
) -> AsyncIterator[_C]:
    """Borrow a started client for the block; only in the loop of this process.

    Args:
        kind: The kind of client: clients of one kind with the same arguments are equivalent.
        arguments: The arguments that `make` uses.
        make: Creates an unstarted client if none is idle.

    Raises:
        KafkaError: A new client does not start.

    Cancellation: the client is closed.
    """
    runtime = _runtime()
    if asyncio.get_running_loop() is not runtime.loop:
        raise IllegalStateError("lease() must be called in the runtime's event loop")
    key = (kind, client_key(arguments))
    client = cast("_C | None", runtime.take(key))
    if client is None:
        client = make()
        try:
            await client.start()
        except BaseException:
            runtime.discard(client)
            raise
    try:
        yield client
    except BaseException:
        runtime.discard(client)
        raise
    runtime.give_back(key, client)


def client_key(arguments: Mapping[str, object]) -> Hashable:
    """Return a key that is equal for arguments of equivalent clients.

    Unhashable values are compared by their text, others by equality: a TLS context equals only
    itself.
    """
    return frozenset((name, _hashable(value)) for name, value in arguments.items())


def _hashable(value: object) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_hashable(each) for each in value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def prepare_worker() -> None:
    """Freeze the loaded objects at the start of a task, once per process and only in Spark's
    workers: they live as long as the process, so the garbage collector can skip them. Also logs
    that a worker runs the pure-Python modules."""
    global _frozen_in
    pyspark = sys.modules.get("pyspark.taskcontext")
    if _frozen_in != os.getpid() and pyspark is not None and pyspark.TaskContext.get() is not None:
        _frozen_in = os.getpid()
        warn_of_pure_build("A Python worker of a Spark task")
        gc.collect()
        gc.freeze()
