"""The share consumer without its public class: the parts, their connections and their lifecycle.

Tasks refer to this object and its parts, never to the public `AIOKafkaShareConsumer`. So a dropped
consumer is collected at once, and its finalizer ends the core with `abort`.

Tasks: the cluster's metadata refresh, those of the membership, and one for each leader.

Non-obvious:

- `stop` first ends reads, then closes each share session (which sends the last acknowledgements and
  releases undecided records), then leaves the group; all within one deadline.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite._home import check_home
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import LeaderHint, Metadata
from aiokafka_lite.cluster.subscribed_topics import topics_refusal, wait_for_topics
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
)
from aiokafka_lite.metrics_push.metrics_push import MetricsPush
from aiokafka_lite.reading.consumer_lifecycle import GIVE_UP_WITHIN
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.beginning_lookup import BeginningLookup
from aiokafka_lite.share.leaders.leader_links import LeaderLinks
from aiokafka_lite.share.leaders.link_owner import Claimant
from aiokafka_lite.share.leaders.opening import Opening
from aiokafka_lite.share.loss_log import LossLog
from aiokafka_lite.share.reads.share_buffer import ShareBuffer
from aiokafka_lite.share.reads.share_reads import ShareReads
from aiokafka_lite.share.records.offset_states import RELEASE, RENEW
from aiokafka_lite.share.records.record_marks import Acknowledgement, Marks
from aiokafka_lite.share.share_group import ShareGroup
from aiokafka_lite.share.share_metrics import ShareMetrics
from aiokafka_lite.share.share_options import ShareOptions
from aiokafka_lite.share.share_record import ShareRecord
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:  # loaded if the brokers collect metrics
    from aiokafka_lite.metrics_push.metric_points import ClientMetrics

__all__ = ["ShareCore"]

log: Final = logging.getLogger(__name__)

STOP_WITHIN: Final = 5.0
"""Seconds after which `stop` stops waiting."""

CLOSING_TAKES: Final = 0.5
"""Seconds of `STOP_WITHIN` reserved for ending tasks and connections."""

LEAVING_TAKES: Final = 1.5
"""Seconds of `STOP_WITHIN` reserved for leaving the group."""

_REMEDY: Final = (
    "create a consumer in the event loop that uses it, or call this one there with"
    " asyncio.run_coroutine_threadsafe()"
)

Record = ShareRecord[Any, Any]


class ShareCore:
    """All parts of one share consumer.

    Args:
        cluster: Not started; the core owns it from now on.
        options: The consumer's options.
        push: Of this consumer's metrics; not started.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ShareOptions,
        push: MetricsPush,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.lock_watchers: list[Callable[[], None]] = []  # called after locks were lost
        self.loop = loop
        self.cluster = cluster
        self.options = options
        self.push = push
        self.topics: frozenset[str] = frozenset()
        self.starting = False
        self.started = False
        self.stopping = False  # or stopped
        self.closed = False
        self.refusal: KafkaError | None = None  # in a forked child: the error of every call
        self.lock_timeout: float | None = None  # seconds
        self.metrics = ShareMetrics()
        self.buffer = ShareBuffer(loop, self._on_buffered_expired)
        self._tasks = TaskOwner("share consumer", self._on_task_error, loop)
        self.group = ShareGroup(
            cluster,
            options.membership,
            on_assignment=self._on_assignment,
            on_failure=self.on_failure,
            on_topics=self._track_topics,
            on_error=self._on_task_error,
            loop=loop,
        )
        self._leaders = LeaderLinks(cluster, self, options, options.decoding, self._tasks, loop)
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.opening = Opening(loop)
        self.beginnings = BeginningLookup(
            cluster,
            options,
            self.opening,
            self._tasks,
            wake_leaders=self._leaders.wake,
            reads_wait=lambda: self.buffer.awaited,
            loop=loop,
        )
        self._tracked: frozenset[str] = frozenset()
        self.crash: KafkaError | None = None  # of a task: a bug, which every read raises
        self.reads = ShareReads(
            self, options, self.buffer, self.group, self._leaders, self.opening, self.metrics, loop
        )
        self._losses = LossLog(options.log_name)
        self._stop_lock = asyncio.Lock()  # a second `stop` waits for the first

    def check_home(self) -> None:
        """Raise IllegalStateError in another event loop, thread or process than the consumer's."""
        if self.refusal is not None:
            raise self.ended()
        check_home(self.loop, "this AIOKafkaShareConsumer", _REMEDY)

    # --- lifecycle

    async def start(self, connect_by: float | None = None) -> None:
        """Connect, wait until the topics are known, and join the group.

        A start that fails to connect changes nothing and can be repeated. One that fails or is
        cancelled later closes this core.

        Args:
            connect_by: Deadline for connecting (loop time); without it, each address is tried once.
        """
        self.starting = True
        try:
            await self.cluster.start(connect_by)
            await self._start()
        except BaseException as error:
            stopped = self.stopping
            if not stopped and not self.cluster.started and not self.cluster.closed:
                self.starting = False
                self.buffer.wake()
                raise
            if stopped:  # `stop` ends everything
                if isinstance(error, KafkaError):
                    raise ConsumerStoppedError() from None
                raise
            try:
                if not self.closed:
                    await self.group.close(self.loop.time() + GIVE_UP_WITHIN)
            finally:
                self._end()
            raise

    async def _start(self) -> None:
        self._track_topics()
        await wait_for_topics(
            self.cluster, self.topics, self.loop.time() + self.options.api_timeout
        )
        self.started = True
        self.cluster.add_listener(self._on_metadata)
        if self.topics:
            self.group.subscribe(self.topics)
            self._on_metadata(self.cluster.metadata)
            await self.group.wait_assigned()
            await self.beginnings.look_up()
            self.check_running()  # `stop` may have been called meanwhile
            self.group.on_started()
        self.reads.start()
        self.beginnings.follow()
        self.push.start(self._pushed_metrics)

    async def stop(self) -> None:
        """Stop within `STOP_WITHIN` seconds, even if brokers do not answer. Idempotent."""
        deadline = self.loop.time() + STOP_WITHIN
        self.stopping = True
        self.buffer.wake()
        self.beginnings.end()
        try:
            await self.push.begin_to_close()  # with the metrics of a member that has not left
            async with self._stop_lock:
                if not self.closed:
                    await self._leaders.close(deadline - CLOSING_TAKES - LEAVING_TAKES)
                if not self.closed:
                    await self.group.close(deadline - CLOSING_TAKES)
                    await self.push.close(deadline - CLOSING_TAKES)
        finally:
            self.abort()
        await self.finish(deadline)

    async def finish(self, deadline: float) -> None:
        """Wait for the tasks to end, until the deadline (loop time)."""
        await self._tasks.close(deadline)
        await self.group.end(deadline)
        await self.cluster.close(deadline)

    def abort(self) -> None:
        """Close everything at once, without awaiting; callable in a finalizer. Idempotent."""
        self._end()
        if self.options.interceptors is not None:
            self.options.interceptors.close()

    def _end(self) -> None:
        """`abort` without closing what a later core may use. Idempotent."""
        if self.closed:
            return
        self.closed = self.stopping = True
        self.push.abort()
        self.reads.end()
        self.beginnings.end()
        self._leaders.abort()
        self._tasks.cancel()
        self.group.abort()
        self.cluster.abort()
        self.buffer.clear()

    def drop(self) -> None:
        """The event loop is closed: drop what the garbage collector cannot see."""
        self.buffer.drop()

    def on_forked(self, error: KafkaError) -> None:
        """Reject every call in a forked child, and touch nothing (see `_fork`)."""
        self.closed = self.stopping = True
        self.refusal = error

    def ended(self) -> Exception:
        """Return the error of calls once the consumer is stopping or closed."""
        return ConsumerStoppedError() if self.refusal is None else copy.copy(self.refusal)

    # --- metrics

    def metric_values(self) -> dict[str, float | None]:
        """Return the metrics under Kafka's names."""
        self.reads.count_taken()
        now = self.loop.time()
        values = self.metrics.snapshot(
            now,
            partitions=len(self.assignment),
            buffered=len(self.buffer),
            group=self.group.driver.membership.counters,
        )
        values.update(self.cluster.connection_metrics(now))
        return values

    def _pushed_metrics(self) -> ClientMetrics:
        from aiokafka_lite.metrics_push.metric_points import ClientMetrics

        return ClientMetrics(
            "share consumer",
            self.metric_values,
            lambda: self.cluster.node_metrics(self.loop.time()),
            self._resource,
        )

    def _resource(self) -> dict[str, str]:
        """Return the attributes of this consumer for pushed metrics (KIP-714)."""
        member = self.group.driver.membership.group_metadata()
        found = {
            "client_rack": self.options.membership.client_rack or "",
            "group_id": member.group_id,
            "group_member_id": member.member_id,
        }
        return {name: value for name, value in found.items() if value}

    # --- subscription

    def subscribe(self, topics: frozenset[str]) -> None:
        """Replace the subscription; buffered records of other topics are released."""
        self.topics = topics
        _release(self.buffer.take_others(topics))
        if self.started:
            self._track_topics()
            if topics:
                self.group.subscribe(topics)
            else:
                self.group.unsubscribe()
            self._on_metadata(self.cluster.metadata)

    def _track_topics(self) -> None:
        names = self.topics | self.group.topics
        if names != self._tracked:
            self._tracked = names
            self.cluster.set_topics(names)

    def check_running(self) -> None:
        """Raise unless reads may continue.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            IllegalStateError: It was not started, or this is not its event loop.
            KafkaError: A task crashed.
        """
        self.check_home()
        if self.crash is not None:
            raise copy.copy(self.crash)
        if self.stopping:
            raise self.ended()
        if not self.starting:
            raise IllegalStateError("The consumer is not started: call `start()` first")

    # --- acknowledgements

    def acknowledge(self, tp: TopicPartition, offset: int, kind: int) -> Acknowledgement:
        """Acknowledge a record by its place.

        Raises:
            IllegalStateError: This consumer does not hold the record, or the mode is implicit.
        """
        self.check_home()
        acquisition = self._leaders.find(tp, offset)
        if acquisition is not None:
            return mark(acquisition, offset, kind)
        raise IllegalStateError(
            f"offset {offset} of {tp.topic}-{tp.partition} is not locked for this consumer"
        )

    async def flush(self) -> None:
        """Send all marks now, and wait for their results."""
        self.check_running()
        if self.options.implicit:
            self.reads.accept_delivered()
        await self._leaders.flush()

    # --- the links' owner

    @property
    def failure(self) -> KafkaError | None:
        """The error that the next read raises."""
        failure = self.reads.failure
        return failure if isinstance(failure, KafkaError) else None

    @property
    def member_id(self) -> str:
        return self.group.member_id

    def claim(self, link: Claimant) -> tuple[int, bool]:
        return self.reads.claim(link)

    def on_items(self, items: Sequence[Item], tp: TopicPartition) -> None:
        if tp.topic not in self.topics:  # the fetch was in flight when the subscription changed
            _release(item for item in items if not isinstance(item, BaseException))
            items = [item for item in items if isinstance(item, BaseException)]
        self.reads.on_items(items)

    def begin(self) -> None:
        self.buffer.begin()

    def on_fetched(self, size: int, latency: float) -> None:
        self.metrics.on_fetch(size, latency, self.loop.time())

    def on_fetch_ended(self, link: Claimant) -> None:
        self.reads.on_fetch_ended(link)
        self._leaders.wake()

    def on_turn_passed(self) -> None:
        if self.buffer.awaited:
            self._leaders.wake()

    def on_lock_timeout(self, seconds: float) -> None:
        self.lock_timeout = seconds

    def on_hints(self, hints: Sequence[LeaderHint]) -> None:
        self.cluster.apply_leader_hints(hints)

    def on_stale_metadata(self) -> None:
        self.cluster.request_update()

    def on_failure(self, error: KafkaError) -> None:
        self.reads.failure = error
        self.opening.end()
        self.buffer.wake()

    def on_acknowledged(self, count: int, failed: bool) -> None:
        self.metrics.on_acknowledged(count, failed)

    def on_unseen_failure(self, tp: TopicPartition, failures: Failures) -> None:
        if not self.stopping:
            self._losses.on_unseen_failure(tp, failures, self.loop.time())

    def on_lost(self, tp: TopicPartition | None, count: int, why: str) -> None:
        self.metrics.on_lost(count)
        for on_lost in self.lock_watchers:
            on_lost()
        self._losses.on_lost(tp, count, why, self.loop.time())

    def _on_buffered_expired(self, count: int) -> None:
        self.metrics.on_lost(count)
        self._losses.on_buffered_expired(count, self.loop.time())

    # --- leaders

    def _on_assignment(self, assignment: frozenset[TopicPartition]) -> None:
        self.assignment = assignment
        self.opening.on_assigned(assignment)
        self._route()
        self.beginnings.on_assigned(assignment)

    def _on_metadata(self, metadata: Metadata) -> None:
        if self.closed:
            return
        self.group.driver.on_metadata(metadata)
        self._route()
        refusal = topics_refusal(metadata, self.topics)
        if refusal is not None:
            self.on_failure(refusal)

    def _route(self) -> None:
        if not self.stopping:
            self._leaders.route(self.assignment)

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A task crashed because of a bug: let reads raise it instead of hanging."""
        log.error(
            "%s: %s crashed",
            self.options.log_name,
            name,
            exc_info=error,
            extra=log_extra(self.options.log_name),
        )
        if not self.closed:
            failure = KafkaError(f"{name} crashed: {error!r}")
            failure.__cause__ = error
            self.crash = failure
            self.group.on_fail(failure)  # for a start that waits
            self.buffer.wake()


def _release(records: Iterable[Record]) -> None:
    """Release records that no read has returned."""
    for record in records:
        record._marks.mark_undecided(record.offset, record.offset, RELEASE)


def mark(acquisition: Marks, offset: int, kind: int) -> Acknowledgement:
    """Acknowledge an acquired offset with any type."""
    if kind == RENEW:
        return acquisition.renew(offset)
    return acquisition.mark(offset, kind)
