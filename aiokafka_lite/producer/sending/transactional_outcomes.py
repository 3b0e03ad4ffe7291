"""`Outcomes` in transactions: a failed batch fails its transaction."""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)
from aiokafka_lite.producer.batching.accumulator import Accumulator, PartitionQueue, ProducerBatch
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.produce_errors import NO_REASONS, Reaction
from aiokafka_lite.producer.producer_metrics import ProducerMetrics
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.outcomes import Outcomes
from aiokafka_lite.producer.transactions.transaction_driver import TransactionDriver
from aiokafka_lite.producer.transactions.transaction_machine import soon
from aiokafka_lite.producer.transactions.transaction_states import TransactionState

__all__ = ["TransactionalOutcomes"]

_FATAL: Final = TransactionState.FATAL_ERROR

_SHORT_LIVED: Final = (ConcurrentTransactions, NotEnoughReplicasError, OutOfOrderSequenceNumber)
"""Errors that brokers return while the previous transaction is still being ended: the first or the
second, by the version of the request. Batches behind a batch that was refused in this way get the
third."""


class TransactionalOutcomes(Outcomes):
    """Outcomes of batches in transactions: a failed batch fails its transaction.

    Args:
        transactions: Notified of failed batches.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        options: ProducerOptions,
        identity: TransactionalIdentity,
        metrics: ProducerMetrics,
        tasks: TaskOwner,
        name: str,
        transactions: TransactionDriver,
    ) -> None:
        super().__init__(cluster, accumulator, options, identity, metrics, tasks, name)
        self._transactions = transactions

    def _judge(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, what: Reaction
    ) -> None:
        machine = self._transactions.machine
        if what is Reaction.RENUMBER or what is Reaction.RENEW:
            what = Reaction.FAIL  # only the coordinator assigns new epochs, between transactions
        elif (
            what is Reaction.RETRY
            and machine.state is TransactionState.FATAL_ERROR
            and machine.error
        ):
            what, error = Reaction.FAIL, machine.error
        if isinstance(error, InvalidProducerEpoch) and what is Reaction.FAIL:
            fenced = ProducerFenced(
                "another producer took over the transactional id, or the transaction timed out"
            )
            fenced.__cause__ = error
            super().fail(queue, batch, fenced)
            self._transactions.on_batch_failed(error, numbered=True)
        else:
            super()._judge(queue, batch, error, what)

    def _pause(self, error: KafkaError, failures: int) -> float:
        pause = super()._pause(error, failures)
        if self._identity.implicit and isinstance(error, _SHORT_LIVED):
            pause = min(pause, soon(failures))
        return pause

    def fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BaseException,
        reasons: Mapping[int, str] = NO_REASONS,
    ) -> None:
        if batch.done:
            return  # the failure of another batch has failed it
        numbered = batch.producer is not None
        super().fail(queue, batch, error, reasons)
        if not self.closed:
            if not isinstance(error, KafkaError):
                wrapped = KafkaError(f"a batch could not be serialized: {error!r}")
                wrapped.__cause__ = error
                error = wrapped
            self._transactions.on_batch_failed(error, numbered=numbered)
