"""What an error code means for a transaction: sans-IO, one table, and one function to read it.

Source: the handlers of TransactionManager in Kafka's Java client 4.4; KIP-360, 447, 588, 691, 890.
Where Java gives the producer up for something that aborting the transaction mends (text that the
broker finds too long, a group id that it does not take), the transaction is aborted here.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeAlias

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    InvalidTxnState,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    for_code,
)
from aiokafka_lite.errors.table import CODES, Trait
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    Step,
)

__all__ = ["CODES_OF", "DEFAULTS", "Reaction", "error_of", "gravest", "reaction"]


class Reaction(Enum):
    """What becomes of a transaction whose request was refused; the graver the later."""

    RETRY = "retry"  # later, of the same coordinator
    FIND = "find"  # find the coordinator, and ask that one
    ABORT = "abort"  # the application has to abort, and may go on then
    MISMATCH = "mismatch"  # abort: the consumer is no longer who it was in its group (KIP-447)
    BUMP = "bump"  # abort, and go on in a new epoch; without one, it cannot go on
    FATAL = "fatal"  # close the producer
    FENCED = "fenced"  # another producer has the transactional id: close this one


_R = Reaction

_StepKind: TypeAlias = type[Step] | tuple[type[FindCoordinator], CoordinatorKind]

_FIND_TRANSACTION: Final = (FindCoordinator, CoordinatorKind.TRANSACTION)
_FIND_GROUP: Final = (FindCoordinator, CoordinatorKind.GROUP)

# Of a coordinator that was asked to change something.
_COMMON: Final[dict[int, Reaction]] = {
    15: _R.FIND,  # COORDINATOR_NOT_AVAILABLE
    16: _R.FIND,  # NOT_COORDINATOR
    35: _R.FATAL,  # UNSUPPORTED_VERSION
    47: _R.FENCED,  # INVALID_PRODUCER_EPOCH, of brokers before 2.7 (KIP-588)
    48: _R.FATAL,  # INVALID_TXN_STATE
    49: _R.FATAL,  # INVALID_PRODUCER_ID_MAPPING: the id expired, or is another one's
    53: _R.FATAL,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    59: _R.BUMP,  # UNKNOWN_PRODUCER_ID
    90: _R.FENCED,  # PRODUCER_FENCED
    120: _R.ABORT,  # TRANSACTION_ABORTABLE
}

CODES_OF: Final[dict[_StepKind, dict[int, Reaction]]] = {
    _FIND_TRANSACTION: {53: _R.FATAL},
    _FIND_GROUP: {
        24: _R.ABORT,  # INVALID_GROUP_ID
        30: _R.ABORT,  # GROUP_AUTHORIZATION_FAILED
        120: _R.ABORT,
    },
    InitProducer: _COMMON | {59: _R.FATAL, 120: _R.FATAL},  # nothing is open that could be aborted
    AddPartitions: _COMMON
    | {
        29: _R.ABORT,  # TOPIC_AUTHORIZATION_FAILED
        55: _R.ABORT,  # OPERATION_NOT_ATTEMPTED: refused for another partition's sake
    },
    AddOffsets: _COMMON | {24: _R.ABORT, 30: _R.ABORT},
    CommitOffsets: _COMMON
    | {
        7: _R.FIND,  # REQUEST_TIMED_OUT
        12: _R.ABORT,  # OFFSET_METADATA_TOO_LARGE
        22: _R.MISMATCH,  # ILLEGAL_GENERATION
        24: _R.ABORT,
        25: _R.MISMATCH,  # UNKNOWN_MEMBER_ID
        27: _R.MISMATCH,  # REBALANCE_IN_PROGRESS
        28: _R.ABORT,  # INVALID_COMMIT_OFFSET_SIZE
        29: _R.ABORT,
        30: _R.ABORT,
        69: _R.MISMATCH,  # GROUP_ID_NOT_FOUND: a member of a group that was deleted
        82: _R.ABORT,  # FENCED_INSTANCE_ID
        110: _R.MISMATCH,  # FENCED_MEMBER_EPOCH
        113: _R.MISMATCH,  # STALE_MEMBER_EPOCH
    },
    EndTransaction: _COMMON,
}
"""The codes that say more than whether they pass, by what was asked."""

DEFAULTS: Final[dict[_StepKind, Reaction]] = {
    _FIND_TRANSACTION: _R.FATAL,
    _FIND_GROUP: _R.FATAL,
    InitProducer: _R.FATAL,
    AddPartitions: _R.ABORT,
    AddOffsets: _R.FATAL,
    CommitOffsets: _R.FATAL,
    EndTransaction: _R.FATAL,
}
"""What any other code means that does not pass by itself (those that do are `RETRY`)."""


def reaction(step: Step, code: int) -> Reaction:
    """What to do about a code.

    Args:
        step: What it answers.
        code: No 0.
    """
    kind: _StepKind = type(step)
    if isinstance(step, FindCoordinator):
        kind = (FindCoordinator, step.place[0])
    known = CODES_OF[kind].get(code)
    if known is not None:
        return known
    _, traits = CODES.get(code, ("", Trait.NONE))
    return _R.RETRY if Trait.RETRIABLE in traits else DEFAULTS[kind]


def gravest(step: Step, codes: Iterable[int]) -> int:
    """Of the codes of some partitions, that which counts: one was refused for another's sake, and
    what has to be aborted for is not asked again for what passes."""
    told = [code for code in codes if code != OperationNotAttempted.errno]
    order = list(Reaction)
    return max(
        told,
        key=lambda code: order.index(reaction(step, code)),
        default=OperationNotAttempted.errno,
    )


def error_of(code: int, what: Reaction, step: Step) -> KafkaError:
    """The code as the error that the application sees."""
    if what is _R.FENCED:
        return ProducerFenced(
            "another producer has taken this transactional id, or the broker gave the transaction "
            "up (transaction_timeout_ms): close this producer"
        )
    about = _about(step)
    if code == InvalidTxnState.errno and isinstance(step, EndTransaction):
        about += (
            ": there is no such transaction any more; perhaps the cluster aborted it, since it "
            "took longer than transaction_timeout_ms"
        )
    return for_code(code)(about)


def _about(step: Step) -> str:
    match step:
        case FindCoordinator(place=(_, key)):
            return key
        case AddOffsets(group_id=group_id):
            return group_id
        case CommitOffsets(order=order):
            return order.group.group_id
        case _:
            return step.place[1]
