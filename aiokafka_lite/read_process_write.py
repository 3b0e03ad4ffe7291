"""Read, process, write, exactly once: `async for batch in exactly_once(consumer, producer)`.

Each batch is one transaction of the producer, which begins when the batch is delivered. When the
next batch is requested, the offsets of the batch are added to the transaction, and it is committed.
If the commit fails, the transaction is aborted, and the same records are delivered again. So
consumers with `isolation_level="read_committed"` see the output of each record exactly once,
whatever fails.

Non-obvious:

- A rebalance runs concurrently with the body of the loop. Before partitions are revoked, the group
  waits for the batch that holds records of them, at most half of the rebalance timeout; a batch
  that takes longer is aborted when its body is done. The lease of the read that took the batch
  records whether its partitions stayed assigned to this consumer (`group.assignment_lease`): it is
  checked before the offsets are sent, and again when the coordinator has accepted them.
- The group metadata is read in the same step in which the lease is checked. So it belongs to a
  generation in which the partitions are this member's (KIP-447), and the coordinator rejects it
  after that. A consumer outside its group must not send offsets: the coordinator accepts offsets
  without a member from any client.
- A commit that was requested from a producer that has failed since may have taken place. The
  next loop resumes at the group's committed offsets: the start of its producer has then completed
  the open transaction.
- An `async for` does not report how it was left. So it iterates over a separate object, whose
  finalizer ends the loop; only `async with` can detect how the loop was left. The finalizer may run
  late, or never: a batch is committed only by the loop (or the block) that took it.
"""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from aiokafka_lite._arguments import is_int
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.consumer.buffering.bulk_types import RecordBatch
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.consumer.record_batches import BULK
from aiokafka_lite.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalOperation,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortableError,
)
from aiokafka_lite.group.assignment_lease import AssignmentLease, ConsumerGroupMetadata
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.producer.transactions.transaction_states import TransactionState
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["ExactlyOnce", "TransactionBatch", "exactly_once"]

log = logging.getLogger(__name__)

_S = TransactionState

_PASSES: Final = (
    CommitFailedError,  # the group rebalanced
    KafkaTimeoutError,  # a record expired
    OutOfOrderSequenceNumber,  # raised for the record after an expired one
    ProducerFenced,  # by a record, if the producer is still usable: the transaction timed out
    TransactionAbortableError,
)
"""Errors, besides retriable ones, after which the aborted transaction may succeed when repeated."""

_TO_ABORT: Final = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.ABORTING, _S.INITIALIZING)
"""The states in which the transaction must be aborted, or the abort awaited."""


def exactly_once(
    consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, *, max_records: int | None = None
) -> "ExactlyOnce":
    """Read, process and write in transactions, exactly once. Not in aiokafka.

        async with exactly_once(consumer, producer) as batches:
            async for batch in batches:
                for record in batch:
                    await producer.send("cooked", record.value.upper(), key=record.key)

    Records sent in the body belong to the batch's transaction. The transaction is committed, with
    the offsets, when the next batch is requested or the block ends without an exception; there is
    no need to await the acknowledgements. After a retriable failure (a rebalance, an unavailable
    broker) the transaction is aborted, and its records are delivered again. An exception in the
    body, including one from `send`, ends the loop: the transaction is aborted, and its records are
    the next to be read. Catch it outside the block, not within: another loop in the same block
    commits the batch of the one before.

    Without `async with` (`async for batch in exactly_once(...)`), the loop cannot tell how it was
    left: even after `break`, the current batch is aborted, in the background. The loop ends, after
    its current batch, when the consumer is stopped.

    Args:
        consumer: A started consumer with a `group_id` and `enable_auto_commit=False`; should have
            `isolation_level="read_committed"`. No other code may read from it or commit.
        producer: A started producer with a `transactional_id` that no other worker uses at the
            same time. No other code may begin or end its transactions.
        max_records: Maximum records of a batch; the consumer's `max_poll_records` or 2,048 by
            default. A transaction costs a few requests, whatever its size.

    Raises:
        IllegalOperation: The consumer has no group, or the producer no `transactional_id`.
        KafkaConfigurationError: (a ValueError) The consumer has auto-commit enabled, or
            `max_records` is not a positive integer.
    """
    return ExactlyOnce(consumer, producer, max_records)


class TransactionBatch:
    """The records of one transaction, from one or more partitions.

    Iteration yields all records, one partition after the other, each in offset order.

    Attributes:
        parts: One `RecordBatch` per partition.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[RecordBatch, ...]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Record]:
        for part in self.parts:
            yield from part.records

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that are committed with the transaction."""
        return {tp: offset for part in self.parts for tp, offset in part.offsets.items()}

    def __repr__(self) -> str:
        return f"<{len(self)} records of {_named(self.offsets)}>"


class _Part(NamedTuple):
    """The records of one partition in the current batch."""

    taken: RecordBatch
    state: PartitionState
    generation: int
    """The state's generation when the records were taken."""


class ExactlyOnce:
    """The context manager and iterable that `exactly_once` returns."""

    def __init__(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, max_records: int | None
    ) -> None:
        core, transactions = consumer._core, producer._transactions
        if core.group is None:
            raise IllegalOperation("exactly_once() requires a consumer with a group_id")
        if transactions is None:
            raise IllegalOperation("exactly_once() requires a producer with a transactional_id")
        if core.options.enable_auto_commit:
            raise KafkaConfigurationError(
                "exactly_once() commits offsets in transactions: give the consumer "
                "enable_auto_commit=False"
            )
        if max_records is not None and not (is_int(max_records) and max_records >= 1):
            raise KafkaConfigurationError("`max_records` must be a positive integer")
        # The group refers to this object during a loop; it must not keep a dropped consumer alive.
        self._consumer = weakref.ref(consumer)
        self._core = core
        self._group = core.group
        self._producer = producer
        self._machine = transactions.machine
        self._limit = max_records or core.options.max_poll_records or BULK
        self._backoff = producer._options.retry_backoff
        self._parts: tuple[_Part, ...] = ()  # of the current batch
        self._lease: AssignmentLease = core.leases.current  # of the read that took the batch
        self._committing = False  # the commit was requested
        self._commit_failed = False  # it was refused, and is not requested again
        self._through = asyncio.Event()  # set while there is no current batch
        self._in_block = False
        self._visit: object = None  # the current block, or the current loop outside of a block
        self._taken_in: object = None  # the visit that took the current batch
        self._failure: Exception | None = None  # raised once the batch before it is completed
        self._refused: KafkaError | None = None  # why the batch is being aborted, to be read again
        self._failures = 0  # consecutive aborted transactions
        self._one_by_one = asyncio.Lock()  # allows one `_settle` at a time
        self._tasks = TaskOwner("exactly_once", _on_task_error, core.loop)

    # The loop

    async def __aenter__(self) -> Self:
        # A failed start has replaced the core and the group since.
        consumer, transactions = self._consumer(), self._producer._transactions
        if consumer is not None and (group := consumer._core.group) is not None:
            self._core, self._group = consumer._core, group
        if transactions is not None:
            self._machine = transactions.machine
        self._in_block = True
        self._visit = object()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._in_block = False
        try:
            if error is None and self._parts and self._taken_in is self._visit:
                await self._commit()
        finally:
            await self._settle_and_leave(self._visit, self._parts)

    def __aiter__(self) -> "_Loop":
        return _Loop(self, self._consumer())

    async def run(self, process: Callable[[TransactionBatch], Awaitable[None]]) -> None:
        """Process one batch after the other until the consumer is stopped.

        Like the loop, except that the batch is processed again if `process` raises a retriable
        error that requires an abort of the transaction.

        Args:
            process: Called with each batch; sends its output.

        Raises:
            Exception: Any other exception of `process`. The transaction was aborted, and its
                records are the next to be read.
            KafkaError: As for the loop.

        Cancellation: aborts the transaction, unless its commit is in progress.
        """
        async with self:
            async for batch in self:
                try:
                    await process(batch)
                except KafkaError as error:
                    if self._machine.state is not _S.ABORTABLE_ERROR:
                        raise
                    await self._try_again(error)

    async def next_batch(self, loop: object = None) -> TransactionBatch:
        """Commit the current batch and return the next one, waiting for it.

        Args:
            loop: Identifies the loop, whose batches no later loop outside of a block commits.

        Raises:
            StopAsyncIteration: The consumer was stopped.
            KafkaError: The consumer failed, as for `getone`. Or the transaction cannot succeed and
                was aborted; or the producer has failed.
            IllegalOperation: Other code began or ended the producer's transaction.

        Cancellation: safe. A commit in progress continues, and the end of the block awaits it.
        """
        if not self._in_block:
            self._visit = loop
        await self._take_over()
        if self._parts:
            try:
                await self._commit()
            except KafkaError as error:
                await self._try_again(error)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        try:
            self._parts = await self._core.reader.until_taken(self._take)
        except ConsumerStoppedError:
            raise StopAsyncIteration from None
        self._taken_in = self._visit
        self._through.clear()
        try:
            await self._producer.begin_transaction()  # does not suspend
        except BaseException:
            self._give_back()
            raise
        return TransactionBatch(tuple(part.taken for part in self._parts))

    def on_left(self, left: object) -> None:
        """A loop has ended. Called by a finalizer, in any thread."""
        loop = self._core.loop
        if not self._in_block and not loop.is_closed():
            loop.call_soon_threadsafe(self._on_left, left)

    def _on_left(self, left: object) -> None:
        if self._visit is not left:
            return  # the next loop settles the batch of this one, or has its own batch
        if self._parts:
            settling = self._settle_and_leave(left, self._parts)
            self._tasks.spawn(settling, "end a transaction that was left open")
        else:
            self._leave()

    # The current batch

    def _take(self) -> tuple[_Part, ...] | None:
        """Take the buffered records, up to the limit."""
        self._lease = self._core.leases.current
        parts: dict[TopicPartition, _Part] = {}
        left = self._limit
        try:
            while left > 0:
                try:
                    taken = self._core.buffer.take_batch(left)
                except Exception as error:
                    if not parts:
                        raise
                    self._failure = error  # raised after the records before it are processed
                    break
                if taken is None:
                    break
                left -= len(taken)
                tp = taken.topic_partition
                if tp in parts:
                    taken = _joined(parts[tp].taken, taken)
                state = self._core.positions.state(tp)
                parts[tp] = _Part(taken, state, state.generation)
        except BaseException:
            # An interrupt, or a deserializer that was cancelled: the loop does not receive the
            # records of the partitions before.
            self._rewind(parts.values())
            raise
        return tuple(parts.values()) or None

    def _check_held(self) -> None:
        """Raise CommitFailedError if a partition was revoked since the batch was taken."""
        error = self._lease.broken_for(part.state.tp for part in self._parts)
        if error is not None:
            raise error
        if self._core.subscription.shared and self._member.generation < 0:
            raise CommitFailedError(
                f"the consumer is no longer a member of group {self._group.options.group_id}"
            )

    @property
    def _member(self) -> GroupMetadata:
        """The current group metadata, not that of the read: the consumer may have kept its
        partitions in a rebalance."""
        return self._group.driver.membership.group_metadata()

    def _give_back(self) -> None:
        """Rewind the partitions to the batch, except those that were sought or revoked since."""
        self._rewind(self._parts)
        self._failure = None
        self._end()

    def _rewind(self, parts: Iterable[_Part]) -> None:
        for taken, state, generation in parts:
            self._core.positioning.give_back(state, generation, taken.start, taken.start_epoch)

    def _end(self) -> None:
        """Drop the current batch."""
        self._parts = ()
        self._committing = False
        self._commit_failed = False
        self._refused = None
        self._through.set()

    async def before_going(self, partitions: set[TopicPartition]) -> None:
        """Wait until the batch is completed, before the group revokes partitions."""
        if all(part.state.tp not in partitions for part in self._parts):
            return
        timeout = self._group.options.effective_rebalance_timeout / 2
        try:
            async with asyncio.timeout(timeout):
                await self._through.wait()
        except TimeoutError:
            text = "%s: a batch was not completed within %g s; its transaction will be aborted"
            log.warning(text, self._label, timeout)

    # The transaction of the batch

    async def _commit(self) -> None:
        """Commit the current batch with its offsets. If this raises, call `_settle` next."""
        if self._refused is not None:
            raise self._refused  # a call that was cancelled has begun the abort
        if not self._committing:
            self._check_held()
            offsets = {tp: at for part in self._parts for tp, at in part.taken.offsets.items()}
            try:
                member = ConsumerGroupMetadata.leased(self._member, self._lease)
                await self._producer.send_offsets_to_transaction(offsets, member)
            except KafkaTimeoutError:
                if self._machine.error is not None:
                    raise
                # The offsets are in flight, and the commit waits for them.
            self._committing = True
        await self._waited_for(self._producer.commit_transaction, without_timeout=True)
        self._failures = 0
        self._end()

    async def _settle(self, parts: tuple[_Part, ...], *, without_timeout: bool) -> None:
        """End the transaction, with an abort unless a commit is in progress, and rewind to the
        uncommitted records. A batch whose commit may have taken place stays current.

        Args:
            parts: The batch; nothing happens if it is no longer the current one.

        Raises:
            KafkaTimeoutError: Not completed in time (never if `without_timeout`).
        """
        async with self._one_by_one:
            if not parts or self._parts is not parts:
                return
            machine, producer = self._machine, self._producer
            commits = self._committing and not self._commit_failed
            if commits and machine.state is not _S.FATAL_ERROR:
                if await self._ended_well(
                    producer.commit_transaction, without_timeout=without_timeout
                ):
                    self._end()
                    return
                # If this call is cancelled, the next one continues the abort.
                self._commit_failed = True
            if machine.state in _TO_ABORT:
                await self._ended_well(producer.abort_transaction, without_timeout=without_timeout)
            if not (self._committing and machine.state is _S.FATAL_ERROR):
                self._give_back()

    async def _ended_well(
        self, end: Callable[[], Awaitable[None]], *, without_timeout: bool
    ) -> bool:
        try:
            await self._waited_for(end, without_timeout=without_timeout)
        except KafkaError:
            if self._machine.error is None:
                raise  # the transaction did not end
            return False
        return True

    async def _waited_for(
        self, end: Callable[[], Awaitable[None]], *, without_timeout: bool
    ) -> None:
        """Commit or abort; if `without_timeout`, without a time limit."""
        while True:
            try:
                await end()
                return
            except KafkaTimeoutError as error:
                if self._machine.error is not None or not without_timeout:
                    raise
                log.warning("%s: %s", self._label, error)

    async def _try_again(self, error: KafkaError) -> None:
        """Let the batch be read again, after a pause, because its commit failed; raise the error
        if a retry cannot succeed."""
        self._refused = error
        await self._settle(self._parts, without_timeout=True)
        self._refused = None
        passes = error.retriable or isinstance(error, _PASSES)
        if not passes or self._machine.state is not _S.READY:
            raise error
        self._failures += 1
        text = "%s: a transaction was aborted; its records will be read again: %s"
        log.warning(text, self._label, error)
        await asyncio.sleep(self._backoff.delay(self._failures))

    # Consecutive loops

    async def _take_over(self) -> None:
        """Settle the batch that a previous loop has left."""
        before = self._group.work
        if isinstance(before, ExactlyOnce) and before is not self:
            await before._settle(before._parts, without_timeout=True)
            await before._read_on()
        elif self._taken_in is not self._visit:
            await self._settle(self._parts, without_timeout=True)
        self._group.work = self

    async def _read_on(self) -> None:
        """Continue at the group's committed offsets: the batch may or may not be committed."""
        positions = self._core.positions
        held = [part for part in self._parts if positions.is_current(part.state, part.generation)]
        if held:
            self._core.leases.on_reread([part.state.tp for part in held])
            committed = await self._group.committed([part.state.tp for part in held])
            for taken, state, generation in held:
                found = committed.get(state.tp)
                if not positions.is_current(state, generation):
                    continue
                if found is None:
                    at, epoch = taken.start, taken.start_epoch
                    self._core.positioning.give_back(state, generation, at, epoch)
                else:
                    self._core.positioning.seek(state, found.offset, found.leader_epoch)
        self._failure = None
        self._end()

    async def _settle_and_leave(self, visit: object, parts: tuple[_Part, ...]) -> None:
        try:
            await self._settle(parts, without_timeout=False)
        except KafkaError as error:
            log.warning("%s: a transaction could not be ended: %s", self._label, error)
        finally:
            if self._visit is visit:
                self._through.set()  # no code processes a remaining batch
                self._leave()

    @property
    def _label(self) -> str:
        """The beginning of log lines."""
        return f"{self._group.options.client_id}: group {self._group.options.group_id}"

    def _leave(self) -> None:
        if self._group.work is self and not self._parts:
            self._group.work = None


class _Loop:
    """The iterator of one `async for` over batches; its finalizer ends the loop.

    Args:
        batches: The batches to iterate over.
        consumer: Kept alive during the iteration.
    """

    __slots__ = ("_batches", "_consumer", "_name")

    def __init__(self, batches: ExactlyOnce, consumer: AIOKafkaConsumer | None) -> None:
        self._batches = batches
        self._consumer = consumer
        self._name = object()  # a name that the finalizer can pass on

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TransactionBatch:
        return await self._batches.next_batch(self._name)

    def __del__(self) -> None:
        self._batches.on_left(self._name)


def _joined(one: RecordBatch, other: RecordBatch) -> RecordBatch:
    """Join two consecutive runs of one partition."""
    return RecordBatch(
        one.topic_partition,
        one.start,
        one.start_epoch,
        other.next_offset,
        other.leader_epoch,
        one.records + other.records,
    )


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)


def _on_task_error(name: str, error: BaseException) -> None:
    log.error("%s failed", name, exc_info=error)
