"""The sender of a transactional producer: `Sender` with a gate.

Records are accepted only while a transaction is open. In the older generation of the protocol, a
partition's first batch of a transaction waits until the partition is added. A commit waits for
all batches. An abort drops those that were never sent (KIP-654); those that may be stored are
retried until their outcome is known.

Non-obvious:
- A queue is listed in an outbox only through the gate, and none stays listed when a transaction
  ends. So no batch of the next transaction can be sent without passing the gate.
- When the epoch has changed, all partitions written under the old one begin a new numbering; the
  others have already done so. In the older generation, these may be the partitions of many
  transactions.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.errors import (
    IllegalOperation,
    KafkaError,
    ProducerClosed,
)
from aiokafka_lite.producer.batching.accumulator import PartitionQueue
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.obstacles import Obstacle
from aiokafka_lite.producer.produce_errors import left_behind
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.outcomes import Outcomes
from aiokafka_lite.producer.sending.sender import Sender
from aiokafka_lite.producer.sending.transactional_outcomes import TransactionalOutcomes
from aiokafka_lite.producer.transactions.transaction_driver import TransactionDriver
from aiokafka_lite.producer.transactions.transaction_states import REMEDIES, TransactionState

__all__ = ["TransactionalSender"]

log = logging.getLogger(__name__)

_S = TransactionState

_OUTSIDE: Final = {
    state: IllegalOperation(
        f"Can't send messages while not in transaction: the producer is {state.value}; "
        f"{REMEDIES[state]}"
    )
    for state in TransactionState
}
"""Errors for a record outside of a transaction, by state; copies are raised."""


class TransactionalSender(Sender):
    """Delivers the records that are appended to its accumulator, in transactions.

    Args:
        cluster: Its owner starts and closes it.
        options: The producer's options.
        name: The producer's name, for its tasks and its log lines.
        loop: The producer's event loop.
        transactional_id: The producer's transactional id.
        timeout_ms: The cluster aborts a transaction that stays open longer than this.

    Attributes:
        transactions: Begins and ends the transactions.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        name: str,
        loop: asyncio.AbstractEventLoop,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self._stamped_by = identity = TransactionalIdentity()
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        super().__init__(cluster, options, name, loop, identity)
        self._touched: set[PartitionQueue] = set()  # written under `_stamp`
        self._stamp = identity.stamp
        self._watched = 0  # number of the transaction whose first batch is being watched
        self._closing = False

    def _make_outcomes(self) -> Outcomes:
        self.transactions = TransactionDriver(
            self._cluster,
            self._transactional_id,
            self._timeout_ms,
            self._options,
            self._stamped_by,
            self,
            self._tasks,
            self._loop,
            self._on_task_error,
        )
        return TransactionalOutcomes(
            self._cluster,
            self.accumulator,
            self._options,
            self._stamped_by,
            self.metrics,
            self._tasks,
            self._name,
            self.transactions,
        )

    @property
    def fatal(self) -> KafkaError | None:
        machine = self.transactions.machine
        if self.crash is None and machine.state is _S.FATAL_ERROR:
            return machine.error
        return super().fatal

    def start(self) -> None:
        """Follow the cluster's metadata. `transactions` gets the producer ids."""
        self.started = True
        self._cluster.add_listener(self._on_metadata)

    async def close(self, deadline: float) -> None:
        """End the open transaction, with an abort unless a commit is under way; then close."""
        self._closing = True
        self.accumulator.refusal = ProducerClosed("the producer was stopped")
        try:
            await self.transactions.close(deadline)
        except KafkaError as error:
            log.warning(
                "%s stopped with its transaction open: %s",
                self._name,
                error,
                extra=log_extra(self._name),
            )
        except asyncio.CancelledError:
            self.abort()
            raise
        await super().close(deadline)

    def abort(self) -> None:
        super().abort()
        self.transactions.stop()

    def metric_values(self) -> dict[str, float | None]:
        return super().metric_values() | self.transactions.times.snapshot()

    # The gate

    def _on_ready(self, queue: PartitionQueue) -> None:
        if self._admits(queue):
            super()._on_ready(queue)

    def _on_opened(self, queue: PartitionQueue) -> None:
        if self._admits(queue):
            super()._on_opened(queue)

    def _admits(self, queue: PartitionQueue) -> bool:
        if self.closed or not queue.waiting:
            return False
        transactions = self.transactions
        if (
            self._watched == self.accumulator.transaction
            and self._stamped_by.implicit
            and transactions.machine.state is not _S.FATAL_ERROR
        ):
            # If batches add their partitions, the first admitted batch admits all that follow.
            self._touched.add(queue)
            return True
        if transactions.machine.state is _S.FATAL_ERROR:
            # Pieces of a batch that was in flight when the producer failed.
            self._fail_unsent(transactions.machine.error, everything=True)
            return False
        if transactions.admit(queue.topic_partition):
            self._touched.add(queue)
            if self._watched != self.accumulator.transaction:
                self._watched = self.accumulator.transaction
                transactions.on_first_sent()
                queue.waiting[0].watch(transactions.on_first_resolved)
            return True
        return False

    def _obstacle(self, queue: PartitionQueue) -> Obstacle | None:
        machine = self.transactions.machine
        if not machine.admitted(queue.topic_partition):
            what = "the coordinator has not added the partition to the transaction yet"
            return Obstacle(what, machine.trouble)
        return super()._obstacle(queue)

    def on_added(self) -> None:
        self.accumulator.go_on_everywhere()

    # Called by the driver

    @property
    def drained(self) -> bool:
        return not self.accumulator.active

    def when_resolved(self, callback: Callable[[], None]) -> bool:
        batches = list(self.accumulator.unresolved())
        left = len(batches)

        def count_down(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                callback()

        for batch in batches:
            batch.watch(count_down)
        return bool(batches)

    def on_state(self, state: TransactionState, error: KafkaError | None) -> None:
        if self.closed:
            return
        refusal: BaseException | None = None
        if error is not None:
            refusal = error
        elif state is not _S.IN_TRANSACTION:
            refusal = _OUTSIDE[state]
        if not self._closing:
            self.accumulator.refusal = refusal
        if state is _S.IN_TRANSACTION:
            self.accumulator.transaction += 1
        if error is not None:
            self._fail_unsent(error, everything=state is _S.FATAL_ERROR)
        elif state is _S.ABORTING:
            self._fail_unsent(None)
        elif state is _S.COMMITTING:
            self.hurry()
        elif state is _S.READY:
            self._on_ended()

    def _fail_unsent(self, error: KafkaError | None, *, everything: bool = False) -> None:
        """Fail the waiting batches that were never numbered, and so never sent.

        The log does not report them, because the transaction's calls raise the error. Each batch's
        error has its own partition and says whether that batch may be stored.
        """
        now = self._loop.time()
        for queue in list(self.accumulator.active):
            for batch in list(queue.waiting):
                if everything or batch.producer is None:
                    self.metrics.on_failed(batch.remaining, now)
                    left = left_behind(
                        error,
                        queue.topic_partition,
                        batch.remaining,
                        may_be_stored=batch.may_be_stored,
                    )
                    self.accumulator.fail(queue, batch, left)

    def _on_ended(self) -> None:
        """A transaction has ended, and no batch of it remains."""
        if self._stamp != self._stamped_by.stamp:
            self._stamp = self._stamped_by.stamp
            for queue in self._touched:
                if queue.sequences is not None:
                    queue.sequences.broken = True
            self._touched.clear()
        for outbox in self._outboxes.values():
            for queue in list(outbox.ready):
                outbox.withdraw(queue)
