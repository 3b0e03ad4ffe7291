"""The state machine of a transactional producer: sans-IO (KIP-98, 360, 447, 691, 890).

The application begins and ends transactions. The sender reports partitions that have something to
send, and batches that failed. A driver takes the next step, sends it to a coordinator, and returns
the outcome. One step is under way at a time. Callers pass times, in seconds of a monotonic clock.

There are two generations of the protocol. In the older one a partition (or a group, for its
offsets) is added to the transaction before anything is written to it, and the epoch stays the same
from one transaction to the next. With `transaction.version` 2 (KIP-890) the first batch itself adds
its partition, and each end assigns a new epoch, so that late requests cannot be mistaken for those
of the next transaction. A transaction ends in the generation in which it began.

Non-obvious:
- A coordinator without an open transaction refuses to end one of the older generation. So if
  nothing was added, no request is sent at all. If an answer was lost, something may have been
  added: then an abort is sent, and its refusal shows that nothing was. (Java adds again first.)
- A numbered batch that failed leaves a gap, for which the next batch would be refused. In the older
  generation the client then bumps the epoch after the abort (KIP-360). Brokers before 2.5 cannot do
  that, so the error is fatal. Java does not fail there, but has to guess whether the batch was
  stored.
- An abort that the coordinator refuses is a fatal error, because no other request can help.
- Besides the coordinator's check of the member, this client checks offsets against the consumer's
  lease: see `group.assignment_lease`. (Java's client has no such check, and needs it less, because
  its partitions change only within `poll`.)
- `drained` means that no batch waits and no request with one is in flight, overdue ones included:
  so no batch of a transaction can arrive after its end.
"""

import copy
from collections.abc import Mapping
from typing import Final

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    BrokerResponseError,
    CommitFailedError,
    ConcurrentTransactions,
    IllegalOperation,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    KafkaProtocolError,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.produce_errors import PRODUCER_REFUSED
from aiokafka_lite.producer.transactions.transaction_contents import Contents
from aiokafka_lite.producer.transactions.transaction_errors import (
    Reaction,
    error_of,
    gravest,
    reaction,
)
from aiokafka_lite.producer.transactions.transaction_states import (
    ENDING,
    FOLLOWING,
    OPEN,
    REMEDIES,
    TransactionState,
)
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    CoordinatorKey,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsOrder,
    Step,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionMachine", "soon"]

IMPLICIT_FROM: Final = 2
"""Level of `transaction.version` at which the newer generation begins."""

_SOON: Final = 0.005
"""Seconds until the first add of a transaction is retried while the brokers are still ending the
previous transaction, which takes them a few milliseconds. (Java waits 20 ms.)"""

_TOPIC_REFUSED: Final = TopicAuthorizationFailedError.errno
_NO_TRANSACTION: Final = InvalidTxnState.errno
_CONCURRENT: Final = ConcurrentTransactions.errno

_S = TransactionState
_R = Reaction


def soon(failures: int) -> float:
    """Return the seconds until a request that waits for the previous transaction is retried.

    That is about half the time it has waited so far.
    """
    return _SOON * 1.5 ** min(failures - 1, 10)


class TransactionMachine:
    """The state machine of one producer's transactions.

    Args:
        transactional_id: The producer's transactional id.
        identity: The producer's identity, to which this machine assigns ids and epochs.
        backoff: The delays before a step is retried.

    Attributes:
        state: The current state.
        error: The cause of ABORTABLE_ERROR or FATAL_ERROR.
        transitions: Counts changes of the state.
    """

    def __init__(
        self, transactional_id: str, identity: TransactionalIdentity, backoff: Backoff
    ) -> None:
        self.state = _S.UNINITIALIZED
        self.error: KafkaError | None = None
        self.transitions = 0
        self._place: CoordinatorKey = (CoordinatorKind.TRANSACTION, transactional_id)
        self._identity = identity
        self._backoff = backoff
        self._level = 0  # the last transaction.version that the coordinator reported
        self._can_bump = False  # the coordinator supports KIP-360
        self._found: set[CoordinatorKey] = set()
        self._under_way: Step | None = None
        self._failures = 0  # in a row
        self._last_error: KafkaError | None = None  # of the last failure
        self._retry_at = 0.0
        self._contents = Contents()
        self._bump = False  # the client must bump the epoch after the end
        self._older = False  # a transaction of the older generation had this epoch
        self._held = False  # no batch of the open transaction may be sent to a broker yet

    @property
    def implicit(self) -> bool:
        """True if the open transaction, or the last one, is of the newer generation."""
        return self._identity.implicit

    @property
    def trouble(self) -> KafkaError | None:
        """The error of the previous step; None if it succeeded."""
        return self._last_error if self._failures else None

    # Called by the application

    def initialize(self) -> None:
        """Get a producer id, which fences other producers with the same transactional id."""
        self._become(_S.INITIALIZING)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaError: A fatal error, or the previous transaction must be aborted.
            IllegalOperation: A transaction is open or being ended.
        """
        self._check("begin a transaction", _S.READY)
        self._identity.implicit = self._level >= IMPLICIT_FROM
        self._become(_S.IN_TRANSACTION)

    def commit(self) -> None:
        """Commit the open transaction once everything is written; `state` shows the outcome.

        Raises:
            KafkaError: A fatal error, or the transaction must be aborted.
            IllegalOperation: No transaction is open.
        """
        self._check("commit", _S.IN_TRANSACTION)
        self._become(_S.COMMITTING)

    def abort(self) -> None:
        """Abort the open transaction; `state` shows the outcome.

        Raises:
            KafkaError: A fatal error.
            IllegalOperation: No transaction is open.
        """
        if self.state is not _S.ABORTABLE_ERROR:
            self._check("abort", _S.IN_TRANSACTION)
        self._become(_S.ABORTING)
        self._retry_at = 0.0
        self._contents.drop(TransactionAbortedError("the transaction was aborted"))

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> OffsetsOrder:
        """Commit offsets with the open transaction; the order is `done` when they are part of it.

        If the consumer has lost a partition since the read, the transaction must be aborted.

        Raises:
            KafkaError: A fatal error, or the transaction must be aborted.
            IllegalOperation: No transaction is open.
        """
        self.check_open("send offsets")
        order = OffsetsOrder(group, dict(offsets), dict(offsets))
        self._contents.orders.append(order)
        self._check_lease(order)
        return order

    def hold(self) -> None:
        """Hold all requests of the transaction that just began until `release`.

        The brokers are still ending the previous one.
        """
        self._held = True

    def release(self) -> None:
        """Allow sending again after `hold`. Idempotent."""
        self._held = False

    def check_open(self, what: str) -> None:
        """Raise the errors of `add_offsets`, without adding any."""
        self._check(what, _S.IN_TRANSACTION)

    # Called by the sender

    def admit(self, partition: TopicPartition) -> bool:
        """True if a partition's batches may be sent now; if not, the partition will be added."""
        contents = self._contents
        if self._held:
            return False
        if self.implicit:
            contents.started = True
        elif partition not in contents.added:
            if self.state is _S.IN_TRANSACTION or self.state is _S.COMMITTING:
                contents.to_add[partition] = None
            return False
        return self.state is not _S.FATAL_ERROR

    def admitted(self, partition: TopicPartition) -> bool:
        """True if the coordinator lets the partition's batches be sent; has no side effects."""
        return not self._held and (self.implicit or partition in self._contents.added)

    def on_batch_failed(self, error: KafkaError, *, numbered: bool) -> None:
        """A batch of the open transaction failed; it may have been written.

        Args:
            numbered: True if the batch had a sequence number.
        """
        if self.state not in OPEN:
            return
        if isinstance(error, PRODUCER_REFUSED):
            self._fail(error)
            return
        if isinstance(error, InvalidProducerEpoch):
            # The producer is fenced; the next request to end the transaction confirms it.
            error = ProducerFenced(str(error.args[0]) if error.args else "")
        if numbered and not self.implicit:
            if not self._can_bump:
                fatal = UnsupportedVersionError(
                    "a batch of the transaction failed after it was sent, and the "
                    "coordinator cannot give this producer a new epoch, as Kafka 2.5 and newer do "
                    f"(KIP-360): create a new producer. The batch failed because of: {error}"
                )
                fatal.__cause__ = error
                self._fail(fatal)
                return
            self._bump = True
        self._spoil(error)

    # Steps

    def next_step(self, now: float, *, drained: bool) -> Step | None:
        """Return the step to take now, if any.

        It is under way until `on_answer`, `on_found` or `on_error` is called.

        Args:
            drained: True if no batch of the transaction waits to be sent or is in flight.
        """
        if self._under_way is not None or now < self._retry_at:
            return None
        self._retry_at = 0.0  # even if there is no step: it must not cause another wake-up
        step = self._wanted(drained)
        if step is not None and step.place not in self._found:
            step = FindCoordinator(step.place)
        self._under_way = step
        if isinstance(step, CommitOffsets) and step.implicit:
            self._contents.started = True
        return step

    def next_wakeup(self) -> float | None:
        """Return when to call `next_step` again without another event; None: never."""
        return self._retry_at if self._under_way is None and self._retry_at else None

    def _wanted(self, drained: bool) -> Step | None:
        if self.state in ENDING and drained and self._contents.unknown:
            self._complete()
        place, identity = self._place, self._identity.stamp
        if self.state is _S.INITIALIZING:
            return InitProducer(place, identity)
        if self.state is _S.IN_TRANSACTION or self.state is _S.COMMITTING:
            step = self._contents.next_step(place, identity, self.implicit)
            if isinstance(step, CommitOffsets) and self._check_lease(step.order):
                return None
            if step is not None:
                return None if self._held else step
        if self.state in ENDING and drained:
            return EndTransaction(place, identity, self.state is _S.COMMITTING, self.implicit)
        return None

    # Outcome of a step

    def on_coordinator(self, level: int, can_bump: bool) -> None:
        """Set the features of the transactional id's coordinator; call it for each connection.

        Args:
            level: Level of the finalized feature `transaction.version`; 0 without it.
            can_bump: True if it supports InitProducerId with an epoch (v3, KIP-360).
        """
        self._level = level
        self._can_bump = can_bump

    def on_found(self, step: FindCoordinator) -> None:
        """A coordinator was found."""
        self._land(step)
        self._found.add(step.place)

    def on_answer(self, step: Step, answer: Answer, now: float) -> None:
        """A coordinator answered."""
        self._land(step)
        if self.state is _S.FATAL_ERROR:
            return
        if answer.code:
            self._on_code(step, answer.code, now)
            return
        match step:
            case InitProducer():
                self._on_identity(answer)
            case AddPartitions():
                self._on_partitions(step, answer.partitions, now)
            case AddOffsets():
                self._contents.on_group(step)
                self._failures = 0
            case CommitOffsets():
                self._on_offsets(step, answer.partitions, now)
            case EndTransaction():
                self._on_ended(answer)
            case FindCoordinator():
                raise TypeError("on_found takes only FindCoordinator")

    def on_error(self, step: Step, error: KafkaError, now: float) -> None:
        """The request failed, or the answer cannot be read."""
        self._land(step)
        if self.state is _S.FATAL_ERROR:
            return
        reached = not isinstance(error, AuthenticationFailedError)  # otherwise not connected
        if reached and isinstance(error, BrokerResponseError):
            # If this client cannot encode the request for the broker, keep its own message.
            explained = error if isinstance(error, UnsupportedVersionError) else None
            self._on_code(step, error.errno, now, explained)
        elif error.retriable or not reached or isinstance(error, KafkaProtocolError):
            self._last_error = error
            self._found.discard(step.place)  # the coordinator may have moved to another broker
            self._contents.doubt |= isinstance(step, AddPartitions | AddOffsets)
            self._pause(now)
        else:
            self._fail(error)

    def _land(self, step: Step) -> None:
        if step is not self._under_way:
            raise ValueError(f"{step} is not in flight")
        self._under_way = None
        self._retry_at = 0.0

    def _on_identity(self, answer: Answer) -> None:
        if answer.identity is None:
            raise ValueError("the response to InitProducerId has no producer id")
        self._failures = 0
        self._bump = self._older = False
        self._identity.take(answer.identity)
        self._become(_S.READY)

    def _on_partitions(
        self, step: AddPartitions, codes: Mapping[TopicPartition, int], now: float
    ) -> None:
        left_out = step.partitions - codes.keys()
        failed = {tp: code for tp, code in codes.items() if code and tp in step.partitions}
        if not failed and not left_out:
            self._contents.on_partitions(step)
            self._failures = 0
        elif failed:
            self._on_codes(step, failed, now)
        else:
            self._pause(now)  # the answer omits partitions of the request

    def _on_offsets(
        self, step: CommitOffsets, codes: Mapping[TopicPartition, int], now: float
    ) -> None:
        if self._check_lease(step.order):
            return
        failed = {tp: code for tp, code in codes.items() if code and tp in step.offsets}
        if self._contents.on_offsets(step, codes):
            self._failures = 0
        elif failed:
            self._on_codes(step, failed, now)
        else:
            self._pause(now)

    def _check_lease(self, order: OffsetsOrder) -> bool:
        """Require an abort if the consumer has lost a partition of these offsets.

        The coordinator cannot detect this: a member may get the same generation back. This is
        checked before each request and after its answer, because the consumer's look-up of the
        committed offsets may have overtaken the request.

        Returns:
            True if the transaction must be aborted.
        """
        error = order.refused()
        if error is not None:
            self._spoil(error)
        return error is not None

    def _on_ended(self, answer: Answer) -> None:
        if answer.identity is not None:
            self._identity.take(answer.identity)
        self._complete()

    def _complete(self) -> None:
        """The transaction has been committed or aborted as requested."""
        self._older |= self._contents.started and not self.implicit
        if self._older and self._level >= IMPLICIT_FROM:
            # Records written under this epoch must not be attributed to the newer generation, even
            # if this transaction, which detected the newer one, wrote none.
            self._bump |= self._can_bump
        self._forget()
        self._become(_S.INITIALIZING if self._bump else _S.READY)

    def _forget(self) -> None:
        self._contents.forget()
        self._failures = 0
        self._retry_at = 0.0

    # Refusals

    def _on_codes(self, step: Step, codes: Mapping[TopicPartition, int], now: float) -> None:
        """Some partitions were refused: apply the most severe reaction."""
        code = gravest(step, codes.values())
        refused = {tp.topic for tp, each in codes.items() if each == code == _TOPIC_REFUSED}
        error = TopicAuthorizationFailedError(*sorted(refused)) if refused else None
        self._on_code(step, code, now, error)

    def _on_code(self, step: Step, code: int, now: float, error: KafkaError | None = None) -> None:
        what = reaction(step, code)
        if isinstance(step, AddPartitions | AddOffsets):
            self._contents.doubt |= for_code(code).ambiguous
        aborts = isinstance(step, EndTransaction) and not step.committed
        if aborts and code == _NO_TRANSACTION and self._contents.doubtful:
            self._complete()  # nothing had been added
            return
        if error is None:
            error = error_of(code, what, step)
        self._last_error = error
        match what:
            case _R.RETRY:
                self._pause(now, early=code == _CONCURRENT and self._opens(step))
            case _R.FIND:
                self._found.discard(step.place)
                self._pause(now)
            case _R.FENCED | _R.FATAL:
                self._fail(error)
            case _:
                self._on_abortable(step, what, error)

    def _on_abortable(self, step: Step, what: Reaction, error: KafkaError) -> None:
        if self.state is _S.INITIALIZING or (
            isinstance(step, EndTransaction) and self.state is _S.ABORTING
        ):
            self._fail(error)
            return
        if what is _R.BUMP and not self.implicit:
            if not self._can_bump:
                self._fail(error)
                return
            self._bump = True
        if what is _R.MISMATCH:
            mismatch = CommitFailedError(f"the consumer's group membership changed: {error}")
            mismatch.__cause__ = error
            error = mismatch
        self._spoil(error)

    def _opens(self, step: Step) -> bool:
        """True if the step begins the transaction at the coordinator."""
        return not self._contents.started and isinstance(
            step, AddPartitions | AddOffsets | CommitOffsets
        )

    def _pause(self, now: float, *, early: bool = False) -> None:
        self._failures += 1
        delay = self._backoff.delay(self._failures)
        self._retry_at = now + (min(soon(self._failures), delay) if early else delay)

    # States

    def _spoil(self, error: KafkaError) -> None:
        """Enter ABORTABLE_ERROR: the open transaction must be aborted."""
        if self.state is _S.IN_TRANSACTION or self.state is _S.COMMITTING:
            self.error = error
            self._become(_S.ABORTABLE_ERROR)
            self._contents.drop(error)

    def _fail(self, error: KafkaError) -> None:
        """Enter FATAL_ERROR: the producer must be closed."""
        if self.state is not _S.FATAL_ERROR:
            self.error = error
            self._become(_S.FATAL_ERROR)
            self._contents.drop(error)
            self._forget()

    def close(self, error: KafkaError) -> None:
        """Enter FATAL_ERROR because the producer is closed, even with an open transaction."""
        self._fail(error)

    def _check(self, what: str, wanted: TransactionState) -> None:
        if self.state is wanted:
            return
        if self.error is not None:
            raise copy.copy(self.error)
        where = f"the producer is {self.state.value}; {REMEDIES[self.state]}"
        if wanted is _S.READY:
            raise IllegalOperation(f"Can't {what}: {where}")
        raise IllegalOperation(f"Not in the middle of a transaction: can't {what}: {where}")

    def _become(self, state: TransactionState) -> None:
        if state not in FOLLOWING[self.state]:
            raise ValueError(f"invalid transition from {self.state} to {state}")
        self.state = state
        self.transitions += 1
        if state is not _S.COMMITTING:
            self._held = False
        if state is not _S.ABORTABLE_ERROR and state is not _S.FATAL_ERROR:
            self.error = None
