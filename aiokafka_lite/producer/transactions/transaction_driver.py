"""Carries out a producer's transactions, and lets its callers wait for them.

The machine decides on the next step; the asker sends it, one step at a time. The outlet (the
sender) is notified of each change: it accepts or refuses records, and drops those that will not be
sent. There is no task: each event (a call, an answer, a timer) takes the next step itself.

Non-obvious:
- A wait that was cancelled or timed out does not stop the commit or abort. Repeating the same call
  continues the wait, or returns the outcome.
- State changes between awaits, never across one: code that changes the machine calls `_settle`
  before its next await.
- Calls of the sender take effect in the next iteration of the event loop. The sender may be in the
  middle of a change, and may report more partitions, which one request then adds.
- There is no event for the answer to an overdue batch's request, which must arrive before its
  transaction ends. Only in this rare case is the outlet polled.
"""

import asyncio
import copy
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaError, KafkaTimeoutError, ProducerClosed
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.transactions.begin_delay import BeginDelay
from aiokafka_lite.producer.transactions.coordinator_requests import Asker
from aiokafka_lite.producer.transactions.transaction_machine import TransactionMachine
from aiokafka_lite.producer.transactions.transaction_states import ENDING, OPEN, TransactionState
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddPartitions,
    Answer,
    EndTransaction,
    FindCoordinator,
    Step,
)
from aiokafka_lite.producer.transactions.wait_times import TransactionTimes
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Outlet", "TransactionDriver"]

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.02
"""Seconds between two checks for the answer to an overdue batch's request."""

_WHAT: Final = "carry out transactions"

_S = TransactionState


class Outlet(Protocol):
    """The source of a transaction's records."""

    @property
    def drained(self) -> bool:
        """True if nothing waits to be sent or is in flight."""
        ...

    def when_resolved(self, callback: Callable[[], None]) -> bool:
        """Call `callback` once when all current batches have an outcome; False if none is left."""
        ...

    def on_state(self, state: TransactionState, error: KafkaError | None) -> None:
        """The state changed; `error` is the cause in the two error states."""
        ...

    def on_added(self) -> None:
        """More partitions may be sent to."""
        ...

    def hurry(self) -> None:
        """Send lingering batches."""
        ...


class _End:
    """A commit or an abort, for the calls that wait for it."""

    __slots__ = ("claimed", "done", "error", "kind", "waiting")

    def __init__(self, kind: TransactionState) -> None:
        self.kind = kind
        self.done = False
        self.error: KafkaError | None = None
        self.waiting = 0  # callers
        self.claimed = False  # True once a caller has received the outcome


class TransactionDriver:
    """Carries out one producer's transactions.

    Args:
        cluster: The cluster of the coordinators.
        transactional_id: The producer's transactional id.
        timeout_ms: The cluster aborts a transaction that stays open longer than this.
        options: The producer's options.
        identity: Receives the ids and epochs.
        outlet: Notified of each change.
        tasks: Owns the tasks that find coordinators and connect to them.
        loop: The producer's event loop.
        on_bug: Called after a bug, with the failed activity and the exception.

    Attributes:
        machine: Holds the current state.
        times: Time that the callers have waited.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int,
        options: ProducerOptions,
        identity: TransactionalIdentity,
        outlet: Outlet,
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
        on_bug: Callable[[str, BaseException], None],
    ) -> None:
        self.machine = TransactionMachine(transactional_id, identity, options.retry_backoff)
        self.times = TransactionTimes()
        self._begin_delay = BeginDelay()
        self._opening: asyncio.TimerHandle | None = None  # releases a transaction that is held
        self._transactional_id = transactional_id
        self._label = f"{cluster.client_id}: transactional id {transactional_id!r}"  # of log lines
        self._outlet = outlet
        self._loop = loop
        self._on_bug = on_bug
        self._asker = Asker(
            cluster, transactional_id, timeout_ms, options.request_timeout, self, tasks, loop
        )
        self._look_is_due = False  # in the next iteration of the loop
        self._retry: asyncio.TimerHandle | None = None  # of a step to retry
        self._waiters: list[asyncio.Future[None]] = []  # resolved at any change
        self._reported = 0  # the machine's transitions that were reported
        self._end: _End | None = None  # the current commit or abort, or the last
        self._watching = False  # the outlet calls back when all batches are resolved

    # Called by the application

    async def start(self, deadline: float) -> None:
        """Get a producer id, which fences other producers with the same transactional id.

        Raises:
            KafkaTimeoutError: No id was assigned by the deadline.
            KafkaError: The request was refused.
        """
        began = self._loop.time()
        self.machine.initialize()
        self._settle()
        self._go_on()
        try:
            await self._until(
                lambda: self.machine.state is not _S.INITIALIZING, deadline, "getting a producer id"
            )
        finally:
            self.times.init += self._loop.time() - began
        self._raise_error()

    def begin(self) -> None:
        """Begin a transaction; see `TransactionMachine.begin`."""
        began = self._loop.time()
        self.machine.begin()
        self._end = None
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        opens_at = self._begin_delay.opens_at()
        if opens_at > began and self.machine.implicit:
            self.machine.hold()
            self._opening = self._loop.call_at(opens_at, self._open)
        self._settle()
        self.times.begin += self._loop.time() - began

    async def commit(self, deadline: float) -> None:
        """Commit and wait for completion; a wait that ended early may be continued.

        Raises:
            KafkaTimeoutError: The commit had not completed by the deadline; it continues.
            KafkaError: The transaction must be aborted; or a fatal error.
            IllegalOperation: No transaction is open, or another call waits for the commit.
        """
        began = self._loop.time()
        try:
            await self._ended(_S.COMMITTING, self.machine.commit, "commit", deadline)
        finally:
            self.times.commit += self._loop.time() - began

    async def abort(self, deadline: float) -> None:
        """Abort and wait for completion; see `commit`."""
        began = self._loop.time()
        try:
            await self._ended(_S.ABORTING, self.machine.abort, "abort", deadline)
        finally:
            self.times.abort += self._loop.time() - began

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        deadline: float,
    ) -> None:
        """Commit offsets with the open transaction; wait until they are part of it.

        Raises:
            KafkaTimeoutError: The call had not completed by the deadline; it continues, and a
            commit waits for it.
            KafkaError: The transaction must be aborted; or a fatal error.
            IllegalOperation: No transaction is open.
        """
        began = self._loop.time()
        order = self.machine.add_offsets(offsets, group)
        if order.done:
            self._settle()  # refused at once
        self._outlet.hurry()  # usually no more records follow the offsets
        if self._opening is None:
            self.wake()  # otherwise `_open` wakes it, and nothing can be sent before
        try:
            advice = "; it continues, and the commit waits for it"
            await self._until(lambda: order.done, deadline, "sending offsets", advice)
        finally:
            self.times.send_offsets += self._loop.time() - began
        if order.error is not None:
            raise copy.copy(order.error)

    async def close(self, deadline: float) -> None:
        """End the open transaction by the deadline: abort it unless a commit is under way."""
        while self.machine.state in OPEN:
            if self.machine.state not in ENDING:  # also if the commit has failed meanwhile
                self.machine.abort()
                self._end = _End(_S.ABORTING)
                self._settle()
                self.wake()
            what = "commit" if self.machine.state is _S.COMMITTING else "abort"
            late = "did not complete within the timeout of stop()"
            await self._until(
                lambda: self.machine.state not in ENDING, deadline, what, failure=late
            )

    def stop(self) -> None:
        """Stop at once; waiting calls raise ProducerClosed. Idempotent."""
        self.machine.close(ProducerClosed("the producer was stopped"))
        self._settle()
        if not self._loop.is_closed():
            self._asker.close()
            for timer in (self._opening, self._retry):
                if timer is not None:
                    timer.cancel()

    # Called by the sender

    def admit(self, partition: TopicPartition) -> bool:
        """True if a partition's batches may be sent now; if not, `on_added` follows later."""
        if self.machine.admit(partition):
            return True
        if self._opening is None:
            self.wake()
        return False

    def on_batch_failed(self, error: KafkaError, *, numbered: bool) -> None:
        """A batch will not be sent again."""
        self.machine.on_batch_failed(error, numbered=numbered)
        self._settle()

    def on_first_sent(self) -> None:
        """The first batch of a transaction is sent."""
        self._begin_delay.on_sent(self._loop.time())

    def on_first_resolved(self, _: object) -> None:
        """The first batch of a transaction has an outcome."""
        if self.machine.implicit:
            self._begin_delay.on_answered(self._loop.time())

    def wake(self) -> None:
        """Something changed: look for a step to take in the next iteration of the loop."""
        if not self._look_is_due:
            self._look_is_due = True
            self._loop.call_soon(self._look)

    # Waiting

    async def _ended(
        self, kind: TransactionState, begin: Callable[[], None], what: str, deadline: float
    ) -> None:
        end = self._end
        if end is None or end.kind is not kind or end.waiting or end.claimed:
            begin()
            end = self._end = _End(kind)
            self._settle()
            self._go_on()
        end.waiting += 1
        try:
            advice = "; it continues: call again to wait for it"
            await self._until(lambda: end.done, deadline, what, advice)
        finally:
            end.waiting -= 1
        end.claimed = True
        if end.error is not None:
            raise copy.copy(end.error)

    async def _until(
        self,
        done: Callable[[], bool],
        deadline: float,
        what: str,
        advice: str = "",
        *,
        failure: str = "did not complete within max_block_ms",
    ) -> None:
        late: list[bool] = []
        timer = self._loop.call_at(deadline, self._on_late, late)
        try:
            while not done():
                if late:
                    raise KafkaTimeoutError(
                        f"transactional id {self._transactional_id!r}: {what} {failure}{advice}"
                    )
                waiter = self._loop.create_future()
                self._waiters.append(waiter)
                await waiter
        finally:
            timer.cancel()

    def _on_late(self, late: list[bool]) -> None:
        late.append(True)
        self._wake_waiters()

    def _raise_error(self) -> None:
        if self.machine.error is not None:
            raise copy.copy(self.machine.error)

    def _settle(self) -> None:
        """Notify the outlet and the waiting calls of the machine's changes."""
        machine = self.machine
        while self._reported != machine.transitions:
            self._reported = machine.transitions
            log.debug("%s: %s %s", self._label, machine.state, machine.error or "")
            end = self._end
            if end is not None and not end.done and machine.state not in _UNDER_WAY:
                end.done = True
                end.error = machine.error
            # This may change the state again, for example by failing batches.
            self._outlet.on_state(machine.state, machine.error)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _open(self) -> None:
        """Release the held transaction: the brokers should have ended the previous one by now."""
        self._opening = None
        self.machine.release()
        self._outlet.on_added()
        self.wake()

    # Called by the asker

    def on_coordinator(self, level: int, can_bump: bool) -> None:
        """Set the coordinator's features; see `TransactionMachine.on_coordinator`."""
        self.machine.on_coordinator(level, can_bump)

    def on_found(self, step: FindCoordinator) -> None:
        """A coordinator was found."""
        self.machine.on_found(step)
        self._go_on()

    def on_answer(self, step: Step, answer: Answer) -> None:
        """A coordinator answered."""
        now = self._loop.time()
        try:
            self.machine.on_answer(step, answer, now)
            if isinstance(step, EndTransaction):
                self._begin_delay.on_ended(now)
            self._on_landed(step)
        except Exception as error:  # a bug here must not fail the connection, which is reading
            self._on_bug(_WHAT, error)

    def on_failure(self, step: Step, error: KafkaError) -> None:
        """The request failed, or the answer cannot be read."""
        log.debug("%s: %s failed: %s", self._label, type(step).__name__, error)
        try:
            self.machine.on_error(step, error, self._loop.time())
            self._on_landed(step)
        except Exception as bug:
            self._on_bug(_WHAT, bug)

    def _on_landed(self, step: Step) -> None:
        self._settle()
        if isinstance(step, AddPartitions):
            self._outlet.on_added()
        self._go_on()

    # From step to step

    def _look(self) -> None:
        self._look_is_due = False
        try:
            self._go_on()
        except Exception as error:
            self._on_bug(_WHAT, error)

    def _go_on(self) -> None:
        """Take the next step if there is one; otherwise set a timer for the next retry."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        machine = self.machine
        step = machine.next_step(self._loop.time(), drained=self._drained())
        if self._reported != machine.transitions:
            self._settle()  # only then, to avoid useless wake-ups
        if step is not None:
            self._asker.ask(step)
            return
        retry_at = machine.next_wakeup()
        if retry_at is not None:
            self._retry = self._loop.call_at(retry_at, self._look)

    def _drained(self) -> bool:
        """True if the transaction may end now; if not, a callback or timer checks again."""
        if self.machine.state not in ENDING:
            return False
        drained = self._outlet.drained
        if not drained and not self._watching:
            self._watching = True
            if not self._outlet.when_resolved(self._on_resolved):
                self._loop.call_later(_LOOK_AGAIN, self._on_resolved)
        return drained

    def _on_resolved(self) -> None:
        self._watching = False
        self.wake()


_UNDER_WAY: Final = ENDING | {_S.INITIALIZING}
"""States in which a requested commit or abort has no outcome yet."""
