"""A transactional producer's state, and what is asked next: sans-IO (KIP-98, 360, 447, 691, 890).

The application begins and ends transactions; the sender tells which partitions have something to
send, and which batches failed; a driver asks for the next step, has a coordinator carry it out, and
hands back what came of it. One step is under way at a time. Instants are seconds of a monotonic
clock, handed in.

There are two generations of the protocol. In the older one a partition (or a group, for its
offsets) is added to the transaction before anything is written there, and the epoch stays from one
transaction to the next. With `transaction.version` 2 (KIP-890) the first batch itself adds its
partition, and each end gives a new epoch, so that what comes late is told from the next
transaction. A transaction is ended in the generation that it was begun in.

Non-obvious:
- A coordinator that knows of nothing refuses to end a transaction of the older generation. So with
  nothing added, nothing is asked at all. Where an answer was lost, something may have been added:
  then an abort is asked for, and its refusal says that there was nothing. (Java adds again first.)
- A batch that failed after it was numbered leaves a gap that the next one would be refused for. In
  the older generation the client bumps the epoch then, after the abort (KIP-360); brokers before
  2.5 cannot do that, and the producer is at its end. Java is laxer there, at the price of guessing
  whether the batch was stored.
- An abort that a coordinator will not hear of ends the producer: there is nothing left to try.
- Offsets are checked against the consumer's lease by this client, besides the coordinator's check
  of the member: see `group.lease`. (Java's client has no such check, and needs it less: its
  partitions come and go within `poll` only.)
- `drained` means that no batch waits and no request with one is in flight, overdue ones included:
  so nothing of a transaction can arrive after its end.
"""

import copy
from collections.abc import Mapping
from typing import Final

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
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
from aiokafka_lite.group.membership import GroupMetadata
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
    TransactionState,
)
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsOrder,
    Place,
    Step,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionMachine", "soon"]

IMPLICIT_FROM: Final = 2
"""Level of `transaction.version` that the newer generation begins with."""

_SOON: Final = 0.005
"""Seconds until the first add of a transaction is tried again, while the one before is still being
ended by the brokers, which takes them a few milliseconds. (Java waits for 20.)"""

_TOPIC_REFUSED: Final = TopicAuthorizationFailedError.errno
_NO_TRANSACTION: Final = InvalidTxnState.errno
_CONCURRENT: Final = ConcurrentTransactions.errno

_S = TransactionState
_R = Reaction


def soon(failures: int) -> float:
    """Seconds until what waits for the transaction before is tried again: half as long as it has
    waited, about."""
    return _SOON * 1.5 ** min(failures - 1, 10)


class TransactionMachine:
    """One producer's transactions.

    Args:
        transactional_id: Its name.
        identity: The producer's, which this machine gives its ids and epochs.
        backoff: Before a step is tried again.

    Attributes:
        state: Where it stands.
        error: Why, in ABORTABLE_ERROR and FATAL_ERROR.
        transitions: Counts changes of the state.
    """

    def __init__(
        self, transactional_id: str, identity: TransactionalIdentity, backoff: Backoff
    ) -> None:
        self.state = _S.UNINITIALIZED
        self.error: KafkaError | None = None
        self.transitions = 0
        self._place: Place = (CoordinatorKind.TRANSACTION, transactional_id)
        self._identity = identity
        self._backoff = backoff
        self._level = 0  # of transaction.version, as the coordinator told it last
        self._can_bump = False  # the coordinator knows KIP-360
        self._found: set[Place] = set()
        self._under_way: Step | None = None
        self._failures = 0  # in a row
        self._last_error: KafkaError | None = None  # of the last failure
        self._retry_at = 0.0
        self._contents = Contents()
        self._bump = False  # the client is to bump the epoch after the end
        self._held = False  # the open transaction is not to be known to any broker yet

    @property
    def implicit(self) -> bool:
        """The open transaction, or the last, is of the newer generation."""
        return self._identity.implicit

    @property
    def trouble(self) -> KafkaError | None:
        """Why the step before did not succeed; None if it did."""
        return self._last_error if self._failures else None

    # What the application does

    def initialize(self) -> None:
        """Get a producer id; whoever else has the transactional id is fenced by it."""
        self._become(_S.INITIALIZING)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaError: The producer is at its end, or the transaction before has to be aborted.
            IllegalOperation: One is open, or is being ended.
        """
        self._check("begin a transaction", _S.READY)
        self._identity.implicit = self._level >= IMPLICIT_FROM
        self._become(_S.IN_TRANSACTION)

    def commit(self) -> None:
        """Commit the open transaction, as soon as all is written. The state tells the outcome.

        Raises:
            KafkaError: The producer is at its end, or the transaction can only be aborted.
            IllegalOperation: None is open.
        """
        self._check("commit", _S.IN_TRANSACTION)
        self._become(_S.COMMITTING)

    def abort(self) -> None:
        """Abort the open transaction. The state tells the outcome.

        Raises:
            KafkaError: The producer is at its end.
            IllegalOperation: None is open.
        """
        if self.state is not _S.ABORTABLE_ERROR:
            self._check("abort", _S.IN_TRANSACTION)
        self._become(_S.ABORTING)
        self._retry_at = 0.0
        self._contents.drop(TransactionAbortedError("the transaction is aborted"))

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> OffsetsOrder:
        """Commit offsets with the open transaction; the order tells when they are part of it.
        If the consumer has given a partition up since it read, the transaction can only be aborted.

        Raises:
            KafkaError: The producer is at its end, or the transaction can only be aborted.
            IllegalOperation: None is open.
        """
        self.check_open("send offsets")
        order = OffsetsOrder(group, dict(offsets), dict(offsets))
        self._contents.orders.append(order)
        self._check_lease(order)
        return order

    def hold(self) -> None:
        """Let nothing of the transaction that was just begun be asked or sent until `release`:
        the brokers are still ending the one before."""
        self._held = True

    def release(self) -> None:
        """It may be. Idempotent."""
        self._held = False

    def check_open(self, what: str) -> None:
        """Raise as `add_offsets` does, and do nothing else."""
        self._check(what, _S.IN_TRANSACTION)

    # What the sender tells

    def admit(self, partition: TopicPartition) -> bool:
        """Whether what waits for a partition may be sent now; if not yet, it is being added."""
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
        """Whether `admit` has let a partition in, as far as that is up to the coordinator."""
        return not self._held and (self.implicit or partition in self._contents.added)

    def on_batch_failed(self, error: KafkaError, *, numbered: bool) -> None:
        """A batch of the open transaction will not be written, or nobody knows whether it was.

        Args:
            numbered: It had a sequence number.
        """
        if self.state not in OPEN:
            return
        if isinstance(error, PRODUCER_REFUSED):
            self._fail(error)
            return
        if isinstance(error, InvalidProducerEpoch):
            # The end that is asked for next tells whether the producer is fenced, which it is.
            error = ProducerFenced(str(error.args[0]) if error.args else "")
        if numbered and not self.implicit:
            if not self._can_bump:
                self._fail(error)
                return
            self._bump = True
        self._spoil(error)

    # Steps

    def next_step(self, now: float, *, drained: bool) -> Step | None:
        """What is to be asked at this moment, if anything. It is under way then, until one of
        `on_answer`, `on_found` and `on_error` is called.

        Args:
            drained: Nothing of the transaction waits to be sent, or is in flight.
        """
        if self._under_way is not None or now < self._retry_at:
            return None
        self._retry_at = 0.0  # over, even if nothing is left to ask: it must wake nobody again
        step = self._wanted(drained)
        if step is not None and step.place not in self._found:
            step = FindCoordinator(step.place)
        self._under_way = step
        if isinstance(step, CommitOffsets) and step.implicit:
            self._contents.started = True
        return step

    def next_wakeup(self) -> float | None:
        """When `next_step` may have more to say though nothing happened; None: never."""
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

    # What came of a step

    def on_coordinator(self, level: int, can_bump: bool) -> None:
        """What the transactional id's coordinator knows; tell it with each connection to it.

        Args:
            level: Of the finalized feature `transaction.version`; 0 without.
            can_bump: It takes InitProducerId with an epoch (v3, KIP-360).
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
                raise TypeError("on_found reports a coordinator")

    def on_error(self, step: Step, error: KafkaError, now: float) -> None:
        """Nobody answered, or the answer cannot be read."""
        self._land(step)
        if self.state is _S.FATAL_ERROR:
            return
        if isinstance(error, BrokerResponseError):
            # What this client itself cannot say to a broker is told in its own words.
            told = error if isinstance(error, UnsupportedVersionError) else None
            self._on_code(step, error.errno, now, told)
        elif error.retriable or isinstance(error, KafkaProtocolError):
            self._last_error = error
            self._found.discard(step.place)  # it may have moved with the broker's end
            self._contents.doubt |= isinstance(step, AddPartitions | AddOffsets)
            self._pause(now)
        else:
            self._fail(error)

    def _land(self, step: Step) -> None:
        if step is not self._under_way:
            raise ValueError(f"{step} is not under way")
        self._under_way = None
        self._retry_at = 0.0

    def _on_identity(self, answer: Answer) -> None:
        if answer.identity is None:
            raise ValueError("InitProducerId is answered by an identity")
        self._failures = 0
        self._bump = False
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
            self._pause(now)  # the answer is not about what was asked

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
        """Abort the transaction if the consumer has given up what these offsets were read from.

        The coordinator cannot tell: a member may get the same generation back. This is asked before
        each request and after its answer, since the consumer's look-up of the committed offsets may
        have overtaken it.

        Returns:
            True if the transaction can only be aborted.
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
        """The transaction has ended as it was to."""
        if not self.implicit and self._level >= IMPLICIT_FROM and self._contents.started:
            # What was written under this epoch must not be taken for the newer generation's.
            self._bump |= self._can_bump
        self._forget()
        self._become(_S.INITIALIZING if self._bump else _S.READY)

    def _forget(self) -> None:
        self._contents.forget()
        self._failures = 0
        self._retry_at = 0.0

    # Refusals

    def _on_codes(self, step: Step, codes: Mapping[TopicPartition, int], now: float) -> None:
        """Some partitions were refused: the gravest reaction counts."""
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
            self._complete()  # there was nothing
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
            mismatch = CommitFailedError(f"the consumer is not in its group as it was: {error}")
            mismatch.__cause__ = error
            error = mismatch
        self._spoil(error)

    def _opens(self, step: Step) -> bool:
        """Whether a step makes the coordinator's transaction begin."""
        return not self._contents.started and isinstance(
            step, AddPartitions | AddOffsets | CommitOffsets
        )

    def _pause(self, now: float, *, early: bool = False) -> None:
        self._failures += 1
        delay = self._backoff.delay(self._failures)
        self._retry_at = now + (min(soon(self._failures), delay) if early else delay)

    # States

    def _spoil(self, error: KafkaError) -> None:
        """The open transaction can only be aborted."""
        if self.state is _S.IN_TRANSACTION or self.state is _S.COMMITTING:
            self.error = error
            self._become(_S.ABORTABLE_ERROR)
            self._contents.drop(error)

    def _fail(self, error: KafkaError) -> None:
        """The producer can only be closed."""
        if self.state is not _S.FATAL_ERROR:
            self.error = error
            self._become(_S.FATAL_ERROR)
            self._contents.drop(error)
            self._forget()

    def close(self, error: KafkaError) -> None:
        """The producer is closed, whatever is open."""
        self._fail(error)

    def _check(self, what: str, wanted: TransactionState) -> None:
        if self.state is wanted:
            return
        if self.error is not None:
            raise copy.copy(self.error)
        if wanted is _S.READY:
            raise IllegalOperation(f"Can't {what}: the producer is {self.state.value}")
        raise IllegalOperation(
            f"Not in the middle of a transaction: can't {what} while {self.state.value}"
        )

    def _become(self, state: TransactionState) -> None:
        if state not in FOLLOWING[self.state]:
            raise ValueError(f"{self.state} is not followed by {state}")
        self.state = state
        self.transitions += 1
        if state is not _S.COMMITTING:
            self._held = False
        if state is not _S.ABORTABLE_ERROR and state is not _S.FATAL_ERROR:
            self.error = None
