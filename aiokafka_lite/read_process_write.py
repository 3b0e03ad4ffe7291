"""Read, process, write, exactly once: `async for batch in exactly_once(consumer, producer)`.

Each batch is one transaction of the producer. It is begun when the batch is handed out; when the
next one is asked for, the offsets behind the batch become part of it, and it is committed. If it
cannot be, it is aborted, and the same records are handed out again. So consumers with
`isolation_level="read_committed"` see what is made of each record once, whatever fails.

Non-obvious:

- A rebalance goes on beside the body of the loop. Before partitions go to another member, the group
  waits for the batch that holds records of them, half of the time that there is for a rebalance;
  one that takes longer is aborted when its body is through. The lease of the read that took the
  batch says whether its partitions were this consumer's all the time (`group.lease`): it is checked
  before the offsets are sent, and again when the coordinator has accepted them.
- The group's metadata is read in the same step as the lease is checked. So it is of a generation in
  which the partitions are this member's (KIP-447), and refused when that is over. A consumer
  outside of its group must not send any: the coordinator accepts offsets without a member from
  anybody.
- A commit that was asked for of a producer that has come to its end since may have taken place.
  Where to read on is told by what the group has committed, once another loop begins: by then the
  start of its producer has settled what was left open.
- An `async for` tells nobody how it was left. So it iterates over an object of its own, which
  ends with it; how it was left is known within `async with` alone.
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
from aiokafka_lite.consumer.bulk_calls import BULK
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.consumer.partitions.positions import PartitionState
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
from aiokafka_lite.group.membership import GroupMetadata
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.producer.transactions.transaction_states import TransactionState
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["ExactlyOnce", "TransactionBatch", "exactly_once"]

log = logging.getLogger(__name__)

_S = TransactionState

_PASSES: Final = (
    CommitFailedError,  # the group rebalanced
    KafkaTimeoutError,  # a record was too late
    OutOfOrderSequenceNumber,  # as the one behind it
    ProducerFenced,  # of a record, if the producer can go on all the same: time was up
    TransactionAbortableError,
)
"""Besides what is retriable: a transaction that was aborted for it may succeed the next time."""

_TO_ABORT: Final = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.ABORTING, _S.INITIALIZING)
"""The states in which an abort is to be asked for, or waited for."""


def exactly_once(
    consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, *, max_records: int | None = None
) -> "ExactlyOnce":
    """Read, process and write in transactions: what is made of each record is seen once. (ours)

        async with exactly_once(consumer, producer) as batches:
            async for batch in batches:
                for record in batch:
                    await producer.send("cooked", record.value.upper(), key=record.key)

    All that is sent in the body belongs to the batch's transaction, which is committed, with the
    offsets, when the next batch is asked for, or the block is left in order. There is no need to
    await the acks. A transaction that fails for what passes (a rebalance, a broker that was away)
    is aborted, and its records are handed out again. An exception in the body, one of `send` too,
    ends the loop: the transaction is aborted, and the records are the next to be read.

    Without the block (`async for batch in exactly_once(...)`) nobody is told how the loop was
    left: by `break` too, the batch at hand is aborted, in the background. The loop itself ends,
    after its batch, when the consumer is stopped.

    Args:
        consumer: Started, with a `group_id` and `enable_auto_commit=False`; should have
            `isolation_level="read_committed"`. Nobody else reads from it, or commits.
        producer: Started, with a `transactional_id` that no other worker has at the same time.
            Nobody else begins or ends its transactions.
        max_records: Most records of a batch; the consumer's `max_poll_records` or 2,048 by
            default. A transaction costs a few requests, however much there is in it.

    Raises:
        IllegalOperation: The consumer has no group, or the producer no `transactional_id`.
        KafkaConfigurationError: (a ValueError) the consumer commits by itself; `max_records` is
            no positive integer.
    """
    return ExactlyOnce(consumer, producer, max_records)


class TransactionBatch:
    """What is processed in one transaction: records of one or more partitions.

    Iterating gives all of them, one partition after the other, each in the order of its offsets.

    Attributes:
        parts: A `RecordBatch` of each partition.
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
        """What is committed with the transaction."""
        return {tp: offset for part in self.parts for tp, offset in part.offsets.items()}

    def __repr__(self) -> str:
        return f"<{len(self)} records of {_named(self.offsets)}>"


class _Part(NamedTuple):
    """Of the batch at hand, what is of one partition."""

    taken: RecordBatch
    state: PartitionState
    generation: int
    """Of the state, when it was taken."""


class ExactlyOnce:
    """The block, and the batches within it; see `exactly_once`."""

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
        # The group refers to this while a loop runs, and must not keep a consumer that is dropped.
        self._consumer = weakref.ref(consumer)
        self._core = core
        self._group = core.group
        self._producer = producer
        self._machine = transactions.machine
        self._limit = max_records or core.options.max_poll_records or BULK
        self._backoff = producer._options.retry_backoff
        self._parts: tuple[_Part, ...] = ()  # of the batch at hand
        self._lease: AssignmentLease = core.leases.current  # of the read that took it
        self._committing = False  # it was asked to be
        self._through = asyncio.Event()  # nothing is at hand
        self._in_block = False
        self._failure: Exception | None = None  # raised when the batch before it is through
        self._failures = 0  # transactions that were aborted, in a row
        self._one_by_one = asyncio.Lock()  # who settles second waits for the first
        self._tasks = TaskOwner("exactly_once", _on_task_error, core.loop)

    # The loop

    async def __aenter__(self) -> Self:
        # A start that failed since then has made other ones.
        consumer, transactions = self._consumer(), self._producer._transactions
        if consumer is not None and (group := consumer._core.group) is not None:
            self._core, self._group = consumer._core, group
        if transactions is not None:
            self._machine = transactions.machine
        self._in_block = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._in_block = False
        try:
            if error is None and self._parts:
                await self._commit()
        finally:
            await self._settle_and_leave()

    def __aiter__(self) -> "_Loop":
        return _Loop(self, self._consumer())

    async def run(self, process: Callable[[TransactionBatch], Awaitable[None]]) -> None:
        """Process one batch after the other until the consumer is stopped.

        As the loop; but what `process` raises because the transaction has to be aborted, and
        which passes, has the batch processed again.

        Args:
            process: Given each batch; sends what it makes of it.

        Raises:
            Exception: What else `process` raised. The transaction was aborted, and the records
                are the next to be read.
            KafkaError: As of the loop.

        Cancellation: aborts the transaction, unless its commit is under way.
        """
        async with self:
            async for batch in self:
                try:
                    await process(batch)
                except KafkaError as error:
                    if self._machine.state is not _S.ABORTABLE_ERROR:
                        raise
                    await self._try_again(error)

    async def next_batch(self) -> TransactionBatch:
        """Commit the batch at hand, and take the next one, waiting for it.

        Raises:
            StopAsyncIteration: The consumer was stopped.
            KafkaError: Of the consumer, as of `getone`. Or the transaction cannot succeed, and
                was aborted; or the producer is at its end.
            IllegalOperation: The producer's transaction was ended by somebody else, or begun.

        Cancellation: safe. A commit goes on, and is waited for by the end of the block.
        """
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
        self._through.clear()
        try:
            await self._producer.begin_transaction()  # which waits for nothing
        except BaseException:
            self._give_back()
            raise
        return TransactionBatch(tuple(part.taken for part in self._parts))

    def on_left(self) -> None:
        """The loop is over. Called by a finalizer, in any thread."""
        loop = self._core.loop
        if not self._in_block and not loop.is_closed():
            loop.call_soon_threadsafe(self._on_left)

    def _on_left(self) -> None:
        if self._parts:
            self._tasks.spawn(self._settle_and_leave(), "end a transaction that was left open")
        else:
            self._leave()

    # What is at hand

    def _take(self) -> tuple[_Part, ...] | None:
        """Take what is buffered, up to the limit."""
        self._lease = self._core.leases.current
        parts: dict[TopicPartition, _Part] = {}
        left = self._limit
        while left > 0:
            try:
                taken = self._core.buffer.take_batch(left)
            except Exception as error:
                if not parts:
                    raise
                self._failure = error  # its turn is after what came before it
                break
            if taken is None:
                break
            left -= len(taken)
            tp = taken.topic_partition
            if tp in parts:
                taken = _joined(parts[tp].taken, taken)
            state = self._core.positions.state(tp)
            parts[tp] = _Part(taken, state, state.generation)
        return tuple(parts.values()) or None

    def _check_held(self) -> None:
        """Raise CommitFailedError unless the partitions were this consumer's all the time."""
        error = self._lease.broken_for(part.state.tp for part in self._parts)
        if error is not None:
            raise error
        if self._core.subscription.shared and self._member.generation < 0:
            raise CommitFailedError("the consumer is not in its group any more")

    @property
    def _member(self) -> GroupMetadata:
        """Who the consumer is now, not when it read: a rebalance may have left it what it has."""
        return self._group.driver.membership.group_metadata()

    def _give_back(self) -> None:
        """Have it read again, but for what the application sought, or what is gone."""
        for taken, state, generation in self._parts:
            self._core.give_back(state, generation, taken.start, taken.start_epoch)
        self._failure = None
        self._end()

    def _end(self) -> None:
        """It is no business of this any more."""
        self._parts = ()
        self._committing = False
        self._through.set()

    async def before_going(self, partitions: set[TopicPartition]) -> None:
        """The group is about to take partitions: it waits until the batch is through."""
        if all(part.state.tp not in partitions for part in self._parts):
            return
        patience = self._group.options.effective_rebalance_timeout / 2
        try:
            async with asyncio.timeout(patience):
                await self._through.wait()
        except TimeoutError:
            log.warning(
                "A batch was not completed within %g s; its transaction will be aborted", patience
            )

    # Its transaction

    async def _commit(self) -> None:
        """Commit what is at hand, with its offsets. If that raises, `_settle` is to come next."""
        if not self._committing:
            self._check_held()
            offsets = {tp: at for part in self._parts for tp, at in part.taken.offsets.items()}
            try:
                member = ConsumerGroupMetadata.leased(self._member, self._lease)
                await self._producer.send_offsets_to_transaction(offsets, member)
            except KafkaTimeoutError:
                if self._machine.error is not None:
                    raise
                # They are on their way, and the commit waits for them.
            self._committing = True
        await self._waited_for(self._producer.commit_transaction, patiently=True)
        self._failures = 0
        self._end()

    async def _settle(self, *, patiently: bool) -> None:
        """Bring the transaction to an end, with an abort unless a commit is under way, and have
        read again what was not committed. A commit that may have taken place is left at hand.

        Raises:
            KafkaTimeoutError: That was not done in time (never if patiently).
        """
        async with self._one_by_one:
            if not self._parts:
                return
            machine, producer = self._machine, self._producer
            commits = self._committing and machine.state is not _S.FATAL_ERROR
            if commits and await self._ended_well(producer.commit_transaction, patiently=patiently):
                self._end()
                return
            if machine.state in _TO_ABORT:
                await self._ended_well(producer.abort_transaction, patiently=patiently)
            if not (self._committing and machine.state is _S.FATAL_ERROR):
                self._give_back()

    async def _ended_well(self, end: Callable[[], Awaitable[None]], *, patiently: bool) -> bool:
        try:
            await self._waited_for(end, patiently=patiently)
        except KafkaError:
            if self._machine.error is None:
                raise  # it did not end
            return False
        return True

    async def _waited_for(self, end: Callable[[], Awaitable[None]], *, patiently: bool) -> None:
        """Commit or abort; patiently: however long that takes."""
        while True:
            try:
                await end()
                return
            except KafkaTimeoutError as error:
                if self._machine.error is not None or not patiently:
                    raise
                log.warning("%s", error)

    async def _try_again(self, error: KafkaError) -> None:
        """What is at hand could not be committed: have it read again, after a pause; or raise the
        error, where that would not help."""
        await self._settle(patiently=True)
        passes = error.retriable or isinstance(error, _PASSES)
        if not passes or self._machine.state is not _S.READY:
            raise error
        self._failures += 1
        log.warning("A transaction was aborted; its records will be read again: %s", error)
        await asyncio.sleep(self._backoff.delay(self._failures))

    # One loop after the other

    async def _take_over(self) -> None:
        """Settle what a loop before this one has left."""
        before = self._group.work
        if isinstance(before, ExactlyOnce) and before is not self:
            await before._settle(patiently=True)
            await before._read_on()
        self._group.work = self

    async def _read_on(self) -> None:
        """What is at hand is committed, or not: read on where the group has got to."""
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
                    self._core.seek(state, taken.start, taken.start_epoch)
                else:
                    self._core.seek(state, found.offset, found.leader_epoch)
        self._failure = None
        self._end()

    async def _settle_and_leave(self) -> None:
        try:
            await self._settle(patiently=False)
        except KafkaError as error:
            log.warning("A transaction could not be ended: %s", error)
        self._through.set()  # whatever is left, nobody works at it
        self._leave()

    def _leave(self) -> None:
        if self._group.work is self and not self._parts:
            self._group.work = None


class _Loop:
    """An `async for` over batches: it ends when nobody refers to it any more.

    Args:
        batches: What it iterates over.
        consumer: Kept alive for as long as somebody iterates.
    """

    __slots__ = ("_batches", "_consumer")

    def __init__(self, batches: ExactlyOnce, consumer: AIOKafkaConsumer | None) -> None:
        self._batches = batches
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TransactionBatch:
        return await self._batches.next_batch()

    def __del__(self) -> None:
        self._batches.on_left()


def _joined(one: RecordBatch, other: RecordBatch) -> RecordBatch:
    """Two runs of one partition, one behind the other, as one."""
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
