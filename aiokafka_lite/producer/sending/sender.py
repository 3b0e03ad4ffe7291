"""The sender: which broker each partition's batches go to, and what becomes of them.

It owns an outbox a broker (each with its one task), the timers, and the producer id; it never
refers to the face, so a dropped producer can be collected.

Non-obvious:
- A partition moves to another broker's outbox only while nothing of it is in flight, so that two
  brokers never race for its order. Where it belongs is asked anew when a batch of it becomes
  ready under new metadata; a refresh moves only partitions that hold something.
- A batch that has to be sent again goes back to the front of its partition and mutes it for the
  backoff; other partitions do not notice.
- A batch that is overdue while its request is in flight is failed at once, as one that may be
  stored, but stays in flight for its partition's order until the request is answered.
- One timer looks for what is overdue, for as long as the accumulator holds anything, whatever that
  waits for: a connection, a leader, a producer id, a backoff, a transaction. The accumulator starts
  it (see its `hold`) and the timer goes on by itself, so no batch depends on another event.
- State changes between awaits, never across one: all methods here but two are synchronous.
"""

import asyncio
import logging
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import LeaderHint, Metadata, Node
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
    for_code,
)
from aiokafka_lite.producer.batching.accumulator import Accumulator, PartitionQueue, ProducerBatch
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.producer.obstacles import Obstacle, why_memory_is_short
from aiokafka_lite.producer.produce_errors import Verdict, delivery_timed_out, explain, verdict
from aiokafka_lite.producer.producer_metrics import ProducerMetrics
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.outbox import Outbox
from aiokafka_lite.producer.sending.producer_id_source import IdSource
from aiokafka_lite.protocol.messages.produce import PartitionProduceResponse

__all__ = ["Sender"]

log = logging.getLogger(__name__)

_SWEEP: Final = 1.0  # seconds; how late a delivery timeout may be noticed, at most
_EXPLAIN_EVERY: Final = 0.1  # seconds; how old an explanation of short memory may be
_LOG_EVERY: Final = 1.0  # seconds between two lines about failed batches


class Sender:
    """Delivers what is appended to its accumulator.

    Args:
        cluster: Started by whoever made it, and closed by them.
        options: The producer's.
        name: Of the producer, for its tasks and its log lines.
        loop: The event loop it will live in.
        identity: The producer's, if it is to be another one than the options say.

    Attributes:
        accumulator: Where records go in.
        pool: The memory that the batches are made of.
        metrics: What was sent, and what came of it.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        name: str,
        loop: asyncio.AbstractEventLoop,
        identity: ProducerIdentity | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._name = name
        self._loop = loop
        self._identity = identity or ProducerIdentity(options.idempotent)
        self.pool = MemoryPool(
            options.buffer_memory, options.max_batch_size, self.why_memory_is_short
        )
        self.metrics = ProducerMetrics()
        self.accumulator = Accumulator(
            self._loop,
            options,
            self.pool,
            self._identity,
            self._on_ready,
            self._on_opened,
            self._on_lingering,
            self._arm_sweep,
            self._fail,
        )
        self._outboxes: dict[int, Outbox] = {}
        self._running: list[asyncio.Task[None]] = []  # every task ever started: a few
        self._tasks = TaskOwner(name, self._on_task_error, loop)
        self._ids = IdSource(
            cluster, self._identity, options, name, self._tasks, self._on_settled, self._refuse
        )
        self._linger_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._changes = 1  # of the metadata, counted
        self._used: set[str] = set()  # topics whose use the cluster is told of by the next sweep
        self._unlogged = 0  # failed batches since the last line about them
        self._next_log = 0.0  # loop time
        self._why_short = ""
        self._explain_again_at = 0.0  # loop time
        self.closed = False

    def start(self) -> None:
        """Follow the cluster's metadata; get a producer id, if one is wanted."""
        self._cluster.add_listener(self._on_metadata)
        self._ids.want()

    def metric_values(self) -> dict[str, float | None]:
        """The producer's metrics as they are, by Kafka's names."""
        now = self._loop.time()
        return self.metrics.snapshot(
            self.pool,
            now,
            in_flight=sum(outbox.in_flight for outbox in self._outboxes.values()),
            metadata_age=self._cluster.metadata_age(now),
        )

    # Waiting for outcomes

    async def flush(self) -> None:
        """Wait until every record sent before this call has an outcome; none of them lingers.

        Cancellation: stops the wait, never a delivery.
        """
        self.hurry()
        batches = list(self.accumulator.unresolved())
        if not batches:
            return
        done = self._loop.create_future()
        left = len(batches)

        def count_down(_: object) -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for batch in batches:
            batch.watch(count_down)
        await done

    async def close(self, deadline: float) -> None:
        """Refuse new records, deliver until the deadline what is there, then fail the rest.

        Args:
            deadline: Loop time.

        Cancellation: fails what is not delivered, at once.
        """
        closed = ProducerClosed("the producer was stopped")
        self.accumulator.refusal = closed
        self.pool.close(closed)
        if self._cluster.closed:
            self.abort()  # nobody is left to deliver to
        try:
            async with asyncio.timeout_at(deadline):
                await self.flush()
                for outbox in list(self._outboxes.values()):
                    await outbox.drain()
        except TimeoutError:
            log.warning("%s stopped with undelivered records: the stop timeout expired", self._name)
        finally:
            self.abort()
        await self._tasks.close(max(deadline, self._loop.time() + 1))

    def abort(self) -> None:
        """Fail all that is not delivered, and end; at once, without awaiting. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._cluster.remove_listener(self._on_metadata)
        stopped = ProducerClosed("the producer was stopped")
        closed = ProducerClosed("the producer was stopped before the record was acknowledged")
        self.accumulator.refusal = stopped
        self.pool.close(stopped)
        for timer in (self._linger_timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()
        for queue in list(self.accumulator.active):
            for batch in (*queue.in_flight, *queue.waiting):
                if not batch.done:
                    self._fail(queue, batch, closed)
        if self._unlogged:
            self._tell_lost(closed)
        if not self._loop.is_closed():
            for task in self._running:
                task.cancel()
            self._ids.cancel()

    # Where batches go

    def _on_ready(self, queue: PartitionQueue) -> None:
        """A partition may have something to send."""
        if self.closed:
            return
        if queue.placed_at != self._changes and not queue.in_flight:
            self._place(queue)
        if queue.listed:
            queue.outbox.wake()
            return
        if queue.outbox is not None:
            queue.outbox.offer(queue)
        self._used.add(queue.topic_partition.topic)

    def _on_opened(self, queue: PartitionQueue) -> None:
        """A partition has a new batch to send, and whoever made it has nothing else half done."""
        outbox = queue.outbox
        if queue.placed_at == self._changes and not queue.listed and not self.closed:
            self._used.add(queue.topic_partition[0])
            outbox.offer_at_once(queue)
        else:
            self._on_ready(queue)

    def _place(self, queue: PartitionQueue) -> None:
        """Give a partition, nothing of which is in flight, to the broker that leads it."""
        topic, partition = queue.topic_partition
        leader = self._cluster.metadata.leader(topic, partition)
        outbox = None
        queue.placed_at = 0
        if leader is not None:
            queue.placed_at = self._changes
            outbox = self._outboxes.get(leader.node_id)
            if outbox is None:
                outbox = self._open_outbox(leader.node_id)
        elif not self._cluster.closed:
            self._cluster.add_topic(topic)
            self._cluster.request_update()
        if queue.outbox is not outbox:
            if queue.outbox is not None:
                queue.outbox.withdraw(queue)
            queue.outbox = outbox

    def _open_outbox(self, node_id: int) -> Outbox:
        outbox = Outbox(node_id, self._cluster, self.accumulator, self._options, self, self.metrics)
        self._outboxes[node_id] = outbox
        self._running.append(self._tasks.spawn(outbox.run(), f"send to broker {node_id}"))
        return outbox

    def _on_metadata(self, metadata: Metadata) -> None:
        """New metadata: leaders may have moved, topics may have grown or gone."""
        if self.closed:
            return
        self._changes += 1
        accumulator = self.accumulator
        for name in list(accumulator.topics):
            topic = metadata.topics.get(name)
            if topic is not None and topic.partitions:
                accumulator.adopt(name, topic.partitions, topic.topic_id)
            elif topic is not None and topic.error is not None and not topic.error.retriable:
                self._fail_topic(name, topic.error(name))
            else:
                accumulator.forget(name)
        for queue in list(accumulator.active):
            if queue.waiting:
                if not queue.in_flight:
                    self._place(queue)  # also where it is listed: its leader may have moved
                self._on_ready(queue)

    def _fail_topic(self, name: str, error: KafkaError) -> None:
        """A topic can no longer be written to; what is in flight is answered for itself."""
        for queue in self.accumulator.topics[name].queues:
            for batch in list(queue.waiting):
                self._fail(queue, batch, error)
        self.accumulator.forget(name)

    # What becomes of them

    def on_answer(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: PartitionProduceResponse,
        woken: list[ProducerBatch],
        leader: Node | None = None,
    ) -> None:
        """The broker answered for a batch; where it named another leader, maybe its address."""
        if answer.error_code:
            self._on_code(queue, batch, answer, leader)
        else:
            self.accumulator.store(
                queue,
                batch,
                answer.base_offset,
                answer.log_append_time_ms,
                answer.log_start_offset,
                woken,
            )

    def on_written(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that wants no answer was handed to the socket."""
        self.accumulator.land(queue, batch)
        if not batch.done:
            self.accumulator.confirm_sent(batch)
        self._go_on(queue)

    def _on_code(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: PartitionProduceResponse,
        leader: Node | None,
    ) -> None:
        error = for_code(answer.error_code)(answer.error_message or "")
        hint = answer.current_leader
        if hint.leader_id >= 0:
            topic, partition = queue.topic_partition
            told = LeaderHint(topic, partition, hint.leader_id, hint.leader_epoch, leader)
            self._cluster.apply_leader_hints([told])
        self.on_error(queue, batch, error)

    def on_error(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """A batch came back with an error, or did not come back."""
        accumulator = self.accumulator
        # Nothing sent before it is without an outcome: neither in flight nor put back. (Those sent
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
            self._judge(
                queue,
                batch,
                error,
                verdict(
                    error,
                    numbered=batch.producer is not None,
                    oldest=oldest,
                    fresh=sequences is not None and batch.producer == sequences.stamp,
                    count=1 if batch in accumulator.whole else batch.count,
                ),
            )
        self._go_on(queue)

    def _judge(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, what: Verdict
    ) -> None:
        if what is Verdict.STORED:
            queue.sequences.on_stored(batch.producer, batch.base_sequence)
            self.accumulator.acknowledge(queue, batch, -1, -1, -1)
            return
        if what is Verdict.SPLIT:
            log.debug("%s sends to %s in pieces: %s", self._name, queue.topic_partition, error)
            self.metrics.on_split(self._loop.time())
            self.accumulator.split(queue, batch)
            return
        if what is Verdict.FAIL or what is Verdict.FATAL:
            self._fail(queue, batch, error)
            if what is Verdict.FATAL:
                self._refuse(error)
            return
        failures = batch.attempts
        if what is Verdict.RENUMBER:
            queue.sequences.on_refused()
            failures -= 1  # nothing is wrong with the broker: the first time, go on at once
        elif what is Verdict.RENEW:
            queue.sequences.broken = True
            self._identity.renew()
        self._ids.want()
        log.debug("%s sends again to %s: %s", self._name, queue.topic_partition, error)
        batch.last_error = error
        self.accumulator.put_back(queue, batch)
        pause = self._pause(error, failures)
        if pause:
            queue.muted_until = max(queue.muted_until, self._loop.time() + pause)
            self._loop.call_at(queue.muted_until, self._on_unmuted, queue, queue.muted_until)

    def _pause(self, error: KafkaError, failures: int) -> float:
        """Seconds until a batch is sent again."""
        return self._options.retry_backoff.delay(failures)

    def _on_unmuted(self, queue: PartitionQueue, until: float) -> None:
        """A partition's backoff is over. A timer may be early by the clock (uvloop's, by half a
        millisecond): nobody would look again, so the clock is not asked."""
        if queue.muted_until == until:
            queue.muted_until = 0.0
        self._on_ready(queue)

    def _go_on(self, queue: PartitionQueue) -> None:
        """Something of a partition landed: more of it may be sent, perhaps elsewhere."""
        if queue.waiting:
            self._on_ready(queue)

    def on_unreachable(self, outbox: Outbox, error: KafkaError) -> None:
        """There is no connection to a broker; what waits for it goes on waiting, or fails."""
        if self.closed:
            return
        if self._cluster.closed:
            self.abort()  # nobody is left to deliver to
            return
        # A greeting that cannot be read is no answer about any record: nothing was sent yet.
        if error.retriable or isinstance(error, KafkaProtocolError):
            log.debug("%s cannot reach broker %d: %s", self._name, outbox.node_id, error)
            self._cluster.request_update()
            return
        for queue in list(outbox.ready):
            outbox.withdraw(queue)
            for batch in list(queue.waiting):
                self._fail(queue, batch, error)

    def on_mistake(self, outbox: Outbox, error: BaseException) -> None:
        """An outbox came upon a mistake of its own."""
        self._on_task_error(f"send to broker {outbox.node_id}", error)

    def _fail(self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException) -> None:
        """A batch will not be sent again. Whoever awaits one of its acks is told; a batch that
        nobody awaits is told of in the log, a line a second at most."""
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
            self.metrics.on_failed(batch.count, now)
            self.accumulator.fail_piece(queue, batch, error)
        else:
            self.metrics.on_failed(batch.remaining, now)
            self.accumulator.fail(queue, batch, error)
        if awaited:
            return
        self._unlogged += 1
        if self._loop.time() >= self._next_log and not self.closed:
            self._tell_lost(error)

    def _tell_lost(self, error: BaseException) -> None:
        log.error(
            "%s lost %d batch(es) whose acks were not awaited; last error: %s",
            self._name,
            self._unlogged,
            error,
        )
        self._unlogged = 0
        self._next_log = self._loop.time() + _LOG_EVERY

    # Time

    def _on_lingering(self, due_at: float) -> None:
        """The first batch that lingers is due at a time."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._linger_timer = self._loop.call_at(due_at, self._on_lingered)

    def hurry(self) -> None:
        """Let no batch linger that is open now."""
        self.accumulator.hurry()
        if self._linger_timer is not None:  # nothing is left for it: spare the process that wake
            self._linger_timer.cancel()
            self._linger_timer = None

    def _on_lingered(self) -> None:
        self._linger_timer = None
        due_at = self.accumulator.on_lingered(self._loop.time())
        if due_at is not None:
            self._on_lingering(due_at)

    def _arm_sweep(self) -> None:
        every = min(_SWEEP, self._options.delivery_timeout / 10)
        self._sweep_timer = self._loop.call_later(every, self._sweep)

    def _sweep(self) -> None:
        """Fail what is overdue. One timer for all, and none while nothing is held."""
        self._sweep_timer = None
        if self._cluster.closed:
            self.abort()  # nobody is left to deliver to
            return
        try:
            self._fail_overdue()
        except Exception as error:  # a bug: nothing would be failed in time any more
            self._on_task_error("the delivery timeout", error)
        if self.closed:
            return
        if self.accumulator.active:
            self._arm_sweep()
        else:
            self.accumulator.watched = False

    def _fail_overdue(self) -> None:
        accumulator = self.accumulator
        self._used.update(queue.topic_partition.topic for queue in accumulator.active)
        for topic in self._used:
            self._cluster.add_topic(topic)
        self._used.clear()
        now = self._loop.time()
        accumulator.close_old(now)
        late = accumulator.overdue(now)
        for queue, batch in late:
            if batch.done:
                continue  # the failure of one before it ended the transaction of both
            error = delivery_timed_out(
                queue.topic_partition,
                batch.count,
                self._options.delivery_timeout,
                attempts=batch.attempts,
                may_be_stored=batch.may_be_stored or batch in queue.in_flight,
                last_error=batch.last_error,
                obstacle=self._obstacle(queue),
            )
            self._fail(queue, batch, error)
        for queue, _ in late:
            if not (queue.waiting and queue.waiting[0].attempts):
                queue.muted_until = 0.0  # that was the backoff of those that were given up
            self._go_on(queue)

    def _obstacle(self, queue: PartitionQueue) -> Obstacle | None:
        """What keeps a partition's records from being sent now, if anything is known to."""
        outbox = queue.outbox
        if outbox is None:
            return Obstacle("its leader is not known", self._cluster.last_error)
        if outbox.trouble is not None:
            return Obstacle(f"broker {outbox.node_id} cannot be reached", outbox.trouble)
        if not outbox.connected:
            return Obstacle(f"there is no connection to broker {outbox.node_id} yet")
        if outbox.throttled:
            return Obstacle(f"broker {outbox.node_id} throttles this client: its quota is exceeded")
        if not self._identity.settled:
            return Obstacle("the cluster has given no producer id yet", self._ids.last_error)
        return None

    def why_memory_is_short(self) -> str:
        """Why no memory comes free, for the errors of those that get none.

        It looks at every partition that holds something, so it looks once in a while only:
        `send_nowait` may fail as often as it is called.
        """
        now = self._loop.time()
        if now >= self._explain_again_at:
            self._explain_again_at = now + _EXPLAIN_EVERY
            self._why_short = why_memory_is_short(
                self._obstacle(queue) for queue in self.accumulator.active if queue.waiting
            )
        return self._why_short

    # The end of it

    def _on_settled(self) -> None:
        """There is a producer id, or there need be none."""
        for queue in list(self.accumulator.active):
            self._go_on(queue)

    def _refuse(self, error: KafkaError) -> None:
        """The producer can do nothing that it was asked for: every record fails with `error`."""
        self.accumulator.refusal = error
        for queue in list(self.accumulator.active):
            for batch in list(queue.waiting):
                self._fail(queue, batch, error)

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A task of ours ended by a mistake of ours: nothing would be sent any more."""
        log.critical("%s ended unexpectedly; the producer is stopped", name, exc_info=error)
        self.abort()
