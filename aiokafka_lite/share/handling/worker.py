"""`await consumer.run(handler)`: acquires records, calls the handler, and acknowledges the records.

One task acquires; up to `concurrency` long-lived slots take records from one queue and await the
handler. A handler that does not suspend costs no task, future or timer per record: the first slot
handles the whole queue. Others are woken once it has suspended with records left.

Non-obvious:

- A record counts as outstanding from its acquisition until its outcome is marked, also while it
  waits for its key or for its release.
- A lost lock cancels the slot's task. The slot undoes that cancellation (`uncancel`) and continues.
  Any other cancellation is the handler's own: its record is released.
- The handler runs in the slot's task, so consecutive records of a slot share a context
  (`contextvars`), and `asyncio.current_task()` is the slot's.
- The end of a run has these steps: stop acquiring, release records whose handlers have not started,
  wait for the running handlers, and cancel those that take too long. Renewals continue until the
  last handler has ended. The consumer sends the last acknowledgements.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from aiokafka_lite._backoff import Backoff
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
)
from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.share.handling.failure_log import FailureLog
from aiokafka_lite.share.handling.key_order import KeyOrder
from aiokafka_lite.share.handling.lock_keeper import LockKeeper
from aiokafka_lite.share.handling.record_outcomes import Outcomes
from aiokafka_lite.share.handling.room import Room
from aiokafka_lite.share.handling.run_options import RunOptions
from aiokafka_lite.share.handling.slot import Slot
from aiokafka_lite.share.handling.work import Feed, Work, WorkSource, describe

__all__ = ["Worker"]

log = logging.getLogger(__name__)

_W = TypeVar("_W", bound=Work)

_POLL_MS: Final = 60_000.0  # of one acquisition; only bounds how long an idle call lasts
_SLICE: Final = 0.005  # seconds after which a slot lets the event loop run
_LOOK: Final = 0.001  # seconds between two checks of the clock and the next lock
_MOST: Final = 10_000  # records between them, if they are quick
_GRACE: Final = 5.0  # seconds that a cancelled handler may take to end


class Worker(Generic[_W]):
    """One call of `run`.

    Args:
        source: The consumer.
        handler: Called with each record.
        options: The arguments of the call.
        name: Of the consumer, for logs.
        backoff: Between acquisitions that fail with a retriable error.
        on_full: Called when all handlers are busy, so that the next acquisition must wait.
        feed: Where records come from instead of `source.getmany`, or None.
    """

    def __init__(
        self,
        source: WorkSource[_W],
        handler: Callable[[_W], Awaitable[object]],
        options: RunOptions,
        name: str,
        backoff: Backoff,
        on_full: Callable[[], None] = lambda: None,
        feed: Feed | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._handler = handler
        self._options = options
        self._name = name
        self._backoff = backoff
        self._feed = feed
        self._fed = False  # records come from there now
        self._refused = 0  # acquisitions in a row that failed
        self._tasks = TaskOwner(f"{name}: run", self._on_task_error, self._loop)
        self._queue: deque[_W] = deque()
        self._slots: list[Slot[_W]] = []
        self._clock = _quickest(self._loop.time)
        self._idle: list[Slot[_W]] = []
        self._order: KeyOrder[_W] | None = KeyOrder() if options.ordered_by_key else None
        self._locks: LockKeeper[_W] = LockKeeper(
            self._locked, self._lose, renews=options.renew_locks
        )
        self._room = Room(self._loop, options.concurrency, self._on_room, on_full)
        self._tally = self._room.tally
        self._end = asyncio.Event()  # `run` must end
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None  # raised by `run`
        self._closing = False  # handlers are cancelled because the run ends
        self._at_once_from = 0.0  # loop time from which `begin` may run handlers
        self._width = 0  # slots woken by the last step of a start; 0: no step is scheduled
        self._outcomes: Outcomes[_W] = Outcomes(
            options, self._locks, self._tally, FailureLog(log, name), self._end, self._fail
        )
        self._postponed = self._outcomes.postponed

    # The run

    async def run(self) -> None:
        """Handle records until `stop`, a failure or a cancellation."""
        acquiring = self._tasks.spawn(self._acquire(), "acquire")
        drain = False
        try:
            await self._end.wait()
            drain = True
        finally:
            self._end.set()
            try:
                await self._wind_up(acquiring, drain)
            finally:
                self._locks.close()
                self._tasks.cancel()
                self._ended.set()
        if self._failure is not None:
            raise self._failure

    def check_caller(self) -> None:
        """Check that the current task may wait until the run ends.

        Raises:
            IllegalStateError: It is the task of a handler, for which the run would wait.
        """
        current = asyncio.current_task()
        if any(slot.task is current for slot in self._slots):
            raise IllegalStateError(
                f"{self._name}: a handler cannot wait for the end of its own run: stop the "
                "consumer in another task"
            )

    async def stop(self) -> None:
        """End the run, and wait until it has ended: drained, or cancelled after the timeout."""
        self._end.set()
        await self._ended.wait()

    def _fail(self, error: BaseException) -> None:
        """End the run with an exception; the first one counts."""
        if self._failure is None:
            self._failure = error
        self._end.set()

    def _on_task_error(self, name: str, error: BaseException) -> None:
        self._fail(error)  # a bug

    # Acquisition

    async def _acquire(self) -> None:
        while not self._end.is_set():
            try:
                if self._feed is None:
                    await self._acquire_some()
                    continue
                self._fed = True
                try:
                    await self._feed.feed(self)
                finally:
                    self._fed = False
            except ConsumerStoppedError:
                self._end.set()
                return
            except KafkaError as error:
                if not error.retriable:
                    self._fail(error)
                    return
                self._refused += 1
                log.warning(
                    "%s: could not acquire records; retrying: %s",
                    self._name,
                    error,
                    extra=log_extra(self._name),
                )
                await asyncio.sleep(self._backoff.delay(self._refused))
            except Exception as error:
                self._fail(error)
                return

    async def _acquire_some(self) -> None:
        room = await self._room.wait()
        records = await self._source.getmany(timeout_ms=_POLL_MS, max_records=room)
        self._refused = 0
        if records:
            self.take(records)

    # Acquisition by the consumer (`Feed`)

    def room(self) -> int:
        """Return how many records may be acquired; `Feed.on_room` is called once there are more."""
        return 0 if not self._fed or self._end.is_set() else self._room.left()

    def takes(self, count: int) -> bool:
        """True if it can take this many records."""
        return self._fed and not self._end.is_set() and self._room.fits(count)

    def _on_room(self) -> None:
        """Make the links check `room`."""
        if self._fed and self._feed is not None:
            self._feed.on_room()

    def take(self, records: Sequence[_W]) -> None:
        """Queue acquired records, and start their handlers."""
        self.add(records)
        self.begin()

    def add(self, records: Sequence[_W]) -> None:
        """Queue acquired records; `begin` follows."""
        self._room.on_acquired(len(records))
        self._refused = 0
        order = self._order
        if order is None:
            self._queue.extend(records)
        else:
            for number, record in enumerate(records):
                try:
                    if order.admit(record):
                        self._queue.append(record)
                except TypeError:
                    text = f"ordered_by_key requires hashable keys: {describe(record)} has a "
                    self._fail(TypeError(f"{text}{type(record.key).__name__}"))
                    for rest in records[number:]:
                        self._outcomes.release(rest)
                    break
        self._locks.on_acquired(records[0], self._loop.time())

    # Slots

    def begin(self) -> None:
        """Handle queued records within this call, unless a task calls it, or the last such call
        took long. In that case, other callbacks of the event loop run first."""
        if self._width or not self._queue:
            return
        began = self._clock()
        if (
            not self._idle
            or began < self._at_once_from
            or asyncio.current_task(self._loop) is not None
        ):
            self._start(1)
            return
        waiter = self._idle.pop().waiter
        if waiter is not None:
            waiter.wake_now()
        now = self._clock()
        if now - began > _LOOK:
            self._at_once_from = now + _SLICE
        if self._queue:
            self._width = 1
            self._start_more()

    def _start(self, width: int) -> None:
        """Wake this many slots, and check afterwards if they have suspended with records left."""
        for _ in range(min(width, len(self._queue))):
            if self._idle:
                waiter = self._idle.pop().waiter
                if waiter is not None:
                    waiter.wake()
            elif len(self._slots) < self._options.concurrency and not self._tasks.closed:
                slot: Slot[_W] = Slot(self._queue, self._handler, self._tally, self._clock)
                self._slots.append(slot)
                slot.task = self._tasks.spawn(self._serve(slot), f"handler {len(self._slots)}")
            else:
                self._width = 0  # all are busy: each continues with the queue
                return
        self._width = width
        self._loop.call_soon(self._start_more)

    def _start_more(self) -> None:
        width, self._width = self._width, 0
        if not self._queue:
            return
        if any(slot.record is not None for slot in self._slots):
            self._start(width * 2)
        else:  # no handler has suspended: more slots would only block the loop longer
            self._width = width
            self._loop.call_soon(self._start_more)

    async def _serve(self, slot: Slot[_W]) -> None:
        """Handle one record after the other until the end of the run cancels this task."""
        queue, time, order = self._queue, self._loop.time, self._order
        until, looked = time() + _SLICE, 0.0
        while True:
            try:
                if not queue:
                    if self._closing:
                        return
                    slot.record = None
                    slot.waiter = Waiter(self._loop)
                    self._idle.append(slot)
                    await slot.waiter
                    until = time() + _SLICE
                    continue
                now = time()
                if now >= until:
                    slot.record = None
                    await asyncio.sleep(0)
                    until = time() + _SLICE
                    continue
                if queue[0].lock_deadline <= now:
                    self._lose(queue[0], "its lock expired")
                    continue
                # After records that took long, each one is preceded by such a check.
                slow = order is not None or now - looked > 2 * _LOOK
                looked = now
            except asyncio.CancelledError:
                # Either the run ends, or a handler left a cancellation of its task behind.
                if self._closing:
                    raise
                if slot in self._idle:
                    self._idle.remove(slot)
                slot.take_back()
                continue
            ended: _W | None = None
            try:
                await slot.handle(1 if slow else _MOST, _LOOK)
            except asyncio.CancelledError:
                ended = self._finished(slot)
                self._outcomes.on_cancelled(slot, ended, closing=self._closing)
                if self._closing:
                    raise
                slot.take_back()
            except Exception as error:
                ended = self._finished(slot)
                if slot.lost is not None:
                    self._outcomes.after_loss(slot, ended, error)
                else:
                    self._outcomes.on_error(slot, ended, error)
            except BaseException as error:
                ended = self._finished(slot)
                self._outcomes.release(ended)
                self._fail(error)
                raise
            else:
                if slot.lost is not None:
                    ended = self._finished(slot)
                    self._outcomes.after_loss(slot, ended, None)
                elif order is not None:
                    ended = slot.record
            if order is not None and ended is not None:
                following = order.on_done(ended)
                if following is not None:
                    queue.appendleft(following)

    def _finished(self, slot: Slot[_W]) -> _W:
        """Remove and return the slot's record, whose handler has ended."""
        record, slot.record = slot.record, None
        if record is None:
            raise RuntimeError("a slot without a record")
        return record

    # Locks

    def check_locks(self) -> None:
        """Check all locks in the next pass of the event loop: some may be lost."""
        self._locks.check_soon()

    def _locked(self) -> list[_W]:
        """The records whose locks must be kept."""
        records = [slot.record for slot in self._slots if slot.record is not None and not slot.lost]
        records += self._queue
        records += self._postponed
        if self._order is not None:
            records += self._order.waiting()
        return [record for record in records if not record.settled]

    def _lose(self, record: _W, reason: str) -> None:
        """Another member may process the record: cancel its handler, or do not start it."""
        for slot in self._slots:
            if slot.record is record:
                if slot.lost is None and slot.task is not None:
                    slot.lost = reason
                    slot.task.cancel(f"{describe(record)}: {reason}")
                return
        for index, queued in enumerate(self._queue):
            if queued is record:
                del self._queue[index]
                self._outcomes.forget(record, reason)
                if self._order is not None and (following := self._order.on_done(record)):
                    self._queue.appendleft(following)
                return
        order = self._order
        if self._postponed.remove(record) or (order is not None and order.remove(record)):
            self._outcomes.forget(record, reason)

    # The end

    async def _wind_up(self, acquiring: asyncio.Task[None], drain: bool) -> None:
        """Release records whose handlers have not started, and let the others end."""
        acquiring.cancel()
        self._fed = False
        self._room.close()
        self._release_unstarted()
        try:
            if drain and self._tally.outstanding:
                await self._drained(self._loop.time() + self._options.drain_timeout)
        finally:
            self._closing = True
            await self._tasks.close(self._loop.time() + _GRACE)
            self._release_unstarted()

    def _release_unstarted(self) -> None:
        """Release every record whose handler is not running."""
        records = [*self._queue, *self._postponed.take_all()]
        self._queue.clear()
        if self._order is not None:
            records += self._order.take_waiting()
        for record in records:
            self._outcomes.release(record)

    async def _drained(self, deadline: float) -> None:
        """Wait until no handler runs, or the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                while self._tally.outstanding:  # the acquiring task's timer may end the first wait
                    await self._room.at_most(0)
        except TimeoutError:
            log.warning(
                "%s: %d handlers had not ended within %g s; cancelled them",
                *(self._name, self._tally.outstanding, self._options.drain_timeout),
                extra=log_extra(self._name),
            )


def _quickest(clock: Callable[[], float]) -> Callable[[], float]:
    """Return the clock of an event loop, without the Python call that asyncio's own needs."""
    own = getattr(clock, "__func__", None) is asyncio.BaseEventLoop.time
    return time.monotonic if own else clock
