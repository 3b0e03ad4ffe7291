"""The outcome of a batch. All outcomes of a produce request, good or bad, are handled here.

An outbox passes on the broker's response, the lost connection, or the batch that cannot be
serialized. The outcome is decided with `produce_errors` and `idempotence`: the batch is resolved
(its acks return or raise), or goes back to its partition.

Non-obvious:
- A batch to retry goes back to the front of its partition, which then sends nothing for the
  backoff; other partitions are not affected.
- A batch that was failed while its request was in flight (it was overdue, or its transaction ended)
  is handled here once more, for its partition's order and numbering.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import LeaderHint, Node
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    for_code,
)
from aiokafka_lite.producer.batching.accumulator import Accumulator, PartitionQueue, ProducerBatch
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.producer.produce_errors import (
    NO_REASONS,
    OF_RECORDS,
    Reaction,
    explain,
    explain_each,
    left_over,
    reaction,
)
from aiokafka_lite.producer.producer_metrics import ProducerMetrics
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.produce_codec import AllStored, StoredAt
from aiokafka_lite.producer.sending.produce_request import Part
from aiokafka_lite.producer.sending.producer_id_source import IdSource
from aiokafka_lite.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

__all__ = ["Outcomes"]

log = logging.getLogger("aiokafka_lite.producer.sending.sender")  # a documented name

_LOG_EVERY: Final = 1.0  # seconds between two lines about failed batches


class Outcomes:
    """Resolves batches, or returns them to their partition to be sent again.

    Args:
        cluster: Notified of moved leaders and stale metadata; assigns producer ids.
        accumulator: Holds the batches.
        options: The producer's options.
        identity: The producer's identity.
        metrics: The producer's metrics.
        tasks: Owns the task that requests a producer id.
        name: The producer's name, for log lines.

    Attributes:
        ids: Requests the producer id.
        closed: True once the producer is closed: nothing is sent again.
        refused: The fatal error that every record gets, or None.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        options: ProducerOptions,
        identity: ProducerIdentity,
        metrics: ProducerMetrics,
        tasks: TaskOwner,
        name: str,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._identity = identity
        self._metrics = metrics
        self._name = name
        self._loop = accumulator.loop
        self.ids = IdSource(
            cluster, identity, options, name, tasks, accumulator.go_on_everywhere, self.refuse
        )
        self.closed = False
        self.refused: KafkaError | None = None
        self._unlogged = 0  # failed batches since the last line about them
        self._next_log = 0.0  # loop time

    # Responses

    def on_response(
        self,
        node_id: int,
        parts: Sequence[Part],
        response: ProduceResponse | AllStored,
        woken: list[ProducerBatch],
    ) -> None:
        """The broker answered a request.

        Args:
            node_id: The broker's node id.
            parts: The request's batches with their queues.
            woken: Stored batches that have waiters are appended to it. The caller wakes them.
        """
        if isinstance(response, tuple):
            self._on_all_stored(node_id, parts, response[1], woken)
            return
        answers = {
            (topic.name, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        nodes = {
            each.node_id: Node(each.node_id, each.host, each.port, each.rack)
            for each in response.node_endpoints
        }
        for queue, batch in parts:
            answer = answers.get(queue.topic_partition)
            if answer is None:
                self._on_missing(node_id, queue, batch)
            elif answer.error_code:
                self._on_code(queue, batch, answer, nodes.get(answer.current_leader.leader_id))
            else:
                self._accumulator.store(
                    queue,
                    batch,
                    answer.base_offset,
                    answer.log_append_time_ms,
                    answer.log_start_offset,
                    woken,
                )

    def _on_all_stored(
        self,
        node_id: int,
        parts: Sequence[Part],
        stored: Mapping[tuple[str, int], StoredAt],
        woken: list[ProducerBatch],
    ) -> None:
        store = self._accumulator.store
        for queue, batch in parts:
            place = stored.get(queue.topic_partition)
            if place is None:
                self._on_missing(node_id, queue, batch)
            else:
                store(queue, batch, *place, woken)

    def _on_missing(self, node_id: int, queue: PartitionQueue, batch: ProducerBatch) -> None:
        topic, partition = queue.topic_partition
        self._on_error(
            queue,
            batch,
            KafkaProtocolError(
                f"the Produce response of broker {node_id} does not contain {topic}-{partition}"
            ),
        )

    def _on_code(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: PartitionProduceResponse,
        leader: Node | None,
    ) -> None:
        """The broker answered with an error code, and perhaps the new leader and its address."""
        count = 0 if batch.done else batch.count
        text, reasons = answer.error_message or "", _reasons(answer, count)
        if reasons:
            first = min(reasons)
            text = (
                reasons[first] if count == 1 else f"record {first} of the batch: {reasons[first]}"
            )
        error = for_code(answer.error_code)(text)
        hint = answer.current_leader
        if hint.leader_id >= 0:
            topic, partition = queue.topic_partition
            moved = LeaderHint(topic, partition, hint.leader_id, hint.leader_epoch, leader)
            self._cluster.apply_leader_hints([moved])
        self._on_error(queue, batch, error, reasons)

    def on_written(self, parts: Sequence[Part]) -> None:
        """With acks=0: a request was written to the socket."""
        for queue, batch in parts:
            self._accumulator.land(queue, batch)
            if not batch.done:
                self._accumulator.confirm_sent(batch)
            self._accumulator.go_on(queue)

    def on_failed(self, parts: Sequence[Part], error: KafkaError) -> None:
        """A request got no answer, or could not be sent."""
        for queue, batch in parts:
            self._on_error(queue, batch, error)

    def on_unsendable(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException
    ) -> None:
        """A partition's first waiting batch cannot be serialized."""
        self.fail(queue, batch, error)
        self._accumulator.go_on(queue)

    # Errors

    def _on_error(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: KafkaError,
        reasons: Mapping[int, str] = NO_REASONS,
    ) -> None:
        """A batch in flight failed with an error, or got no answer.

        Args:
            reasons: Why the broker rejected some of its records, by index.
        """
        accumulator = self._accumulator
        # All batches sent before it have an outcome: none is in flight or put back. (Those sent
        # after it may have been put back, too.)
        oldest = queue.in_flight[0] is batch and not (
            queue.waiting and queue.waiting[0].created < batch.created
        )
        accumulator.land(queue, batch)
        if self.closed:
            return
        if error.invalid_metadata:
            self._cluster.request_update()
        if not batch.done:
            batch.may_be_stored = batch.may_be_stored or error.ambiguous
            sequences = queue.sequences
            count = 1 if batch in accumulator.whole else batch.count
            what = reaction(
                error,
                numbered=batch.producer is not None,
                oldest=oldest,
                fresh=sequences is not None and batch.producer == sequences.stamp,
                count=count,
            )
            if reasons and count > 1 and what is Reaction.FAIL:
                self.fail(queue, batch, error, reasons)
            else:
                self._judge(queue, batch, error, what)
        accumulator.go_on(queue)

    def _judge(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, what: Reaction
    ) -> None:
        """React to the error of a batch that is no longer in flight."""
        if what is Reaction.STORED:
            queue.sequences.on_stored(batch.producer, batch.base_sequence)
            self._accumulator.acknowledge(queue, batch, -1, -1, -1)
            return
        if what is Reaction.SPLIT:
            log.debug("%s splits a batch to %s-%d: %s", self._name, *queue.topic_partition, error)
            self._metrics.on_split(self._loop.time())
            self._accumulator.split(queue, batch)
            return
        if what is Reaction.FAIL or what is Reaction.FATAL:
            self.fail(queue, batch, error)
            if what is Reaction.FATAL:
                self.refuse(error)
            return
        failures = batch.attempts
        if what is Reaction.RENUMBER:
            queue.sequences.on_refused()
            failures -= 1  # the broker is healthy: retry at once the first time
        elif what is Reaction.RENEW:
            queue.sequences.broken = True
            self._identity.renew()
        self.ids.want()
        log.debug("%s retries a batch to %s-%d: %s", self._name, *queue.topic_partition, error)
        batch.last_error = error
        self._accumulator.put_back(queue, batch)
        pause = self._pause(error, failures)
        if pause:
            queue.muted_until = max(queue.muted_until, self._loop.time() + pause)
            self._loop.call_at(queue.muted_until, self._on_unmuted, queue, queue.muted_until)

    def _pause(self, error: KafkaError, failures: int) -> float:
        """Return the seconds until a batch is retried."""
        return self._options.retry_backoff.delay(failures)

    def _on_unmuted(self, queue: PartitionQueue, until: float) -> None:
        """A partition's backoff is over.

        This does not check the clock: a timer may fire early (uvloop's by half a millisecond), and
        nothing would check again later.
        """
        if queue.muted_until == until:
            queue.muted_until = 0.0
        self._accumulator.go_on(queue)

    def refuse(self, error: KafkaError) -> None:
        """Fail every record, waiting or new, with a fatal error of the producer."""
        self._accumulator.refusal = self.refused = error
        for queue in list(self._accumulator.active):
            for batch in list(queue.waiting):
                self.fail(queue, batch, error)

    def fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BaseException,
        reasons: Mapping[int, str] = NO_REASONS,
    ) -> None:
        """Fail a batch that will not be sent again.

        Its acks raise the error. If none of them is awaited, the log reports the batch, at most
        one line a second.

        Args:
            reasons: Why the broker rejected some of its records, by index: each ack raises its own
                error then.
        """
        runs: Sequence[tuple[int, KafkaError]] = ()
        if reasons and isinstance(error, KafkaError):
            runs = explain_each(
                error,
                reasons,
                queue.topic_partition,
                batch.count,
                may_be_stored=batch.may_be_stored,
            )
        if isinstance(error, KafkaError) and not isinstance(error, KafkaTimeoutError):
            error = explain(
                error,
                queue.topic_partition,
                batch.size or batch.builder.size,
                batch.count,
                may_be_stored=batch.may_be_stored or batch in queue.in_flight,
            )
        awaited = batch.awaited
        now = self._loop.time()
        if batch.rest and isinstance(error, MessageSizeTooLargeError):
            self._metrics.on_failed(batch.count, now)
            self._accumulator.fail_piece(queue, batch, error)
        else:
            if batch.rest and isinstance(error, OF_RECORDS):
                runs = runs or [(batch.count, error)]
                error = left_over(error, queue.topic_partition, batch.remaining - batch.count)
            self._metrics.on_failed(batch.remaining, now)
            self._accumulator.fail(queue, batch, error, runs)
        if awaited:
            return
        self._unlogged += 1
        if self._loop.time() >= self._next_log and not self.closed:
            self._log_lost(error)

    def close(self, error: KafkaError) -> None:
        """Fail every batch without an outcome: the producer is closed."""
        self.closed = True
        for queue in list(self._accumulator.active):
            for batch in (*queue.in_flight, *queue.waiting):
                if not batch.done:
                    self.fail(queue, batch, error)
        if self._unlogged:
            self._log_lost(error)

    def _log_lost(self, error: BaseException) -> None:
        log.error(
            "%s lost %d batch(es) whose acks were not awaited; last error: %s",
            self._name,
            self._unlogged,
            error,
            extra=log_extra(self._name),
        )
        self._unlogged = 0
        self._next_log = self._loop.time() + _LOG_EVERY


def _reasons(answer: PartitionProduceResponse, count: int) -> Mapping[int, str]:
    """Return why the broker rejected records of a batch of `count` records, by index (KIP-467)."""
    if not answer.record_errors:
        return NO_REASONS
    return {
        each.batch_index: each.batch_index_error_message or answer.error_message or ""
        for each in answer.record_errors
        if 0 <= each.batch_index < count
    }
