"""The effect of EndTxn in each state: end the transaction, do nothing, or raise an error.

Two tables: an old producer keeps its epoch across transactions, while one with EndTxn v5 gets a new
epoch with each (KIP-890, part 2), which distinguishes a repeated request from the next one.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from aiokafka_lite.testing.transactions.transaction import (
    LARGEST_EPOCH,
    ProducerIdentity,
    Transaction,
    TransactionState,
)

__all__ = ["must_end"]

LARGEST_ASSIGNED: Final = LARGEST_EPOCH - 1  # the largest epoch is never assigned to a producer


def must_end(
    transaction: Transaction, producer: ProducerIdentity, *, committed: bool, bumps: bool
) -> bool:
    """Return True if a request ends the transaction, False if it has already ended that way.

    Args:
        transaction: The current state.
        producer: The requesting producer.
        committed: True to commit, False to abort.
        bumps: True for EndTxn v5 or later, which ends in a new epoch.

    Raises:
        InvalidProducerIdMapping: The id belongs to another producer.
        ProducerFenced: Another epoch is current.
        ConcurrentTransactions: It is already ending that way.
        InvalidTxnState: It cannot end that way.
    """
    if bumps:
        return _must_end_with_bump(transaction, producer, committed=committed)
    _check_identity(transaction, producer)
    if transaction.state is TransactionState.ONGOING:
        return True
    if transaction.state is _complete(committed=committed):
        return False
    raise _refusal(transaction, committed=committed)


def _must_end_with_bump(
    transaction: Transaction, producer: ProducerIdentity, *, committed: bool
) -> bool:
    state, current = transaction.state, transaction.producer
    after_overflow = (
        transaction.previous_producer_id == producer.producer_id
        and producer.epoch == LARGEST_ASSIGNED
        and current.epoch == 0
    )
    repeated = after_overflow or current.epoch == producer.epoch + 1
    if current.producer_id != producer.producer_id and not after_overflow:
        raise _other_producer(transaction, producer)
    if state.is_ending:
        valid = repeated and not after_overflow
    elif state.is_over:
        valid = repeated or producer.epoch == current.epoch
    else:
        valid = producer.epoch == current.epoch
    if not valid:
        raise _fenced(transaction, producer)
    if state is TransactionState.ONGOING:
        return True
    if state.is_over and repeated and state is _complete(committed=committed):
        return False
    if not state.is_ending and not repeated and not committed:
        return True  # it may be unknown to the producer whether any of its requests arrived
    raise _refusal(transaction, committed=committed)


def _complete(*, committed: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT


def _check_identity(transaction: Transaction, producer: ProducerIdentity) -> None:
    if transaction.producer.producer_id != producer.producer_id:
        raise _other_producer(transaction, producer)
    if transaction.producer.epoch != producer.epoch:
        raise _fenced(transaction, producer)


def _refusal(transaction: Transaction, *, committed: bool) -> BrokerResponseError:
    wanted = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    if transaction.state is wanted:
        return ConcurrentTransactions(f"{transaction} is still being completed")
    return InvalidTxnState(
        f"{transaction} cannot be {'committed' if committed else 'aborted'} in state"
        f" {transaction.state}"
    )


def _other_producer(
    transaction: Transaction, producer: ProducerIdentity
) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(
        f"producer id {producer.producer_id} does not own {transaction}"
    )


def _fenced(transaction: Transaction, producer: ProducerIdentity) -> ProducerFenced:
    return ProducerFenced(
        f"epoch {producer.epoch} is not the current epoch {transaction.producer.epoch} of"
        f" {transaction}"
    )
