"""One event loop a process, in a thread of its own, and the clients that live on it.

Spark calls a Python data source in threads that know nothing of asyncio: `call` runs a coroutine
of ours on the loop and waits for it. Spark uses its Python workers again, so the clients stay, with
their connections and metadata, from task to task: `lease` lends one that was made with the same
arguments, or makes one.

Non-obvious:

- Nothing is made at import, and nothing survives a fork: a child that finds itself with its
  parent's loop leaves that alone (its selector and its sockets are the parent's, too) and makes
  its own at the first call.
- A client that is lent belongs to one borrower. It goes back when the borrower's block is left in
  order; after an exception it is closed, since nobody can tell in which state it was left.
- Idle clients are closed after `IDLE_SECONDS`, all of them at the exit of the process. A worker
  that Spark kills closes nothing: its sockets do that.
- Spark's worker loop has the collector walk all objects after every task. `prepare_worker` takes
  those that stay, modules and classes for the most part, out of its sight: 40 ms of CPU a task.
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
"""For which an unused client is kept: micro-batches come more often, and a query that triggers less
often does not miss the milliseconds that connecting takes."""

MOST_IDLE: Final = 8
"""Clients kept unused; the one used longest ago goes first."""

CLOSE_WITHIN: Final = 3.0
"""Seconds that the exit of the process waits for clients to say good-bye."""

_T = TypeVar("_T")


class Client(Protocol):
    """What can be lent: a consumer or a producer."""

    async def start(self) -> Any:
        """Connect."""

    async def stop(self) -> Any:
        """Close."""


_C = TypeVar("_C", bound=Client)


@dataclass
class _Idle:
    """Clients made with the same arguments that nobody uses, the one used last at the end."""

    clients: list[tuple[Client, asyncio.TimerHandle]] = field(default_factory=list)


class _Runtime:
    """The loop of this process, its thread, and the clients on it.

    All but `submit` and `close` runs in the thread of the loop.
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
            raise IllegalStateError("the event loop's own thread would wait for itself for ever")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    # --- clients

    def take(self, key: Hashable) -> Client | None:
        """The client with this key that was used last, if one is idle."""
        idle = self._idle.get(key)
        if idle is None:
            return None
        client, timer = idle.clients.pop()
        timer.cancel()
        if not idle.clients:
            del self._idle[key]
        return client

    def give_back(self, key: Hashable, client: Client) -> None:
        """Keep a client for the next one who wants such a one."""
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

    # --- the end

    def close(self) -> None:
        """Close the clients, for `CLOSE_WITHIN` at most, and end the thread. From another one."""
        if self._thread.is_alive():
            with contextlib.suppress(TimeoutError):  # brokers that do not answer: so be it
                self.submit(self.close_idle()).result(CLOSE_WITHIN)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSE_WITHIN)
        if not self._thread.is_alive():
            self.loop.close()

    async def close_idle(self) -> None:
        """Close the clients that nobody uses now."""
        for key in list(self._idle):
            while (client := self.take(key)) is not None:
                self.discard(client)
        if self._closings:
            await asyncio.wait(self._closings)


async def _stop(client: Client) -> None:
    try:
        await client.stop()
    except Exception as error:
        log.warning("A client did not close in order: %r", error)


_current: _Runtime | None = None
_making = threading.Lock()
_frozen_in: int | None = None  # the process that did
_left_to_parent: list[_Runtime] = []
"""Runtimes of the process that this one was forked from. They are kept, or the finalizers of
their loops and clients would close what belongs to the parent."""


def _runtime() -> _Runtime:
    global _current
    with _making:
        if _current is None:
            _current = _Runtime()
        return _current


def _after_fork() -> None:
    global _current, _making
    _making = threading.Lock()  # the parent may have been in there
    if _current is not None:
        _left_to_parent.append(_current)
        _current = None


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
        IllegalStateError: Called on that loop, which would wait for itself.
    """
    return _runtime().submit(coroutine)


def call(coroutine: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
    """Run a coroutine on the loop of this process and wait for what it returns.

    Args:
        coroutine: Closed unrun where it cannot be started.
        timeout: Seconds to wait at most; None for as long as it takes.

    Raises:
        KafkaTimeoutError: It was not done in time, and is cancelled.
        Exception: What the coroutine raises.
        IllegalStateError: Called on that loop.

    Cancellation: an interrupt of this thread (KeyboardInterrupt) cancels the coroutine.
    """
    future = submit(coroutine)
    try:
        return future.result(timeout)
    except TimeoutError as error:
        if future.done():
            raise  # its own
        future.cancel()
        raise KafkaTimeoutError(f"not done within {timeout} s") from error
    except BaseException:
        future.cancel()
        raise


def close_idle() -> None:
    """Close the clients of this process that nobody uses now, and wait for that."""
    if _current is not None:
        call(_current.close_idle())


@contextlib.asynccontextmanager
async def lease(
    kind: str, arguments: Mapping[str, object], make: Callable[[], _C]
) -> AsyncIterator[_C]:
    """Borrow a started client, for the block; on the loop of this process only.

    Args:
        kind: What `make` makes: clients of one kind and the same arguments replace one another.
        arguments: Those that `make` uses.
        make: Makes one, not started, where none is idle.

    Raises:
        KafkaError: A new one does not start.

    Cancellation: the client is closed.
    """
    runtime = _runtime()
    if asyncio.get_running_loop() is not runtime.loop:
        raise IllegalStateError("clients are lent on the loop of the runtime only")
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
    """What two mappings of arguments have in common if they make the same client.

    Values that cannot be hashed are told apart by their text, others by equality: a TLS context
    is the same only if it is one object.
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
    """Called at the beginning of each task: what is loaded by then stays for the life of the
    process, so the collector need not look at it ever again. Once a process, and only in Spark's
    own workers; cheap after that. A worker that runs the pure-Python modules logs it."""
    global _frozen_in
    pyspark = sys.modules.get("pyspark.taskcontext")
    if _frozen_in != os.getpid() and pyspark is not None and pyspark.TaskContext.get() is not None:
        _frozen_in = os.getpid()
        warn_of_pure_build("A Python worker of a Spark task")
        gc.collect()
        gc.freeze()
