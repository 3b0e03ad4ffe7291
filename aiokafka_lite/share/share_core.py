"""The share consumer without its public class: the parts, their connections and their lifecycle.

Tasks refer to this object and its parts, never to the public `AIOKafkaShareConsumer`: one that was
dropped is collected at once, and its finalizer ends the core with `abort`.

Tasks: the cluster's metadata refresh, those of the membership, and one for each leader.

Non-obvious:

- Records are acquired only while a read waits, and never more than the waiting reads can take:
  what is buffered and what fetches in flight may still acquire counts against it.
- A leader link outlives the assignment of its partitions: their records may still be acknowledged.
- `stop` first ends reads, then closes each share session (which sends the last acknowledgements and
  releases what is undecided), then leaves the group; all within one deadline.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka_lite._home import check_home
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import LeaderHint, Metadata
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.share.acknowledgement import Acknowledgement, Failures
from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.acquisition import ACCEPT, RELEASE, RENEW, Acquisition
from aiokafka_lite.share.leader_link import LeaderLink
from aiokafka_lite.share.share_buffer import ShareBuffer
from aiokafka_lite.share.share_group import ShareGroup
from aiokafka_lite.share.share_metrics import ShareMetrics
from aiokafka_lite.share.share_options import ShareOptions
from aiokafka_lite.share.share_record import ShareRecord
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

__all__ = ["ShareCore"]

log: Final = logging.getLogger(__name__)

STOP_WITHIN: Final = 5.0
"""Seconds after which `stop` stops waiting."""

GIVE_UP_WITHIN: Final = 1.0
"""Maximum seconds for a failed or cancelled `start` to leave the group."""

CLOSING_TAKES: Final = 0.5
"""Seconds of `STOP_WITHIN` reserved for ending tasks and connections."""

LEAVING_TAKES: Final = 1.5
"""Seconds of `STOP_WITHIN` reserved for leaving the group."""

LOG_EVERY: Final = 10.0
"""Seconds between two log lines about failures that the application does not await."""

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
        loop: The event loop of the consumer.
    """

    def __init__(
        self, cluster: Cluster, options: ShareOptions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.lock_watchers: list[Callable[[], None]] = []  # called after locks were lost
        self.loop = loop
        self.cluster = cluster
        self.options = options
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
        self._links: dict[int, LeaderLink] = {}
        self._link_tasks: dict[int, asyncio.Task[None]] = {}
        self.assignment: frozenset[TopicPartition] = frozenset()
        self._tracked: frozenset[str] = frozenset()
        self._failure: BaseException | None = None  # raised by the next read
        self._crashed: KafkaError | None = None  # raised by every read: a bug
        self._wish = 0  # records that a read which did not wait could take
        self._delivered: list[Record] = []  # to be accepted by the next read (implicit mode)
        self._leaderless = 0  # consecutive metadata without a leader of an assigned partition
        self._leader_request_due = False
        self._quiet_until = 0.0  # loop time until which unseen failures are only counted
        self._unlogged = 0
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
            try:
                if not self.closed:
                    await self.group.close(self.loop.time() + GIVE_UP_WITHIN)
            finally:
                self.abort()
            if stopped and isinstance(error, KafkaError):
                raise ConsumerStoppedError() from None
            raise

    async def _start(self) -> None:
        self._track_topics()
        deadline = self.loop.time() + self.options.api_timeout
        for topic in self.topics:
            try:
                await self.cluster.partitions_of(topic, deadline)
            except KafkaTimeoutError as error:
                if isinstance(error.__cause__, UnknownTopicOrPartitionError):
                    raise error.__cause__ from error
                raise
        self.started = True
        self.cluster.add_listener(self._on_metadata)
        if self.topics:
            self.group.subscribe(self.topics)
            self._on_metadata(self.cluster.metadata)
            await self.group.wait_assigned()

    async def stop(self) -> None:
        """Stop within `STOP_WITHIN` seconds, even if brokers do not answer. Idempotent."""
        deadline = self.loop.time() + STOP_WITHIN
        self.stopping = True
        self.buffer.wake()
        try:
            async with self._stop_lock:
                if not self.closed:
                    await self._close_links(deadline - CLOSING_TAKES - LEAVING_TAKES)
                if not self.closed:
                    await self.group.close(deadline - CLOSING_TAKES)
        finally:
            self.abort()
        await self.finish(deadline)

    async def _close_links(self, deadline: float) -> None:
        for link in self._links.values():
            link.stop()
        tasks = list(self._link_tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - self.loop.time()))
        closings = [
            self._tasks.spawn(link.close(deadline), f"close {link.node_id}")
            for node_id, link in self._links.items()
            if self._link_tasks[node_id].done()
        ]
        if closings:
            await asyncio.wait(closings, timeout=max(0.0, deadline - self.loop.time()))

    async def finish(self, deadline: float) -> None:
        """Wait for the tasks to end, until the deadline (loop time)."""
        await self._tasks.close(deadline)
        await self.group.end(deadline)
        await self.cluster.close(deadline)

    def abort(self) -> None:
        """Close everything at once, without awaiting; callable in a finalizer. Idempotent."""
        if self.closed:
            return
        self.closed = self.stopping = True
        for link in self._links.values():
            link.abort()
        self._tasks.cancel()
        self.group.abort()
        self.cluster.abort()
        self.buffer.wake()

    def on_forked(self, error: KafkaError) -> None:
        """Reject every call in a forked child, and touch nothing (see `_fork`)."""
        self.closed = self.stopping = True
        self.refusal = error

    def ended(self) -> Exception:
        """Return the error of calls once the consumer is stopping or closed."""
        return ConsumerStoppedError() if self.refusal is None else copy.copy(self.refusal)

    # --- subscription

    def subscribe(self, topics: frozenset[str]) -> None:
        """Replace the subscription; buffered records of other topics are released."""
        self.topics = topics
        for record in self.buffer.take_others(topics):
            record._acquisition.mark_undecided(record.offset, record.offset, RELEASE)
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

    # --- reads

    async def next_records(self, limit: int | None, deadline: float | None) -> list[Record]:
        """Return records: those that are buffered, or the first to arrive.

        Args:
            limit: Maximum records; `max_poll_records` by default.
            deadline: In loop time; None for no limit; in the past: do not wait.

        Returns:
            [] if none arrived until the deadline.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            KafkaError: The membership or a fetch failed.
        """
        most = self.options.max_poll_records if limit is None else limit
        self._begin_read()
        while True:
            records = self.buffer.take_many(most)
            if records:
                self._on_delivered(records)
                return records
            if not await self._wait(most, deadline):
                return []

    async def next_record(self) -> Record:
        """Return the next record, waiting for it if necessary; raises as `next_records` does."""
        self._begin_read()
        while True:
            record = self.buffer.take()
            if record is not None:
                self._on_delivered([record])
                return record
            await self._wait(self.options.max_poll_records, None)

    def _begin_read(self) -> None:
        self._check_running()
        if self._delivered:
            self.accept_delivered()

    async def _wait(self, limit: int, deadline: float | None) -> bool:
        self._check_running()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self.group.retry()
            raise failure
        if deadline is not None and deadline <= self.loop.time():
            self._wish = limit
            self.group.poll(waiting=False)
            self._wake_links()
            await asyncio.sleep(0)
            return False
        self.group.poll(waiting=True)
        try:
            arrived = await self.buffer.wait(limit, deadline, self._wake_links)
        finally:
            self.group.poll(waiting=bool(self.buffer.limits))
        self._check_running()
        return arrived

    def _on_delivered(self, records: Sequence[Record]) -> None:
        self.metrics.on_records(len(records), self.loop.time())
        if self.options.implicit:
            self._delivered.extend(records)

    def accept_delivered(self) -> None:
        """Accept what was delivered (implicit mode)."""
        delivered, self._delivered = self._delivered, []
        for record in delivered:
            record._acquisition.mark_undecided(record.offset, record.offset, ACCEPT)

    def _check_running(self) -> None:
        self.check_home()
        if self._crashed is not None:
            raise copy.copy(self._crashed)
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
        for link in self._links.values():
            acquisition = link.pending.find(tp, offset)
            if acquisition is not None:
                return mark(acquisition, offset, kind)
        raise IllegalStateError(
            f"offset {offset} of {tp.topic}-{tp.partition} is not locked for this consumer"
        )

    async def flush(self) -> None:
        """Send all marks now, and wait for their results."""
        self._check_running()
        if self.options.implicit:
            self.accept_delivered()
        await asyncio.gather(*(link.flush() for link in list(self._links.values())))

    # --- the links' owner

    @property
    def member_id(self) -> str:
        return self.group.member_id

    def claim(self, link: LeaderLink) -> tuple[int, bool]:
        """Grant a link a part of what the waiting reads can take."""
        if self.stopping or len(self.buffer):
            return 0, False
        limits = self.buffer.limits
        if self._wish:
            limits.append(self._wish)
        if not limits or not link.able:
            return 0, False
        most = self.options.max_poll_records
        if not self.options.record_limit:
            self._wish = 0
            return most, False
        wanted = min(sum(limits), max(most, *limits))
        free = wanted - sum(each.claimed for each in self._links.values())
        able = [each for each in self._links.values() if each.able]
        share, rest = divmod(max(free, 0), len(able))
        if share == 0:
            # Too few for all: those that fetched longest ago come first.
            able.sort(key=lambda each: each.fetched_at)
            return (1 if link in able[:rest] else 0), True
        if link is able[0]:
            share += rest
        return share, False

    def on_items(self, items: Sequence[Item], tp: TopicPartition) -> None:
        self._wish = 0
        if items:
            self.buffer.add(items)

    def on_fetched(self, link: LeaderLink, records: int, size: int, latency: float) -> None:
        self.metrics.on_fetch(size, latency, self.loop.time())
        if self._wish and not any(each.claimed for each in self._links.values() if each != link):
            self._wish = 0  # every leader was asked once
        self._wake_links()

    def on_lock_timeout(self, seconds: float) -> None:
        self.lock_timeout = seconds

    def on_hints(self, hints: Sequence[LeaderHint]) -> None:
        self.cluster.apply_leader_hints(hints)

    def on_stale_metadata(self) -> None:
        self.cluster.request_update()

    def on_failure(self, error: KafkaError) -> None:
        self._failure = error
        self.buffer.wake()

    def on_acknowledged(self, count: int, failed: bool) -> None:
        self.metrics.on_acknowledged(count, failed)

    def on_unseen_failure(self, tp: TopicPartition, failures: Failures) -> None:
        """Log it, at most one line every `LOG_EVERY` seconds."""
        if self.stopping:
            return
        first, last, error = failures[0]
        count = sum(each[1] + 1 - each[0] for each in failures)
        self._log_limited(
            count,
            "acknowledgements failed, first of %s-%d offsets %d to %d: %s",
            *tp,
            first,
            last,
            error,
        )

    def on_lost(self, tp: TopicPartition | None, count: int, why: str) -> None:
        self.metrics.on_lost(count)
        for on_lost in self.lock_watchers:
            on_lost()
        where = "" if tp is None else f" of {tp.topic}-{tp.partition}"
        self._log_limited(
            count,
            "records%s were not acknowledged: %s, and the group delivers them again",
            where,
            why,
        )

    def _on_buffered_expired(self, count: int) -> None:
        self.metrics.on_lost(count)
        self._log_limited(count, "acquired records expired before a read took them")

    def _log_limited(self, count: int, text: str, *args: object) -> None:
        now = self.loop.time()
        if now < self._quiet_until:
            self._unlogged += count
            return
        self._quiet_until = now + LOG_EVERY
        if self._unlogged:
            log.warning("%s: %d more, not logged", self.options.log_name, self._unlogged)
            self._unlogged = 0
        log.warning("%s: %d " + text, self.options.log_name, count, *args)

    # --- leaders

    def _on_assignment(self, assignment: frozenset[TopicPartition]) -> None:
        self.assignment = assignment
        self._route()

    def _on_metadata(self, metadata: Metadata) -> None:
        if self.closed:
            return
        self.group.driver.on_metadata(metadata)
        self._route()
        refused: dict[type[KafkaError], list[str]] = {}
        for name in sorted(self.topics):
            topic = metadata.topics.get(name)
            if topic is not None and topic.refused and topic.error is not None:
                refused.setdefault(topic.error, []).append(name)
        for kind in sorted(refused, key=lambda kind: kind is InvalidTopicError):
            self.on_failure(kind(*refused[kind]))
            break

    def _route(self) -> None:
        """Give each leader its partitions."""
        metadata = self.cluster.metadata
        wanted: dict[int, dict[PartitionId, TopicPartition]] = {}
        missing = False
        for tp in self.assignment:
            topic = metadata.topics.get(tp.topic)
            leader = metadata.leader(tp.topic, tp.partition)
            if topic is None or topic.topic_id is None or leader is None:
                missing = True
                continue
            key = PartitionId(topic.topic_id, tp.partition)
            wanted.setdefault(leader.node_id, {})[key] = tp
        for node_id in wanted:
            if node_id not in self._links and not self.stopping:
                self._open_link(node_id)
        for node_id, link in list(self._links.items()):
            link.set_wanted(wanted.get(node_id, {}))
        if missing:
            self._request_leaders()
        else:
            self._leaderless = 0
        self._wake_links()

    def _open_link(self, node_id: int) -> None:
        link = self._links[node_id] = LeaderLink(
            node_id,
            self.cluster,
            self,
            self.options,
            self.options.decoding,
            self.options.retry_backoff,
            self.loop,
        )
        self._link_tasks[node_id] = self._tasks.spawn(link.run(), f"share session {node_id}")

    def _request_leaders(self) -> None:
        """Request metadata again, with increasing backoff, while a leader is missing."""
        if self._leader_request_due:
            return
        self._leader_request_due = True
        self._leaderless += 1
        self.loop.call_later(
            self.options.retry_backoff.delay(self._leaderless), self._on_leader_request
        )

    def _on_leader_request(self) -> None:
        self._leader_request_due = False
        if not self.closed:
            self.cluster.request_update()

    def _wake_links(self) -> None:
        for link in self._links.values():
            link.wake()

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """A task crashed because of a bug: let reads raise it instead of hanging."""
        log.error("%s: %s crashed", self.options.log_name, name, exc_info=error)
        if not self.closed:
            failure = KafkaError(f"{name} crashed: {error!r}")
            failure.__cause__ = error
            self._crashed = failure
            self.group.on_fail(failure)  # for a start that waits
            self.buffer.wake()


def mark(acquisition: Acquisition, offset: int, kind: int) -> Acknowledgement:
    """Acknowledge an acquired offset with any type."""
    if kind == RENEW:
        return acquisition.renew(offset)
    return acquisition.mark(offset, kind)
