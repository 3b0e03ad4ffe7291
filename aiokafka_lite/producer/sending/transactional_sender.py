"""The sender of a transactional producer: the ordinary one, with a gate before it.

Records are let in only while a transaction is open. With the older generation of the protocol, a
partition's first batch of a transaction waits until the partition was added. A commit waits for
all batches, and an abort lets go of those that were never sent (KIP-654); those that may be stored
are sent again until that is known.

Non-obvious:
- A queue is listed in an outbox only by way of the gate, and none is left listed when a transaction
  ends: so no batch of the next one can leave without passing it.
- When the epoch has changed, all partitions that were written to under the old one are told to
  begin a new numbering; the others have been told before. With the older generation that may be
  many transactions' partitions.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    ConcurrentTransactions,
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
)
from aiokafka_lite.producer.batching.accumulator import PartitionQueue, ProducerBatch
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.obstacles import Obstacle
from aiokafka_lite.producer.produce_errors import Verdict, left_behind
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.sender import Sender
from aiokafka_lite.producer.transactions.transaction_driver import TransactionDriver
from aiokafka_lite.producer.transactions.transaction_machine import soon
from aiokafka_lite.producer.transactions.transaction_states import TransactionState

__all__ = ["TransactionalSender"]

log = logging.getLogger(__name__)

_S = TransactionState

_IN_A_MOMENT: Final = (ConcurrentTransactions, NotEnoughReplicasError, OutOfOrderSequenceNumber)
"""What brokers say while the transaction before is still being ended: by the version of the
request, the second; and of what comes behind a batch that was refused for it, the third."""

_OUTSIDE: Final = {
    state: IllegalOperation(
        f"Can't send messages while not in transaction: the producer is {state.value}"
    )
    for state in TransactionState
}
"""What is raised (a copy of it) for a record in any state but one."""


class TransactionalSender(Sender):
    """Delivers what is appended to its accumulator, in transactions.

    Args:
        cluster: Started by whoever made it, and closed by them.
        options: The producer's.
        name: Of the producer, for its tasks and its log lines.
        loop: The event loop it will live in.
        transactional_id: The producer's.
        timeout_ms: After which the cluster aborts a transaction by itself.

    Attributes:
        transactions: Begins and ends them.
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
        identity = TransactionalIdentity()
        super().__init__(cluster, options, name, loop, identity)
        self._stamped_by = identity
        self._touched: set[PartitionQueue] = set()  # under `_stamp`
        self._stamp = identity.stamp
        self._watched = 0  # the transaction whose first batch is, by the accumulator's count
        self._closing = False
        self.transactions = TransactionDriver(
            cluster,
            transactional_id,
            timeout_ms,
            options,
            identity,
            self,
            self._tasks,
            loop,
            self._on_task_error,
        )

    def start(self) -> None:
        """Follow the cluster's metadata. Ids come by way of `transactions`."""
        self._cluster.add_listener(self._on_metadata)

    async def close(self, deadline: float) -> None:
        """End the open transaction, with an abort if nothing else was asked for; then as ever."""
        self._closing = True
        self.accumulator.refusal = ProducerClosed("the producer was stopped")
        try:
            await self.transactions.close(deadline)
        except KafkaError as error:
            log.warning("%s stopped with its transaction open: %s", self._name, error)
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
            # Where batches add their partitions, the first one admitted lets in all behind it.
            self._touched.add(queue)
            return True
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
        for queue in list(self.accumulator.active):
            self._go_on(queue)

    # What the driver asks and tells

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
            self._let_go(error, everything=state is _S.FATAL_ERROR)
        elif state is _S.ABORTING:
            self._let_go(None)
        elif state is _S.COMMITTING:
            self.hurry()
        elif state is _S.READY:
            self._begin_anew()

    def _let_go(self, error: KafkaError | None, *, everything: bool = False) -> None:
        """Fail what waits and was never numbered, so never sent. That is no news for the log: the
        application hears of it from its transaction. Each batch's error names its own partition,
        and whether it may be stored, which is not what is true of the batch that failed."""
        now = self._loop.time()
        for queue in list(self.accumulator.active):
            for batch in list(queue.waiting):
                if everything or batch.producer is None:
                    self.metrics.on_failed(batch.remaining, now)
                    told = left_behind(
                        error,
                        queue.topic_partition,
                        batch.remaining,
                        may_be_stored=batch.may_be_stored,
                    )
                    self.accumulator.fail(queue, batch, told)

    def _begin_anew(self) -> None:
        """A transaction has ended, and nothing of it is left."""
        if self._stamp != self._stamped_by.stamp:
            self._stamp = self._stamped_by.stamp
            for queue in self._touched:
                if queue.sequences is not None:
                    queue.sequences.broken = True
            self._touched.clear()
        for outbox in self._outboxes.values():
            for queue in list(outbox.ready):
                outbox.withdraw(queue)

    # What becomes of batches

    def _judge(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, what: Verdict
    ) -> None:
        machine = self.transactions.machine
        if what is Verdict.RENUMBER or what is Verdict.RENEW:
            what = Verdict.FAIL  # the coordinator alone gives new epochs, between transactions
        elif what is Verdict.RETRY and machine.state is _S.FATAL_ERROR and machine.error:
            what, error = Verdict.FAIL, machine.error
        if isinstance(error, InvalidProducerEpoch) and what is Verdict.FAIL:
            fenced = ProducerFenced(
                "another producer has taken the transactional id, or the transaction timed out"
            )
            fenced.__cause__ = error
            super()._fail(queue, batch, fenced)
            self.transactions.on_batch_failed(error, numbered=True)
        else:
            super()._judge(queue, batch, error, what)

    def _pause(self, error: KafkaError, failures: int) -> float:
        pause = super()._pause(error, failures)
        if self._stamped_by.implicit and isinstance(error, _IN_A_MOMENT):
            pause = min(pause, soon(failures))
        return pause

    def _fail(self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException) -> None:
        if batch.done:
            return  # another one's failure let go of it
        numbered = batch.producer is not None
        super()._fail(queue, batch, error)
        if not self.closed:
            if not isinstance(error, KafkaError):
                told = KafkaError(f"a batch could not be made: {error!r}")
                told.__cause__ = error
                error = told
            self.transactions.on_batch_failed(error, numbered=numbered)
