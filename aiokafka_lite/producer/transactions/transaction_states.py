"""The states of a transactional producer, and what may follow what: sans-IO.

Source: TransactionManager.State of Kafka's Java client 4.4. Java goes from ABORTABLE_ERROR to
UNINITIALIZED, too, to begin anew after a refused InitProducerId; here that ends the producer.
"""

from enum import Enum
from typing import Final

__all__ = ["ENDING", "FOLLOWING", "OPEN", "TransactionState"]


class TransactionState(Enum):
    """Java's states, under Java's names."""

    __hash__ = object.__hash__  # Enum's own is a Python call, and each change looks some up

    UNINITIALIZED = "uninitialized"  # no producer id
    INITIALIZING = "initializing"  # asks for one, or for its next epoch
    READY = "ready"  # no transaction is open
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"  # the open transaction can only be aborted
    FATAL_ERROR = "fatal error"  # the producer can only be closed


_S = TransactionState

ENDING: Final = frozenset({_S.COMMITTING, _S.ABORTING})
OPEN: Final = ENDING | {_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}
"""There is a transaction, or what is left of one."""

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
"""INITIALIZING follows an end after which the epoch has to be bumped by the client (KIP-360)."""
