"""Batches with one shared outcome, and the acks of their records: the readable specification.

A `ProducerBatch` is a batch from its first record to its outcome. An `Ack` stands for one of its
records: (batch, index, timestamp). asyncio accepts an Ack as a future, without a task around it,
but it is far lighter: a record whose ack is not awaited stores nothing but the Ack itself, and
resolving a batch touches only the acks that are awaited.

Non-obvious:
- `await ack` gives the task its own `Wait`, not the Ack. Cancelling the task cancels that Wait:
  it affects no other waiter of the record, and never the delivery. `ack.cancel()` works as for a
  future: it cancels this Ack for all its waiters; the record is still delivered.
- A resolved batch wakes all its waiters from one loop callback, each in its own context, in the
  order in which they began to wait. Callbacks never run inside the call that resolves the batch.
- A resolved batch drops its builder, and with it the pool's buffer: an Ack that an application
  keeps holds a few words, not the buffer.
- The garbage collector does not track the native Ack and Wait. That is safe because every batch is
  eventually resolved (acked, failed, timed out, or failed by closing), which breaks all cycles.
  Therefore a waiter that was cancelled stays in the batch's list, without a callback, until then.
- The records' outcome is stored as plain fields; a RecordMetadata is created on demand.
- A batch that is too large for the broker is sent in pieces, one after the other, and is resolved
  with the last of them. Each of its Acks finds its piece's outcome by its index. A batch that the
  broker rejects because of some of its records is resolved as if each of them were a piece.
"""

import asyncio
import contextvars
import copy
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka_lite.structs import Acknowledged, RecordMetadata, TopicPartition

__all__ = ["Ack", "ProducerBatch", "Wait"]

if TYPE_CHECKING:
    # asyncio accepts an Ack as a future, except in `isinstance` checks. So an application may
    # pass it to `asyncio.wait` and annotate it as a Future.
    _Future = asyncio.Future[Acknowledged]
else:
    _Future = object

PENDING: Final = 0  # not acknowledged yet: open, waiting, or in flight
ACKED: Final = 1  # stored; the broker returned the offset
UNCONFIRMED: Final = 2  # written to the socket with acks=0; the outcome stays unknown
FAILED: Final = 3  # `error` says whether it may have been stored
IN_PIECES: Final = 4  # each of `pieces` has its own outcome


class Piece(NamedTuple):
    """The outcome of one piece of a batch, or of some of its records."""

    end: int
    """Index in the batch of the first record after the piece."""
    base_offset: int
    log_append_time: int
    log_start_offset: int
    error: BaseException | None


class ProducerBatch:
    """The records that are sent to one partition together, and their shared outcome.

    The first block of attributes is the state of the delivery, owned by the accumulator and the
    sender. The outcome below is written once, by `acknowledge`, `confirm_sent` or `fail`.
    """

    __slots__ = (
        "_waiters",
        "_watchers",
        "attempts",
        "base_offset",
        "base_sequence",
        "buffer",
        "builder",
        "compressing",
        "created",
        "due",
        "error",
        "last_error",
        "log_append_time",
        "log_start_offset",
        "loop",
        "may_be_stored",
        "payload",
        "pieces",
        "producer",
        "rest",
        "size",
        "state",
        "topic_partition",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topic_partition: TopicPartition,
        builder: Any,
        buffer: bytearray | None,
        created: float,
    ) -> None:
        self.loop = loop
        self.topic_partition = topic_partition
        self.builder: Any = builder  # BatchBuilder, until the batch is resolved
        self.rest: list[Any] = []  # builders of the pieces to send after it
        self.pieces: list[Piece] | None = None  # None: the batch was not split
        self.buffer = buffer  # the pool's, to be given back when the batch is resolved
        self.created = created  # loop time; delivery_timeout_ms and linger_ms count from here
        self.due = False  # lingered long enough, or must not linger: sent even if not full
        self.size = 0  # bytes on the wire, known when sealed
        self.payload: Any = None  # the sealed bytes, while they may have to be sent (again)
        self.compressing = False  # True while another thread compresses it
        self.attempts = 0  # number of times it was sent
        self.may_be_stored = False  # an attempt ended without a clear answer
        self.last_error: BaseException | None = None  # of the last attempt that failed
        self.producer: Any = None  # (id, epoch) of its sequence, None without idempotence
        self.base_sequence = -1
        self.state = PENDING
        self.base_offset = -1
        self.log_append_time = -1  # ms; -1: the topic keeps the records' own timestamps
        self.log_start_offset = -1
        self.error: BaseException | None = None
        self._waiters: list[Wait] | None = None
        self._watchers: list[Callable[[ProducerBatch], object]] | None = None

    def append(self, timestamp: int, key: Any, value: Any, headers: Any) -> "Ack | None":
        """Add a record; return its Ack, or None if the batch has no room for it."""
        index = self.builder.append(timestamp, key, value, headers)
        if index < 0:
            return None
        return Ack(self, index, timestamp)

    def ack(self, index: int, timestamp: int) -> "Ack":
        """Return the Ack of a record that is already in the batch."""
        return Ack(self, index, timestamp)

    @property
    def count(self) -> int:
        """The number of records in the batch; valid only before its outcome."""
        return int(self.builder.count)

    @property
    def remaining(self) -> int:
        """The number of records in the batch and in the pieces after it."""
        return self.count + sum(int(builder.count) for builder in self.rest)

    @property
    def done(self) -> bool:
        return self.state != PENDING

    @property
    def awaited(self) -> bool:
        """True if one of the batch's records is awaited or has a callback.

        A callback whose attribute `looks_on` is true does not count: it observes a record that
        may have no waiter.
        """
        return any(
            wait.callback is not None and not getattr(wait.callback, "looks_on", False)
            for wait in self._waiters or ()
        )

    def watch(self, watcher: "Callable[[ProducerBatch], object]") -> None:
        """Call `watcher` inside the call that resolves the batch (for the producer itself)."""
        if self._watchers is None:
            self._watchers = []
        self._watchers.append(watcher)

    def acknowledge(
        self,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        woken: "list[ProducerBatch] | None" = None,
    ) -> None:
        """The broker has stored the batch from `base_offset` on (-1: the offset is unknown).

        Args:
            woken: The batch is appended to it if it has waiters, and the caller must wake them.
                None: the loop wakes them.
        """
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self._resolve(ACKED, woken)

    def confirm_sent(self) -> None:
        """The batch was written to the socket, which completes it with acks=0."""
        self._resolve(UNCONFIRMED)

    def fail(self, error: BaseException) -> None:
        """Fail the batch, or the rest of its pieces; no part of it is sent again."""
        if self.pieces is not None:
            self.pieces.append(Piece(self._settled + self.remaining, -1, -1, -1, error))
            self._resolve(IN_PIECES)
            return
        self.error = error
        self._resolve(FAILED)

    def fail_in_runs(self, runs: Iterable[tuple[int, BaseException]], rest: BaseException) -> None:
        """Fail the current piece, or the batch if it was not split, in runs of records.

        Args:
            runs: The number of records of each run, and their error; all records, in order.
            rest: The error of the pieces after the current one.
        """
        end, unsent = self._settled, self.remaining - self.count
        if self.pieces is None:
            self.pieces = []
        for count, error in runs:
            end += count
            self.pieces.append(Piece(end, -1, -1, -1, error))
        if unsent:
            self.pieces.append(Piece(end + unsent, -1, -1, -1, rest))
        self._resolve(IN_PIECES)

    def split(self, builders: list[Any]) -> None:
        """Replace the current piece and the rest by these pieces."""
        self.builder, *self.rest = builders
        self.payload = None
        if self.pieces is None:
            self.pieces = []

    def settle_piece(
        self,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        error: BaseException | None = None,
    ) -> bool:
        """Record the current piece's outcome; return True if there is another piece to send."""
        if self.pieces is None:
            raise RuntimeError("the batch was not split")
        end = self._settled + self.count
        self.pieces.append(Piece(end, base_offset, log_append_time, log_start_offset, error))
        if not self.rest:
            self._resolve(IN_PIECES)
            return False
        self.builder = self.rest.pop(0)
        self.payload = None
        return True

    @property
    def _settled(self) -> int:
        """The number of records whose piece has its outcome."""
        return self.pieces[-1].end if self.pieces else 0

    def wake(self) -> None:
        """Wake the waiters. Call this from the event loop, when all state is consistent."""
        if self._waiters is not None:
            self._wake(self._waiters, 0)

    def _resolve(self, state: int, woken: "list[ProducerBatch] | None" = None) -> None:
        if self.state != PENDING:
            raise RuntimeError("the batch already has an outcome")
        self.state = state
        self.builder = self.buffer = self.payload = None
        self.rest = []
        waiters = self._waiters
        if waiters is not None:
            if woken is not None:
                woken.append(self)
            elif not self.loop.is_closed():
                self.loop.call_soon(self._wake, waiters, 0)
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher(self)

    def _wake(self, waiters: "list[Wait]", start: int) -> None:
        """Run the waiters' callbacks as the loop would run a handle for each."""
        self._waiters = None
        for position in range(start, len(waiters)):
            callback, context, target = waiters[position].release()
            if callback is None or context is None:
                continue
            try:
                context.run(callback, target)
            except (SystemExit, KeyboardInterrupt):
                self.loop.call_soon(self._wake, waiters, position + 1)
                raise
            except BaseException as error:
                self.loop.call_exception_handler(
                    {"message": f"Exception in callback {callback!r}", "exception": error}
                )

    def _enlist(self, wait: "Wait") -> None:
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(wait)


class Ack(_Future):
    """The acknowledgement of one record: awaitable, and accepted by asyncio as a future.

    `await ack` (or `result()` once `done()`) returns the `RecordMetadata`: topic, partition,
    offset, and the timestamp that the record has on the broker. With `acks=0` it returns None.

    Raises:
        KafkaError: The record was not acknowledged; a `DeliveryTimeoutError` says whether it may
            have been stored nevertheless. Each call raises a new copy.

    Cancellation: stops the wait, never the delivery.
    """

    __slots__ = ("_asyncio_future_blocking", "_batch", "_cancelled", "_first", "_index", "_stamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._stamp = timestamp
        self._first: Wait | None = None  # the chain of this record's waiters
        self._cancelled = False
        self._asyncio_future_blocking = False

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._batch.loop

    @property
    def _cancel_message(self) -> None:
        return None  # asyncio.gather() reads it

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._batch.loop

    def done(self) -> bool:
        return self._cancelled or self._batch.state != PENDING

    def cancelled(self) -> bool:
        return self._cancelled

    def result(self) -> Acknowledged:
        if self._cancelled:
            raise asyncio.CancelledError
        batch = self._batch
        if batch.state == ACKED:
            topic, partition = batch.topic_partition
            offset = -1 if batch.base_offset < 0 else batch.base_offset + self._index
            stamp, kind = (
                (self._stamp, 0) if batch.log_append_time < 0 else (batch.log_append_time, 1)
            )
            start = None if batch.log_start_offset < 0 else batch.log_start_offset
            return RecordMetadata(
                topic, partition, batch.topic_partition, offset, stamp, kind, start
            )
        if batch.state == UNCONFIRMED:
            return None
        if batch.state == FAILED:
            raise fresh(batch.error)
        if batch.state == IN_PIECES:
            return outcome_in_pieces(batch, self._index, self._stamp)
        raise asyncio.InvalidStateError("the record is not acknowledged yet")

    def exception(self) -> BaseException | None:
        if self._cancelled:
            raise asyncio.CancelledError
        batch = self._batch
        if batch.state == PENDING:
            raise asyncio.InvalidStateError("the record is not acknowledged yet")
        if batch.state == IN_PIECES:
            error = piece_of(batch, self._index)[1].error
            return None if error is None else fresh(error)
        return fresh(batch.error) if batch.state == FAILED else None

    def cancel(self, msg: object = None) -> bool:
        """Cancel all waits for this record; it is still delivered."""
        if self.done():
            return False
        self._cancelled = True
        chain = []
        wait, self._first = self._first, None
        while wait is not None:
            chain.append(wait)
            wait = wait.following
        for wait in reversed(chain):  # the first waiter is called first
            wait.following = None
            wait.call_soon()
        return True

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        return asyncio.CancelledError()

    def add_done_callback(
        self, fn: Callable[[Any], object], *, context: contextvars.Context | None = None
    ) -> None:
        wait = Wait(self, False)
        wait.add_done_callback(fn, context=context)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        removed = 0
        wait = self._first
        while wait is not None:
            if wait.callback is not None and not wait.by_task and wait.callback == fn:
                wait.callback = None
                removed += 1
            wait = wait.following
        return removed

    def __await__(self) -> Generator[Any, Any, Acknowledged]:
        return Wait(self, True)

    __iter__ = __await__

    def __repr__(self) -> str:
        batch = self._batch
        state = ("pending", "acked", "sent", "failed", "split")[batch.state]
        topic, partition = batch.topic_partition
        where = f"{topic}-{partition} record {self._index} of its batch"
        return f"<Ack {'cancelled' if self._cancelled else state} {where}>"


class Wait(Generator[Any, Any, Acknowledged]):
    """One waiter of one record: the iterator of `await ack`, and the callback to wake.

    It is the future on which the awaiting task sleeps, so it absorbs the task's cancellation.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_cancelled",
        "_enlisted",
        "_yielded",
        "ack",
        "by_task",
        "callback",
        "context",
        "following",
    )

    def __init__(self, ack: Ack, by_task: bool) -> None:
        self.ack = ack
        self.by_task = by_task  # False: created by Ack.add_done_callback
        self.callback: Callable[[Any], object] | None = None
        self.context: contextvars.Context | None = None
        self.following: Wait | None = None  # the next of the same record
        self._cancelled = False
        self._yielded = False
        self._enlisted = False  # in its batch's list and its ack's chain
        self._asyncio_future_blocking = False

    def __iter__(self) -> "Wait":
        return self

    def __next__(self) -> "Wait":
        if self.ack.done():
            raise StopIteration(self.ack.result())
        if self._yielded:
            raise RuntimeError("await wasn't used with a future")
        self._yielded = True
        self._asyncio_future_blocking = True
        return self

    def send(self, value: Any) -> "Wait":
        return self.__next__()

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        if traceback is not None:
            value = value.with_traceback(traceback)
        raise value

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.ack._batch.loop

    def done(self) -> bool:
        return self._cancelled or self.ack.done()

    def cancelled(self) -> bool:
        return self._cancelled or self.ack.cancelled()

    def result(self) -> None:
        """Called by the task that wakes up; `__next__` returns the outcome itself."""
        if self.cancelled():
            raise asyncio.CancelledError

    def exception(self) -> None:
        return self.result()

    def cancel(self, msg: object = None) -> bool:
        if self.done():
            return False
        self._cancelled = True
        self.call_soon()
        return True

    def add_done_callback(
        self, fn: Callable[[Any], object], *, context: contextvars.Context | None = None
    ) -> None:
        if self._enlisted:
            raise RuntimeError("a Wait accepts only one callback")
        self.callback = fn
        self.context = contextvars.copy_context() if context is None else context
        if self.done():
            self.call_soon()
            return
        self._enlisted = True
        self.following, self.ack._first = self.ack._first, self
        self.ack._batch._enlist(self)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        if self.callback is None or self.callback != fn:
            return 0
        self.callback = None
        return 1

    def release(
        self,
    ) -> tuple[Callable[[Any], object] | None, contextvars.Context | None, "Ack | Wait"]:
        """Drop the callback and return it with its context and its argument."""
        callback, context = self.callback, self.context
        self.callback = self.context = self.following = self.ack._first = None
        return callback, context, self if self.by_task else self.ack

    def call_soon(self) -> None:
        callback, context = self.callback, self.context
        self.callback = self.context = None
        if callback is not None:
            self.ack._batch.loop.call_soon(
                callback, self if self.by_task else self.ack, context=context
            )


def fresh(error: BaseException | None) -> BaseException:
    """Copy an error to raise it: one exception for all records would collect their tracebacks."""
    if error is None:
        raise RuntimeError("a failed batch has no error")
    duplicate = copy.copy(error)
    duplicate.__cause__ = error.__cause__
    return duplicate


def piece_of(batch: Any, index: int) -> tuple[int, Piece]:
    """Return the piece of a record: the index of the piece's first record, and its outcome."""
    start = 0
    for piece in batch.pieces:
        if index < piece.end:
            return start, piece
        start = piece.end
    raise RuntimeError(f"record {index} of its batch is in none of the pieces")


def outcome_in_pieces(batch: Any, index: int, timestamp: int) -> RecordMetadata:
    """Return or raise the result of `Ack.result` for a record of a batch sent in pieces."""
    start, piece = piece_of(batch, index)
    if piece.error is not None:
        raise fresh(piece.error)
    topic, partition = batch.topic_partition
    offset = -1 if piece.base_offset < 0 else piece.base_offset + index - start
    stamp, kind = (timestamp, 0) if piece.log_append_time < 0 else (piece.log_append_time, 1)
    log_start = None if piece.log_start_offset < 0 else piece.log_start_offset
    return RecordMetadata(topic, partition, batch.topic_partition, offset, stamp, kind, log_start)
