"""The consumer without its public class: the parts, their connections and their lifecycle.

Tasks and listeners refer to this object and its parts, never to the public `AIOKafkaConsumer`. So a
dropped consumer is collected at once, and its finalizer ends the core with `abort`.

Tasks: the cluster's metadata refresh; one fetch task per broker; while positions are missing, one
that looks them up; one for each set of large compressed batches while a thread decodes it; and
those of the group.

Non-obvious:

- Every change of the assignment goes through `assignment`; every change of a position through
  `positioning`. Both are synchronous: earlier buffered records and requests are discarded when they
  return.
- `stop` ends reads first, then leaves the group, while everything else still works: a listener may
  then commit and look up positions.
- With `auto_offset_reset="latest"`, reading starts where the partition ends when `start` returns
  (if its leader answered), so a record sent after that is never missed.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from aiokafka_lite._home import check_home
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.leader_requests import LeaderRequests
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.cluster.subscribed_topics import topics_refusal, wait_for_topics
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.record_reader import Reader
from aiokafka_lite.consumer.buffering.thread_decoding import ThreadDecoding
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, GroupOptions
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.consumer.metrics_reader import MetricsReader
from aiokafka_lite.consumer.offsets.end_offsets import EndOffsets
from aiokafka_lite.consumer.offsets.offset_validation import Validation
from aiokafka_lite.consumer.offsets.position_checks import PositionChecks
from aiokafka_lite.consumer.offsets.position_resolver import CommittedOffset, PositionResolver
from aiokafka_lite.consumer.partitions.delivery import Delivery
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.positioning import Positioning
from aiokafka_lite.consumer.subscribing import Subscribing
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
)
from aiokafka_lite.group.assignment_lease import LeaseBook
from aiokafka_lite.reading.consumer_lifecycle import GIVE_UP_WITHIN
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:  # imported at runtime only with a group
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup
    from aiokafka_lite.metrics_push.metrics_push import MetricsPush

log = logging.getLogger(__name__)

FIRST_POSITIONS_WAIT = 5.0
"""Seconds that `start` waits for the first positions; then the lookup continues in the
background."""

STOP_WITHIN = 5.0
"""Seconds after which `stop` stops waiting."""

CLOSING_TAKES = 0.5
"""Seconds of `STOP_WITHIN` reserved for ending tasks and connections after leaving the group."""


_REMEDY = (
    "create a consumer in the event loop that uses it, or call this one there with"
    " asyncio.run_coroutine_threadsafe()"
)


class ConsumerCore:
    """All parts of one consumer.

    Args:
        cluster: Not started; the core owns it from now on.
        options: The consumer's options.
        group: The membership's options, or None without a group.
        push: Of this consumer's metrics; not started.
        metadata_max_age: Seconds, for the fetcher.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        group: GroupOptions | None,
        push: MetricsPush,
        *,
        metadata_max_age: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.loop = loop
        self.cluster = cluster
        self.options = options
        self.push = push
        self.subscription = Subscription(
            exclude_internal=options.exclude_internal_topics,
            grouped=group is not None,
            modern=group is not None and group.modern,
        )
        self.positions = Positions(options.auto_offset_reset, options.max_partition_fetch_bytes)
        self.starting = False
        self.started = False
        self.stopping = False  # or stopped
        self.closed = False
        self._metadata_version = -1  # of the metadata that was last applied to the parts
        self.refusal: KafkaError | None = None  # in a forked child: the error of every call
        self._leader_requests = LeaderRequests(cluster, loop)
        self.crash: KafkaError | None = None  # of a task: a bug, which every read raises
        self._tasks = TaskOwner("consumer", self._on_task_error)
        self._waiters = Waiters(self._on_wait)
        self.buffer = FetchBuffer(
            Delivery(loop),
            key_deserializer=options.key_deserializer,
            value_deserializer=options.value_deserializer,
            fetch_max_bytes=options.fetch_max_bytes,
            on_drained=self._on_drained,
            on_heavy=self._on_heavy,
            awaited=self._waiters.awaited,
            interceptors=options.interceptors,
        )
        self._decoding = ThreadDecoding(
            loop, self.buffer, self._waiters, self._tasks, deserializes=options.deserializes
        )
        self.resolver = PositionResolver(
            cluster,
            self.positions,
            self.buffer,
            options,
            self._tasks,
            self._on_resolved,
            committed=None if group is None else self._committed,
        )
        self.fetcher = Fetcher(
            cluster,
            self.positions,
            self.buffer,
            self._waiters,
            options,
            self._tasks,
            metadata_max_age=metadata_max_age,
            resolve_positions=self._resolve_positions,
            on_placed=self._on_placed,
            loop=loop,
        )
        self.validation = Validation(
            cluster, self.positions, self.buffer, options, self._tasks, loop, self._on_validated
        )
        self._checks = PositionChecks(self.positions, self.validation, self.resolver, loop)
        self.positioning = Positioning(
            self.positions,
            self.buffer,
            self.resolver,
            self.fetcher,
            on_resolved=self._on_resolved,
            deadline=self.deadline,
            check_running=self._check_running,
        )
        self.leases = LeaseBook()
        self.assignment = Assignment(
            cluster,
            self.positions,
            self.buffer,
            self.fetcher,
            self.resolver,
            self._waiters,
            self.leases,
        )
        self.group = None if group is None else self._make_group(group)
        self.subscribing = Subscribing(
            cluster,
            self.subscription,
            self.assignment,
            self.group,
            started=lambda: self.started,
            on_metadata=self._on_metadata,
            report_refused_topics=self._report_refused_topics,
        )
        self.reader = Reader(
            self.positions,
            self.buffer,
            self._waiters,
            deserializes=options.deserializes,
            ahead=not options.at_delivery,
            check_home=self.check_home,
            watch=self.group,
        )
        self.metrics = MetricsReader(
            cluster,
            options,
            self.positions,
            self.buffer,
            self.fetcher,
            self._waiters,
            self.group,
            EndOffsets(cluster, self.positions, options, self._tasks),
            active=lambda: self.started and not self.stopping,
            loop=loop,
        )
        self._stop_lock = asyncio.Lock()  # a second `stop` waits for the first

    def _make_group(self, options: GroupOptions) -> ConsumerGroup:
        from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup

        return ConsumerGroup(
            self.cluster,
            options,
            self.options,
            self.subscription,
            self.assignment,
            self.positions,
            self.buffer.delivery,
            self.leases,
            on_failure=self._on_group_failure,
            track_topics=self._track_topics,
            on_error=self._on_task_error,
            loop=self.loop,
        )

    def check_home(self) -> None:
        """Raise IllegalStateError in another event loop, thread or process than the consumer's."""
        if self.refusal is not None:
            raise self.ended()
        check_home(self.loop, "this AIOKafkaConsumer", _REMEDY)

    def deadline(self) -> float:
        """Return the deadline of a call that sends requests, in loop time."""
        return self.loop.time() + self.options.api_timeout

    # --- lifecycle

    async def start(self, connect_by: float | None = None) -> None:
        """Connect, wait until the topics are known, and begin to fetch.

        A start that fails to connect changes nothing and can be repeated. One that fails or is
        cancelled later closes this core.

        Args:
            connect_by: Deadline for connecting (loop time); without it, each address is tried once.

        Raises:
            KafkaConnectionError: No broker answered.
            TopicAuthorizationFailedError, InvalidTopicError: A broker rejected a topic.
            UnknownTopicOrPartitionError: A topic does not exist and was not created in time.
            KafkaError: The coordinator rejected this member.
            ConsumerStoppedError: `stop` was called meanwhile.
        """
        self.starting = True
        self.reader.begun = True
        try:
            await self.cluster.start(connect_by)
            await self._start()
        except BaseException as error:
            stopped = self.stopping
            if not stopped and not self.cluster.started and not self.cluster.closed:
                self.starting = False
                self.reader.begun = False
                self._waiters.wake()  # pending reads would wait forever
                raise
            try:
                if self.group is not None and not self.closed:
                    # Otherwise the other members would wait until this session expires.
                    await self.group.close(self.loop.time() + GIVE_UP_WITHIN)
            finally:
                self._end()
            if stopped and isinstance(error, KafkaError):
                raise ConsumerStoppedError() from None  # whatever the failure
            raise

    async def _start(self) -> None:
        deadline = self.deadline()
        self.subscribing.track_topics()
        await wait_for_topics(self.cluster, self.subscription.topics, deadline)
        if self.subscription.pattern is not None:
            await self.cluster.refresh(deadline)
        await self._assign_first()
        if self.stopping:
            raise ConsumerStoppedError()
        self.subscribing.track_topics()  # the subscription may have changed meanwhile
        self.started = True
        self.assignment.active = True
        self.cluster.add_listener(self._on_metadata)
        self._on_metadata(self.cluster.metadata)
        self.resolver.wake()
        if self.group is not None:
            await self.group.wait_assigned()
        timeout = min(FIRST_POSITIONS_WAIT, self.options.request_timeout)
        try:
            await self.resolver.wait(list(self.positions), self.loop.time() + timeout)
        except KafkaTimeoutError as error:
            log.warning(
                "%s: started before all positions were known: %s",
                self.options.log_name,
                error,
                extra=log_extra(self.options.log_name),
            )
        if self.stopping:  # `stop` ends the waits above, or a listener called it
            raise ConsumerStoppedError()
        self.push.start(self.metrics.pushed)

    async def _assign_first(self) -> None:
        """Assign the partitions of the subscription, divided among iterations of the event loop.

        `_on_metadata` then adds missing partitions, and removes those unsubscribed meanwhile.
        """
        slices = Slices()
        for part in self.subscription.first_partitions(self.cluster.metadata):
            self.assignment.extend(part)
            if slices.over():
                await slices.pause()

    async def stop(self, leave_group: bool | None = None) -> None:
        """Stop within `STOP_WITHIN` seconds, even if brokers do not answer. Idempotent.

        Args:
            leave_group: As in `AIOKafkaConsumer.stop`.
        """
        if self.stopping and self.group is not None and self.group.in_listener:
            return  # called by a listener, which the pending `stop` awaits
        deadline = self.loop.time() + STOP_WITHIN
        self.stopping = True
        self.reader.stop()
        try:
            await self.push.begin_to_close()  # with the metrics of a member that has not left
            async with self._stop_lock:
                if self.group is not None and not self.closed:
                    await self.group.close(deadline - CLOSING_TAKES, leave_group)
                if not self.closed:
                    await self.fetcher.end_sessions(deadline - CLOSING_TAKES)
                    await self.push.close(deadline - CLOSING_TAKES)
        finally:
            self.abort()
        await self.finish(deadline)

    async def finish(self, deadline: float) -> None:
        """Wait for the tasks to end, until the deadline (loop time)."""
        await self._tasks.close(deadline)
        if self.group is not None:
            await self.group.end(deadline)
        await self.cluster.close(deadline)

    def abort(self) -> None:
        """Close everything at once, without awaiting; callable in a finalizer. Idempotent."""
        self._end()
        if self.options.interceptors is not None:
            self.options.interceptors.close()

    def drop(self) -> None:
        """The event loop is closed. The garbage collector sees everything here."""

    def take_over(self, other: ConsumerCore) -> None:
        """Copy the subscription, seeks and pauses of another core, whose start failed."""
        self.subscription.take_over(other.subscription)
        if not self.subscription.manual:
            return
        self.assignment.replace(other.positions.partitions())
        for state in other.positions:
            mine = self.positions.state(state.tp)
            if state.position is not None:
                mine.seek(state.position, state.position_epoch)
            elif state.reset is not None and not state.resumes:
                mine.ask_reset(state.reset)
            if state.paused:
                self.assignment.pause(mine)

    def _end(self) -> None:
        """`abort` without closing what a later core may use. Idempotent."""
        if self.closed:
            return
        self.closed = self.stopping = True
        self.push.abort()
        self.assignment.active = False
        self.reader.stop()
        self.buffer.clear(self.positions)
        self.resolver.close()
        self.validation.close()
        self.fetcher.close()
        self._leader_requests.close()
        if self.group is not None:
            self.group.abort()
        self.cluster.abort()

    def on_forked(self, error: KafkaError) -> None:
        """Reject every call in a forked child, and touch nothing (see `_fork`)."""
        self.closed = self.stopping = True
        self.assignment.active = False
        self.refusal = error
        self.reader.on_forked(error)

    def ended(self) -> Exception:
        """Return the error of calls once the consumer is stopping or closed."""
        return ConsumerStoppedError() if self.refusal is None else copy.copy(self.refusal)

    # --- callbacks of the parts

    def _on_metadata(self, metadata: Metadata) -> None:
        """Update the subscription, the leaders and the group from new metadata."""
        if self.closed:
            return
        partitions = self.subscription.on_metadata(
            metadata, self.positions.assigned, self.loop.time()
        )
        if partitions is not None:
            self.assignment.replace(partitions)
        self.fetcher.on_metadata(metadata)
        if partitions is not None or metadata.version != self._metadata_version:
            self._checks.check_all()  # otherwise only leaders changed (KIP-951)
        self._metadata_version = metadata.version
        self._request_lost_leaders()
        if self.group is not None:
            self.group.on_metadata(metadata)
        self._report_refused_topics()

    def _report_refused_topics(self) -> None:
        """Let reads raise the brokers' errors for the topics that are subscribed to now."""
        if self.crash is None:
            self.reader.fail(topics_refusal(self.cluster.metadata, self.subscription.topics))

    def _on_placed(self, states: Collection[PartitionState]) -> None:
        self._checks.on_placed(states, more=self.fetcher.placing)
        self._request_lost_leaders()

    def _request_lost_leaders(self) -> None:
        if self.fetcher.placing:
            return  # `_on_placed` follows
        missing = any(state.source.node == NOWHERE for state in self.positions.unsettled)
        self._leader_requests.update(missing=missing)

    def _on_wait(self) -> None:
        self.buffer.on_starved()
        self.fetcher.on_starved()
        self.validation.on_starved()
        if self.group is not None:
            self.group.on_wait()

    def _track_topics(self) -> None:
        self.subscribing.track_topics()

    def _on_group_failure(self) -> None:
        self._waiters.wake()

    def _on_resolved(self, state: PartitionState) -> None:
        self.fetcher.update(state)
        self.validation.consider(state)
        if state.source.node == NOWHERE and self.started:
            self._request_lost_leaders()
        if state.error is not None:
            self._waiters.wake()

    def _on_validated(self, state: PartitionState) -> None:
        self.resolver.wake()
        self.resolver.announce()
        self._on_resolved(state)

    def _on_drained(self, states: Collection[PartitionState]) -> None:
        self.fetcher.on_drained(states)
        for state in states:
            if state.unvalidated:
                self.validation.consider(state)
            if state.reset is not None:
                self.resolver.wake()

    def _on_heavy(self, state: PartitionState, records: RecordSet) -> None:
        if not self.closed:
            self._decoding.begin(state, records)

    async def _committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Return the offsets at which a group resumes; there are none without a group."""
        return {} if self.group is None else await self.group.committed(partitions)

    def _resolve_positions(self) -> None:
        self.resolver.wake()

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
            self.crash = failure = KafkaError(f"{name} crashed: {error!r}")
            failure.__cause__ = error
            self.reader.fail(failure)
            if self.group is not None:
                self.group.on_fail(failure)  # for a start that waits

    def _check_running(self) -> None:
        if self.closed:
            raise self.ended()
        if not self.starting:
            raise IllegalStateError("The consumer is not started: call `start()` first")
