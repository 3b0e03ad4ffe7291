"""Asks the coordinator whether transactional batches may be appended (KIP-890).

The broker that leads a partition does so before the first batch of each transaction there. An old
producer has told the coordinator of the partition (AddPartitionsToTxn), which is verified; of a
newer one the batch itself makes the partition part of the transaction.

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
    """What the client of a request knows."""

    OLD = auto()  # it adds partitions before, and knows no error that can be aborted from
    KNOWS_ABORTABLE = auto()  # it adds partitions before
    ADDS_BY_WRITING = auto()  # it has an epoch for each transaction


def verify(
    transactions: Transactions,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Collection[TopicPartitionKey],
    asker: Asker,
    *,
    enabled: bool = True,
) -> dict[TopicPartitionKey, BrokerResponseError | None]:
    """What the coordinator says to each partition; None: it is part of the transaction.

    Args:
        transactions: The coordinator's.
        transactional_id: Of the producer.
        producer: What it writes under.
        partitions: Those that it has not written to in this transaction.
        asker: What its client knows.
        enabled: `transaction.partition.verification.enable`; without, old producers are
            believed, and a batch that comes after the end leaves a transaction that hangs.
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
    """The coordinator's error as one that a client expects of what it asked."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(str(error))
    if isinstance(error, TransactionAbortableError) and asker is Asker.OLD:
        return InvalidTxnState(str(error))
    if isinstance(error, ConcurrentTransactions) and asker is not Asker.ADDS_BY_WRITING:
        # Old clients are sure to ask again after this one, and without looking for a new leader.
        return NotEnoughReplicasError(f"the partition could not be verified: {error}")
    return error
