"""Passes records from other threads to the event loop, many at a time.

A thread appends its record to a queue, and wakes the loop only if no thread has done so since the
loop last checked; so a burst of a thousand records costs one wake-up. The loop takes the whole
queue at once.

Non-obvious:
- The queue is served strictly in order: while its first record waits for memory or a topic, one
  task waits for it, and all records behind it wait too.
- The queue is bounded. A thread waits for room in it, so that it cannot outrun the producer. The
  loop's own thread cannot wait for itself, so a call in it raises instead.
- The queue refers to the producer weakly, so that a dropped producer is collected at once.
- Every future gets an outcome, regardless of how the loop ends. A closed loop drops its callbacks,
  and the callbacks of this module (`_Alarm`) report that. So a thread does not wait forever for a
  loop that was closed without `stop`.
- An exception of the application's serializer, partitioner or interceptor fails its record, even
  a CancelledError. Only KeyboardInterrupt and SystemExit also propagate to the loop and end it.
"""

import asyncio
import contextlib
import copy
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakMethod

from aiokafka_lite.errors import (
    BufferExhaustedError,
    IllegalOperation,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosed,
)
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.structs import Acknowledged

__all__ = ["HandOver"]

MAX_QUEUED: Final = 10_000  # records

WATCH_FOR: Final = 86_400.0
"""Seconds after which the timer that reports the loop's closing is created again."""

Outcome = Future[Acknowledged]


class _Handed(NamedTuple):
    fields: tuple[Any, ...]  # the arguments of `append`
    outcome: Outcome


class HandOver:
    """The queue of one producer. Owns the task that waits for its first record, if there is one.

    Args:
        loop: The producer's event loop.
        append: Takes a record; called in the loop.
        wait: Waits for the memory or topic a record lacks; called in the loop.
        max_block: Seconds that a thread waits for room in the queue.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        append: Callable[..., Ack | Blocked],
        wait: Callable[[Blocked], Coroutine[Any, Any, Ack]],
        max_block: float,
    ) -> None:
        self._loop = loop
        self._append = append
        self._wait = WeakMethod(wait)
        self._max_block = max_block
        self._queue: deque[_Handed | asyncio.Future[None]] = deque()  # records; marks of `drain`
        self._room = threading.Condition()
        self._woken = False  # the loop was woken and has not checked yet
        self._refusal: KafkaError | None = None  # fails every record put from now on
        self._taken: dict[Outcome, Ack] = {}  # of the records in a batch
        self._first: _Handed | None = None  # taken out of the queue; the task waits for it
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._watch: asyncio.TimerHandle | None = None

    def put(self, fields: tuple[Any, ...]) -> Outcome:
        """Put a record into the queue; from any thread.

        Returns:
            A future, which fails with ProducerClosed once the queue is closed.

        Raises:
            KafkaTimeoutError: The queue had no room within `max_block`.
            BufferExhaustedError: The queue has no room, and this is the loop's own thread.
            ProducerClosed: The producer's loop is closed.
        """
        outcome: Outcome = Future()
        with self._room:
            if len(self._queue) >= MAX_QUEUED and self._refusal is None:
                self._wait_for_room()
            refusal = self._refusal
            if refusal is None and not self._loop.is_closed():
                self._queue.append(_Handed(fields, outcome))
                if self._woken or self._wake():
                    return outcome
        if refusal is None or self._loop.is_closed():
            self.end(_loop_closed())
            raise _loop_closed()
        _fail(outcome, refusal)
        return outcome

    def _wait_for_room(self) -> None:
        if _running_loop() is self._loop:
            raise BufferExhaustedError(
                f"{MAX_QUEUED} records of send_threadsafe() are queued, and the producer's own "
                "event loop cannot wait for room: use send() in it"
            )
        if not self._room.wait_for(
            lambda: len(self._queue) < MAX_QUEUED or self._refusal is not None, self._max_block
        ):
            raise KafkaTimeoutError(
                f"the queue of send_threadsafe() had no room for {self._max_block:g} s "
                f"(max_block_ms): {MAX_QUEUED} records wait for the producer's event loop"
            )

    def _wake(self) -> bool:
        """Wake the loop to check the queue; False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(_Alarm(self))
        except RuntimeError:
            return False
        self._woken = True
        return True

    # In the loop

    def on_alarm(self) -> None:
        """Append the queued records, until one has to wait."""
        with self._room:
            self._woken = False
        self.serve()

    def serve(self) -> None:
        """Append the queued records now, without a wake-up."""
        if self._task is not None:
            return  # the task continues from there
        while (first := self._next()) is not None:
            if not isinstance(first, _Handed):
                if not first.done():
                    first.set_result(None)
                continue
            blocked = self._try(first)
            if blocked is not None:
                self._first = first
                self._task = self._loop.create_task(
                    self._wait_for(first, blocked), name="aiokafka_lite: hand over"
                )
                self._task.add_done_callback(self._on_waited)
                break
        if self._watch is None and not self._ended and (self._taken or self._task):
            self._watch = self._loop.call_later(WATCH_FOR, _Alarm(self, watch=True))

    def end_transaction(self) -> None:
        """Append the queued records; fail those that have to wait, because their transaction ends.

        Otherwise records behind the one that waits would become part of the next transaction.
        """
        self.serve()
        if self._task is not None:
            self._fail_queue(
                IllegalOperation(
                    "Can't send: the transaction ended while this record waited for its topic, for "
                    "memory, or behind a record that did"
                )
            )

    async def drain(self) -> None:
        """Wait until all records queued now are in a batch or have failed.

        Cancellation: stops the wait.
        """
        self.serve()
        if self._task is not None:
            mark = self._loop.create_future()
            with self._room:
                self._queue.append(mark)
            await mark

    async def close(self, deadline: float) -> None:
        """Refuse new records, append the queued ones until the deadline, then fail the rest.

        Args:
            deadline: Loop time.

        Cancellation: leaves the rest to `end`.
        """
        stopped = ProducerClosed("the producer was stopped")
        with self._room:
            self._refusal = stopped
            self._room.notify_all()
        try:
            async with asyncio.timeout_at(deadline):
                await self.drain()
        except TimeoutError:
            self._fail_queue(stopped)

    def end(self, error: KafkaError) -> None:
        """Refuse new records and fail all that have no outcome. Idempotent.

        It may be called from any thread, also after the loop was closed.

        Args:
            error: Fails the records that were not sent; those in a batch may have been stored.
        """
        with self._room:
            self._ended = True
            if self._refusal is None:
                self._refusal = error
        self._fail_queue(error)
        taken = list(self._taken.items())
        self._taken.clear()
        for outcome, ack in taken:
            if ack.done():
                _settle(outcome, ack)
            else:
                unknown = ProducerClosed(f"{error}; the record may have been stored")
                unknown.ambiguous = True
                _fail(outcome, unknown)
        if self._watch is not None and not self._loop.is_closed():
            self._watch.cancel()
            self._watch = None

    def on_dropped(self) -> None:
        """The loop dropped a callback: it was called, it was cancelled, or the loop is closed."""
        if self._loop.is_closed():
            self.end(_loop_closed())

    def on_watched(self) -> None:
        """The timer fired after `WATCH_FOR` seconds; `serve` creates it again if needed."""
        self._watch = None
        self.serve()

    async def _wait_for(self, first: _Handed, blocked: Blocked) -> None:
        wait = self._wait()
        if wait is None:
            raise ProducerClosed("the producer was dropped")
        ack = await wait(blocked)
        self._first = None
        self._follow(ack, first.outcome)

    def _on_waited(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task is not self._task:
            return  # `_fail_queue` has failed its record
        first, self._first, self._task = self._first, None, None
        if first is None:
            self.serve()
        elif task.cancelled() and task.cancelling():
            # The application cancels all tasks of the loop, most likely to end it, so the queue may
            # never be served again. (Without `cancelling`, the partitioner raised the error.)
            cancelled = ProducerClosed(
                "the record was not sent: the task that waited for its topic, or for memory, was"
                " cancelled with the tasks of its event loop"
            )
            _fail(first.outcome, cancelled)
            self._fail_queue(cancelled)
        else:
            _fail(first.outcome, error or asyncio.CancelledError())
            self.serve()

    def _fail_queue(self, error: KafkaError | IllegalOperation) -> None:
        """Fail all queued records, and the first one, which waits outside of the queue."""
        with self._room:
            failed = list(self._queue)
            self._queue.clear()
            first, task, self._first, self._task = self._first, self._task, None, None
            self._room.notify_all()
        if first is not None:
            _fail(first.outcome, error)
        for each in failed:
            if isinstance(each, _Handed):
                if each.outcome.set_running_or_notify_cancel():
                    _fail(each.outcome, error)
            elif not each.done() and not self._loop.is_closed():
                each.set_result(None)
        if task is not None and not self._loop.is_closed():
            task.cancel()

    def _next(self) -> "_Handed | asyncio.Future[None] | None":
        """Return the first queued record whose future was not cancelled, or None."""
        with self._room:
            while self._queue:
                first = self._queue.popleft()
                if len(self._queue) == MAX_QUEUED - 1:
                    self._room.notify_all()
                if not isinstance(first, _Handed) or first.outcome.set_running_or_notify_cancel():
                    return first
        return None

    def _try(self, handed: _Handed) -> Blocked | None:
        try:
            result = self._append(*handed.fields)
        except BaseException as error:
            self._on_raised(handed, error)
            return None
        if not isinstance(result, Ack):
            return result
        self._follow(result, handed.outcome)
        return None

    def _on_raised(self, handed: _Handed, error: BaseException) -> None:
        """Fail a record's future with the error that appending it raised."""
        _fail(handed.outcome, error)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            self._loop.call_soon(self.serve)  # the records behind it, if the loop keeps running
            raise error

    def _follow(self, ack: Ack, outcome: Outcome) -> None:
        if ack.done():
            _settle(outcome, ack)
            return
        self._taken[outcome] = ack
        # The callback refers only to the dict: a queue that has ended is part of no cycle.
        ack.add_done_callback(partial(_on_done, self._taken, outcome))


class _Alarm:
    """A callback of the loop that reports when the loop drops it.

    Args:
        queue: The queue to serve.
        watch: True if its only purpose is to be dropped.
    """

    __slots__ = ("_queue", "_watch")

    def __init__(self, queue: HandOver, watch: bool = False) -> None:
        self._queue = queue
        self._watch = watch

    def __call__(self) -> None:
        if self._watch:
            self._queue.on_watched()
        else:
            self._queue.on_alarm()

    def __del__(self) -> None:
        self._queue.on_dropped()


def _on_done(taken: dict[Outcome, Ack], outcome: Outcome, ack: Ack) -> None:
    if taken.pop(outcome, None) is not None:
        _settle(outcome, ack)


def _settle(outcome: Outcome, ack: Ack) -> None:
    error = ack.exception()
    if error is not None:
        _fail(outcome, error)
    else:
        with contextlib.suppress(InvalidStateError):  # `end` came first, in another thread
            outcome.set_result(ack.result())


def _fail(outcome: Outcome, error: BaseException) -> None:
    if isinstance(error, StopIteration):  # no future of asyncio takes one
        stopped = RuntimeError("a serializer, partitioner or interceptor raised StopIteration")
        stopped.__cause__ = error
        error = stopped
    with contextlib.suppress(InvalidStateError):  # as above
        # One error may fail many records. Each gets a copy, or the tracebacks would accumulate.
        ours = isinstance(error, KafkaError | IllegalOperation)
        outcome.set_exception(copy.copy(error) if ours else error)


def _loop_closed() -> ProducerClosed:
    return ProducerClosed("the producer's event loop is closed")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
