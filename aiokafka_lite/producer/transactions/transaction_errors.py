"""The meaning of each error code for a transaction: sans-IO, one table and its look-up.

Source: the handlers of TransactionManager in Kafka's Java client 4.4; KIP-360, 447, 588, 691, 890.
Some errors that are fatal in Java can be repaired by an abort (offset metadata that is too long, an
invalid group id). This client requires an abort after them.
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
from aiokafka_lite.errors.table import CODES, RETRIABLE
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
    """What to do after a refused request, in ascending order of severity."""

    RETRY = "retry"  # retry later, with the same coordinator
    FIND = "find"  # find the coordinator again, and retry with it
    ABORT = "abort"  # the application must abort, and can continue then
    MISMATCH = "mismatch"  # abort: the consumer's membership has changed (KIP-447)
    BUMP = "bump"  # abort, and continue in a new epoch; fatal if the epoch cannot be bumped
    FATAL = "fatal"  # close the producer
    FENCED = "fenced"  # another producer took over the transactional id: close this one


_R = Reaction

_StepKind: TypeAlias = type[Step] | tuple[type[FindCoordinator], CoordinatorKind]

_FIND_TRANSACTION: Final = (FindCoordinator, CoordinatorKind.TRANSACTION)
_FIND_GROUP: Final = (FindCoordinator, CoordinatorKind.GROUP)

# For all steps except FindCoordinator.
_COMMON: Final[dict[int, Reaction]] = {
    15: _R.FIND,  # COORDINATOR_NOT_AVAILABLE
    16: _R.FIND,  # NOT_COORDINATOR
    35: _R.FATAL,  # UNSUPPORTED_VERSION
    47: _R.FENCED,  # INVALID_PRODUCER_EPOCH, of brokers before 2.7 (KIP-588)
    48: _R.FATAL,  # INVALID_TXN_STATE
    49: _R.FATAL,  # INVALID_PRODUCER_ID_MAPPING: the id expired, or belongs to another producer
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
        55: _R.ABORT,  # OPERATION_NOT_ATTEMPTED: refused because of another partition
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
"""Codes with a specific reaction, by step."""

DEFAULTS: Final[dict[_StepKind, Reaction]] = {
    _FIND_TRANSACTION: _R.FATAL,
    _FIND_GROUP: _R.FATAL,
    InitProducer: _R.FATAL,
    AddPartitions: _R.ABORT,
    AddOffsets: _R.FATAL,
    CommitOffsets: _R.FATAL,
    EndTransaction: _R.FATAL,
}
"""The reaction to any other code that is not retriable (retriable codes are `RETRY`)."""


def reaction(step: Step, code: int) -> Reaction:
    """Return the reaction to an error code.

    Args:
        step: The step that was refused.
        code: The error code; not 0.
    """
    kind: _StepKind = type(step)
    if isinstance(step, FindCoordinator):
        kind = (FindCoordinator, step.place[0])
    known = CODES_OF[kind].get(code)
    if known is not None:
        return known
    _, traits = CODES.get(code, ("", 0))
    return _R.RETRY if traits & RETRIABLE else DEFAULTS[kind]


def gravest(step: Step, codes: Iterable[int]) -> int:
    """Return the partitions' code with the most severe reaction.

    OPERATION_NOT_ATTEMPTED counts only if there is no other code, because another partition caused
    it. An error that needs an abort outweighs a retriable one.
    """
    specific = [code for code in codes if code != OperationNotAttempted.errno]
    order = list(Reaction)
    return max(
        specific,
        key=lambda code: order.index(reaction(step, code)),
        default=OperationNotAttempted.errno,
    )


def error_of(code: int, what: Reaction, step: Step) -> KafkaError:
    """Return the error that the application receives for a code."""
    if what is _R.FENCED:
        return ProducerFenced(
            "another producer uses this transactional id, or the coordinator aborted the "
            "transaction after transaction_timeout_ms: close this producer"
        )
    about = _about(step)
    if code == InvalidTxnState.errno and isinstance(step, EndTransaction):
        about += (
            ": the transaction no longer exists; the coordinator may have aborted it after "
            "transaction_timeout_ms"
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
