"""The sender: assigns each partition's batches to the broker that leads it, and owns the timers.

It owns an outbox per broker (each with one task) and the timers. `Outcomes` decides the outcome of
the batches. Neither refers to the public producer, so a dropped producer can be collected.

Non-obvious:
- A partition moves to another broker's outbox only while none of its batches is in flight, so that
  they cannot be reordered between two brokers. Its leader is looked up again when one of its
  batches becomes ready under new metadata; a refresh moves only partitions that hold batches.
- A batch that becomes overdue while its request is in flight fails at once, as possibly stored.
  It stays in flight, for its partition's order, until the request is answered.
- While the accumulator holds batches, one timer looks for overdue ones, whatever they wait for: a
  connection, a leader, a producer id, a backoff, a transaction. The accumulator starts it (see its
  `hold`), and the timer re-arms itself, so no batch depends on another event.
- State changes between awaits, never across one: all methods here except two are synchronous.
"""

import asyncio
import logging
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.as_aiokafka.private_names import SenderTaskNames, private_name
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaError,
    KafkaProtocolError,
    ProducerClosed,
)
from aiokafka_lite.producer.batching.accumulator import Accumulator, PartitionQueue
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.producer.obstacles import Obstacle, why_memory_is_short
from aiokafka_lite.producer.produce_errors import delivery_timed_out
from aiokafka_lite.producer.producer_metrics import ProducerMetrics
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.outbox import Outbox
from aiokafka_lite.producer.sending.outcomes import Outcomes

__all__ = ["Sender"]

log = logging.getLogger(__name__)

_SWEEP: Final = 1.0  # seconds; the maximum delay of a delivery timeout
_EXPLAIN_EVERY: Final = 0.1  # seconds; the maximum age of an explanation of short memory


class Sender:
    """Delivers the records that are appended to its accumulator.

    Args:
        cluster: Its owner starts and closes it.
        options: The producer's options.
        name: The producer's name, for its tasks and its log lines.
        loop: The producer's event loop.
        identity: Replaces the identity that follows from the options.

    Attributes:
        accumulator: Accepts the records.
        pool: The batches' memory.
        metrics: The producer's metrics.
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
        )
        self._outboxes: dict[int, Outbox] = {}
        self._running: list[asyncio.Task[None]] = []  # every task ever started: a few
        self._tasks = TaskOwner(name, self._on_task_error, loop)
        self._outcomes = self._make_outcomes()
        self._linger_timer: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._changes = 1  # number of metadata changes
        self._used: set[str] = set()  # topics in use, which the next sweep passes to the cluster
        self._why_short = ""
        self._explain_again_at = 0.0  # loop time
        self.closed = False
        self.started = False
        self.crash: KafkaError | None = None  # of a task, because of a bug: the sender has ended

    def _make_outcomes(self) -> Outcomes:
        return Outcomes(
            self._cluster,
            self.accumulator,
            self._options,
            self._identity,
            self.metrics,
            self._tasks,
            self._name,
        )

    def start(self) -> None:
        """Follow the cluster's metadata; request a producer id, if one is wanted."""
        self.started = True
        self._cluster.add_listener(self._on_metadata)
        self._outcomes.ids.want()

    def metric_values(self) -> dict[str, float | None]:
        """Return the producer's current metrics, under Kafka's names."""
        now = self._loop.time()
        values = self.metrics.snapshot(
            self.pool,
            now,
            in_flight=self.in_flight,
            metadata_age=self._cluster.metadata_age(now),
        )
        values.update(self._cluster.connection_metrics(now))
        return values

    @property
    def in_flight(self) -> int:
        """Number of produce requests without an answer."""
        return sum(outbox.in_flight for outbox in self._outboxes.values())

    @property
    def refused(self) -> KafkaError | None:
        """The fatal error that every record gets, such as a refused producer id; or None."""
        return self._outcomes.refused

    @property
    def fatal(self) -> KafkaError | None:
        """The error after which the producer can no longer be used, or None."""
        return self.crash or self.refused

    @private_name
    def sender_task(self) -> SenderTaskNames | None:
        """Of aiokafka, listed in `as_aiokafka.private_names`; None before `start`."""
        if not self.started:
            return None
        return SenderTaskNames(lambda: self.fatal, lambda: self.closed)

    # Waiting for outcomes

    async def flush(self) -> None:
        """Send lingering batches; wait until every record sent before this call has an outcome.

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
        """Refuse new records, deliver the others until the deadline, then fail the rest.

        Args:
            deadline: Loop time.

        Cancellation: fails undelivered records at once.
        """
        closed = ProducerClosed("the producer was stopped")
        self.accumulator.refusal = closed
        self.pool.close(closed)
        if self._cluster.closed:
            self.abort()  # nothing more can be delivered
        try:
            async with asyncio.timeout_at(deadline):
                await self.flush()
                for outbox in list(self._outboxes.values()):
                    await outbox.drain()
        except TimeoutError:
            log.warning(
                "%s stopped with undelivered records: the stop timeout expired",
                self._name,
                extra=log_extra(self._name),
            )
        finally:
            self.abort()
        await self._tasks.close(max(deadline, self._loop.time() + 1))

    def abort(self) -> None:
        """Fail all undelivered records and stop, at once and without awaiting. Idempotent."""
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
        self._outcomes.close(closed)
        if not self._loop.is_closed():
            for task in self._running:
                task.cancel()
            self._outcomes.ids.cancel()

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
        """A partition has a new batch to send; the caller's state is consistent."""
        outbox = queue.outbox
        if queue.placed_at == self._changes and not queue.listed and not self.closed:
            self._used.add(queue.topic_partition[0])
            outbox.offer_at_once(queue)
        else:
            self._on_ready(queue)

    def _place(self, queue: PartitionQueue) -> None:
        """Assign a partition, with nothing in flight, to the outbox of its leader."""
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
                if outbox is not None:
                    queue.muted_until = 0.0  # the backoff was for the old leader (KIP-951)
            queue.outbox = outbox

    def _open_outbox(self, node_id: int) -> Outbox:
        outbox = Outbox(
            node_id,
            self._cluster,
            self.accumulator,
            self._options,
            self._name,
            self._outcomes,
            self.metrics,
            self,
        )
        self._outboxes[node_id] = outbox
        self._running.append(self._tasks.spawn(outbox.run(), f"send to broker {node_id}"))
        return outbox

    def _on_metadata(self, metadata: Metadata) -> None:
        """New metadata: leaders may have moved, and topics may have grown or been deleted."""
        if self.closed:
            return
        self._changes += 1
        accumulator = self.accumulator
        for name in list(accumulator.topics):
            topic = metadata.topics.get(name)
            if topic is not None and topic.partitions:
                accumulator.adopt(name, topic.partitions, topic.topic_id, metadata.brokers)
            elif topic is not None and topic.error is not None and not topic.error.retriable:
                self._fail_topic(name, topic.error(name))
            else:
                accumulator.forget(name)
        for queue in list(accumulator.active):
            if queue.in_flight and self._identity.numbering:
                self._leave_if_silent(queue, metadata)
            if queue.waiting:
                if not queue.in_flight:
                    self._place(queue)  # even if it is listed: its leader may have moved
                self._on_ready(queue)

    def _leave_if_silent(self, queue: PartitionQueue, metadata: Metadata) -> None:
        """Stop waiting for an unresponsive broker if another one has replaced it as the leader."""
        leader = metadata.leader(*queue.topic_partition)
        outbox = queue.outbox
        if leader is not None and outbox is not None and leader.node_id != outbox.node_id:
            outbox.leave_if_silent(queue)

    def _fail_topic(self, name: str, error: KafkaError) -> None:
        """Fail a topic's waiting batches; those in flight get their own answers."""
        for queue in self.accumulator.topics[name].queues:
            for batch in list(queue.waiting):
                self._outcomes.fail(queue, batch, error)
        self.accumulator.forget(name)

    def on_unreachable(self, outbox: Outbox, error: KafkaError) -> None:
        """There is no connection to a broker; its batches keep waiting, or fail."""
        if self.closed:
            return
        if self._cluster.closed:
            self.abort()  # nothing more can be delivered
            return
        # No record was sent yet. An unreadable handshake does not concern the records, and a
        # rotation of the certificate or the credentials may be in progress. Java waits, too.
        if error.retriable or isinstance(error, AuthenticationFailedError | KafkaProtocolError):
            log.debug("%s cannot reach broker %d: %s", self._name, outbox.node_id, error)
            self._cluster.request_update()
            return
        for queue in list(outbox.ready):
            outbox.withdraw(queue)
            for batch in list(queue.waiting):
                self._outcomes.fail(queue, batch, error)

    def on_mistake(self, outbox: Outbox, error: BaseException) -> None:
        """An outbox failed because of a bug."""
        self._on_task_error(f"{self._name}: send to broker {outbox.node_id}", error)

    # Time

    def _on_lingering(self, due_at: float) -> None:
        """The first batch that lingers is due at a time."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self._linger_timer = self._loop.call_at(due_at, self._on_lingered)

    def hurry(self) -> None:
        """Release all open batches that linger."""
        self.accumulator.hurry()
        if self._linger_timer is not None:  # nothing lingers: avoid a useless wake-up
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
        """Fail overdue batches. One timer serves all; it stops while no batch is held."""
        self._sweep_timer = None
        if self._cluster.closed:
            self.abort()  # nothing more can be delivered
            return
        try:
            self._fail_overdue()
        except Exception as error:  # a bug: otherwise, no further batch would time out
            self._on_task_error(f"{self._name}: the delivery timeout", error)
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
                continue  # the failure of an earlier batch ended the transaction of both
            error = delivery_timed_out(
                queue.topic_partition,
                batch.count,
                self._options.delivery_timeout,
                attempts=batch.attempts,
                may_be_stored=batch.may_be_stored or batch in queue.in_flight,
                last_error=batch.last_error,
                obstacle=self._obstacle(queue),
            )
            self._outcomes.fail(queue, batch, error)
        for queue, _ in late:
            if not (queue.waiting and queue.waiting[0].attempts):
                queue.muted_until = 0.0  # it was the backoff of the batches that timed out
            accumulator.go_on(queue)

    def _obstacle(self, queue: PartitionQueue) -> Obstacle | None:
        """Return the known reason why a partition's records cannot be sent now, or None."""
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
            return Obstacle(
                "the cluster has not assigned a producer id yet", self._outcomes.ids.last_error
            )
        return None

    def why_memory_is_short(self) -> str:
        """Explain why no memory is released, for the errors of sends that get none.

        This looks at every partition that holds batches, so the result is cached for a while:
        every call of `send_nowait` may fail.
        """
        now = self._loop.time()
        if now >= self._explain_again_at:
            self._explain_again_at = now + _EXPLAIN_EVERY
            self._why_short = why_memory_is_short(
                self._obstacle(queue) for queue in self.accumulator.active if queue.waiting
            )
        return self._why_short

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A sender task crashed because of a bug: stop, because nothing more would be sent."""
        log.critical(
            "%s ended unexpectedly; the producer is stopped",
            name,
            exc_info=error,
            extra=log_extra(name),
        )
        self.crash = KafkaError(f"{name} crashed: {error!r}")
        self.crash.__cause__ = error
        self.abort()
