"""Verifies with the coordinator that transactional batches may be appended (KIP-890).

A partition's leader does this before the first batch of each transaction. For an old producer, it
verifies that AddPartitionsToTxn has added the partition; for a newer one, the batch itself adds the
partition to the transaction.

Source: Kafka's `ReplicaManager.handleProduceAppend` and `AddPartitionsToTxnManager`.
"""

from collections.abc import Collection
from enum import Enum, auto
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotEnoughReplicasError,
    ProducerFenced,
    TransactionAbortableError,
)
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity, TopicPartitionKey
from aiokafka_lite.testing.transactions.transaction_coordinator import Transactions

__all__ = ["VERIFICATION", "Asker", "verify"]

VERIFICATION: Final = "transaction.partition.verification.enable"


class Asker(Enum):
    """The kind of client that sent a request."""

    OLD = auto()  # adds partitions first, does not know TRANSACTION_ABORTABLE
    KNOWS_ABORTABLE = auto()  # adds partitions first
    ADDS_BY_WRITING = auto()  # has an epoch per transaction


def verify(
    transactions: Transactions,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartitionKey],
    asker: Asker,
    *,
    enabled: bool = True,
) -> dict[TopicPartitionKey, BrokerResponseError | None]:
    """Return the coordinator's error for each partition, or None if it is in the transaction.

    Args:
        transactions: The coordinator's transactions.
        transactional_id: The producer's transactional id.
        producer: The producer's id and epoch.
        partitions: The partitions to which it has not written in this transaction.
        asker: The kind of client.
        enabled: `transaction.partition.verification.enable`; if False, old producers are not
            verified, and a batch after the end leaves a hanging transaction.
    """
    if asker is not Asker.ADDS_BY_WRITING:
        if not enabled:
            return dict.fromkeys(partitions)
        return {
            partition: _verify_one(transactions, transactional_id, producer, partition, asker)
            for partition in partitions
        }
    try:
        transactions.add_partitions(transactional_id, producer, partitions)
    except BrokerResponseError as error:
        return dict.fromkeys(partitions, _for_client(error, asker))
    return dict.fromkeys(partitions)


def _verify_one(
    transactions: Transactions,
    transactional_id: str,
    producer: ProducerIdentity,
    partition: TopicPartitionKey,
    asker: Asker,
) -> BrokerResponseError | None:
    try:
        transactions.check_partition(transactional_id, producer, partition)
    except BrokerResponseError as error:
        return _for_client(error, asker)
    return None


def _for_client(error: BrokerResponseError, asker: Asker) -> BrokerResponseError:
    """Convert the coordinator's error to one that the client expects."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(str(error))
    if isinstance(error, TransactionAbortableError) and asker is Asker.OLD:
        return InvalidTxnState(str(error))
    if isinstance(error, ConcurrentTransactions) and asker is not Asker.ADDS_BY_WRITING:
        # Old clients retry after this error, without refreshing metadata.
        return NotEnoughReplicasError(f"the partition could not be verified: {error}")
    return error
