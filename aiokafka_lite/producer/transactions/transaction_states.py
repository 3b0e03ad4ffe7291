"""The states of a transactional producer and their transitions: sans-IO.

Source: TransactionManager.State of Kafka's Java client 4.4. Java also goes from ABORTABLE_ERROR to
UNINITIALIZED, to start over after a refused InitProducerId; here that refusal is fatal.
"""

from enum import Enum
from typing import Final

__all__ = ["ENDING", "FOLLOWING", "OPEN", "REMEDIES", "TransactionState"]


class TransactionState(Enum):
    """Java's states, under Java's names."""

    __hash__ = object.__hash__  # Enum's own is a slow Python call; each transition hashes states

    UNINITIALIZED = "uninitialized"  # no producer id
    INITIALIZING = "initializing"  # requests a producer id or its next epoch
    READY = "ready"  # no transaction is open
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"  # the open transaction must be aborted
    FATAL_ERROR = "fatal error"  # the producer must be closed


_S = TransactionState

ENDING: Final = frozenset({_S.COMMITTING, _S.ABORTING})
OPEN: Final = ENDING | {_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}
"""States with an open transaction, failed ones included."""

FOLLOWING: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.READY, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
"""INITIALIZING follows an end after which the client must bump the epoch (KIP-360)."""

REMEDIES: Final = {
    _S.UNINITIALIZED: "start() it first",
    _S.INITIALIZING: "wait until it has its producer id",
    _S.READY: "call begin_transaction() first",
    _S.IN_TRANSACTION: "commit or abort the open transaction first",
    _S.COMMITTING: "call commit_transaction() again to await the outcome",
    _S.ABORTING: "call abort_transaction() again to await the outcome",
    _S.ABORTABLE_ERROR: "call abort_transaction()",
    _S.FATAL_ERROR: "stop() it and create another one",
}
"""What an application can do about a call that the state does not allow."""
