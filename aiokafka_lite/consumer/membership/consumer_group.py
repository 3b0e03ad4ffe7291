"""The consumer as a member of its group: applies the membership's changes to the assignment.

`GroupDriver` runs the membership state machine and calls this class for each change. Revoked
partitions are withheld, committed, passed to the listener, and removed; assigned ones are added,
passed to the listener, and then read.

Non-obvious:

- A listener's exception is logged and the rebalance continues, as in aiokafka: raising it from a
  read (as Java does from poll) would only surprise the reader.
- `unsubscribe` is synchronous: the partitions are removed when it returns. A `Parting` keeps the
  offsets to commit and the listener to call until the membership revokes the partitions.
- A fatal error is raised once, by `start` or by a read, which makes the membership try again: the
  cause may have been fixed meanwhile. Only a fenced member stays fenced.
- A read from a decoded chunk does not call this class: see `ChunkPolls`.
- Tasks refer to this object, not to the public class. If the application's listener refers to the
  consumer, that reference cycle keeps a dropped consumer alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.commits.auto_commit import Commits
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, GroupOptions
from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.chunk_polls import ChunkPolls
from aiokafka_lite.consumer.membership.given_up import check_given_up
from aiokafka_lite.consumer.membership.group_protocol import GroupProtocol
from aiokafka_lite.consumer.membership.parting import Parting
from aiokafka_lite.consumer.membership.rebalance_listeners import SHARE, ListenerCalls, Work
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.consumer.membership.unsubscribed import Unwanted
from aiokafka_lite.consumer.partitions.delivery import Delivery
from aiokafka_lite.consumer.partitions.positions import Positions
from aiokafka_lite.errors import FencedInstanceIdError, KafkaError
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata, LeaseBook
from aiokafka_lite.group.classic.machine import ClassicState
from aiokafka_lite.group.membership_driver import GroupDriver
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.reading.first_assignment import FirstAssignment
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)


class ConsumerGroup:
    """One consumer's membership and commits; a `GroupOwner`.

    Args:
        cluster: Finds the coordinator.
        options: The membership's options.
        consumer_options: The consumer's own options.
        subscription: The application's subscription.
        assignment: The consumer's assignment.
        positions: The consumer's positions.
        delivery: The source of reads.
        leases: Checked before offsets of records are committed.
        on_failure: Called when a read must raise `failure`.
        track_topics: Called when the set of topics that need metadata may have changed.
        on_error: Called when a task crashes because of a bug.
        loop: The event loop of the consumer.

    Raises:
        TypeError, KafkaConfigurationError: The strategy is invalid, or its assignors cannot be
            combined.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: GroupOptions,
        consumer_options: ConsumerOptions,
        subscription: Subscription,
        assignment: Assignment,
        positions: Positions,
        delivery: Delivery,
        leases: LeaseBook,
        *,
        on_failure: Callable[[], None],
        track_topics: Callable[[], None],
        on_error: Callable[[str, BaseException], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.options = replace(options.membership, client_id=cluster.client_id)
        self._cluster = cluster
        self._subscription = subscription
        self._assignment = assignment
        self._positions = positions
        self._on_failure = on_failure
        self._track_topics = track_topics
        self._loop = loop
        self._tasks = TaskOwner(f"group {self.options.group_id}", on_error, loop)
        protocol = GroupProtocol.of(options, self.options, cluster)
        self.driver = GroupDriver(
            cluster,
            protocol.membership,
            self,
            options=self.options,
            assignors=protocol.assignors,
            tasks=self._tasks,
            loop=loop,
        )
        interceptors = consumer_options.interceptors
        self._auto_commits = consumer_options.enable_auto_commit
        self.commits = Commits(
            OffsetStore(cluster, self.options.group_id),
            positions,
            consumer_options,
            self._tasks,
            loop,
            driver=self.driver,
            shared=lambda: subscription.shared or self._parting is not None,
            delivery=delivery,
            on_committed=None if interceptors is None else interceptors.on_commit,
        )
        self.failure: KafkaError | None = None
        """The error that the next read raises; see `take_failure`."""
        self.last_failure: KafkaError | None = None
        """The last error of the membership, also once it was raised; None after an assignment."""
        self.joined = False
        """True from an assignment on, until the membership is lost or the subscription ends."""
        self._read_at: float | None = None  # loop time of the last read, or of its end
        self._started = False
        self._patience = 0  # a pattern waits for metadata newer than this version
        self._subscribed: tuple[frozenset[str], str | None] | None = (
            None  # topics, broker-side pattern
        )
        self._unwanted = Unwanted(subscription, assignment)
        self._notified_listener: ConsumerRebalanceListener | None = (
            None  # called for an assignment last
        )
        self._first = FirstAssignment(
            cluster,
            self.options,
            subscribed=lambda: subscription.shared,
            assigned=lambda: bool(assignment.partitions),
            gradual=protocol.gradual,
            raise_failure=self.raise_failure,
            heartbeat=self._heartbeat if options.modern else None,
            loop=loop,
        )
        self._parting: Parting | None = None
        self._close_by: float | None = None
        self.work: Work | None = None
        """Awaited before partitions are revoked."""
        driver = self.driver
        self._listeners = ListenerCalls(consumer_options.log_name, loop, ended=lambda: driver.ended)
        self._chunk_polls = ChunkPolls(
            delivery, self.options.max_poll_interval, self._on_taken, loop
        )
        self.leases = leases
        self._waiting = False  # a read waits for records
        self._read_as: ConsumerGroupMetadata | None = None

    # --- calls of the application

    def subscribe(self) -> None:
        """Apply a changed subscription."""
        if self.failure is not None:
            self.take_failure()  # the membership tries again, and reports the next failure
        self._unwanted.on_subscription(self._subscribed[0] if self._subscribed else ())
        self._subscribed = None
        listener = self._subscription.listener
        if self._started and listener is not None and listener is not self._notified_listener:
            self.driver.rejoin("a new listener must receive the assigned partitions")
        if self._subscription.pattern is not None:
            # The known topics may be only some of those that match.
            self._patience = self._cluster.request_update()
        self.on_metadata(self._cluster.metadata)

    def unsubscribe(self) -> None:
        """Remove the partitions at once, and leave the group in the background."""
        if self.driver.membership.state is not ClassicState.FENCED:  # FENCED is permanent
            self.failure = None
        self._subscribed = None
        self._unwanted.on_unsubscribe()
        self._read_as = None
        if not self._started:
            return
        if self._parting is None and self.driver.membership.assignment:
            given, done = self.commits.given(), self.commits.given(at_work=False)
            self._parting = parting = Parting(given, done, self._subscription.listener)
            # A listener that unsubscribes would wait for itself.
            if self.driver.inside or not self._auto_commits:
                parting.settled.set()
        self.joined = False
        self._first.on_unsubscribed()
        self.driver.membership.leave("the application unsubscribed", self._loop.time())
        self.driver.wake()

    def enforce_rebalance(self, reason: str) -> None:
        """Request a rebalance (KIP-568)."""
        if self._started:
            self.driver.rejoin(reason)

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The group metadata as of the last read, or the current one before any, with its lease.

        A rebalance may complete while the application processes earlier records: with the current
        metadata the coordinator would accept their offsets, although another member reads the
        partitions.
        """
        if self._read_as is not None:
            return self._read_as
        member = self.driver.membership.group_metadata()
        if self._parting is not None and self._parting.notified:
            return ConsumerGroupMetadata.leased(member, self._parting.lease)
        return ConsumerGroupMetadata.leased(member, self.leases.current)

    def check_commit(self, partitions: Collection[TopicPartition]) -> None:
        """Reject offsets of partitions that were revoked and are not assigned again, or were
        revoked since the last read (`check_given_up`).

        Raises:
            CommitFailedError: With RebalanceInProgressError as its cause.
            FencedInstanceIdError: A heartbeat found this member fenced, which revoked them.
        """
        if not self._subscription.shared:
            return
        given_up = {
            tp
            for tp in partitions
            if tp in self.leases.ever_given_up and self._positions.get(tp) is None
        }
        if self._read_as is not None:
            given_up |= self.leases.current.given_up
        if isinstance(self.failure, FencedInstanceIdError) and not given_up.isdisjoint(partitions):
            raise copy(self.failure)
        check_given_up(partitions, given_up, self.options.group_id)

    @property
    def parting(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The positions of unsubscribed partitions, while the application may still commit them:
        from the call of its listener on."""
        parting = self._parting
        return parting.offsets if parting is not None and parting.notified else {}

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose metadata the membership needs besides the subscription's."""
        return self.driver.watched_topics if self._started else frozenset()

    def on_metadata(self, metadata: Metadata) -> None:
        """Pass new metadata to the membership: matching topics, and those the leader watches."""
        subscription = self._subscription
        wanted = subscription.shared and self._close_by is None
        if wanted and metadata.version > self._patience:
            by_broker = subscription.broker_pattern
            topics = subscription.topics if by_broker is None else frozenset()
            if (topics, by_broker) != self._subscribed:
                self._subscribed = (topics, by_broker)
                matches = None if subscription.pattern is None else subscription.matches
                self.driver.subscribe(topics, by_broker, matches)
                self.driver.poll(self._waiting)  # a read may already be waiting
                if not self._started:
                    self._started = True
                    self.driver.start()
                    self._chunk_polls.start()
        if self._started:
            self.driver.on_metadata(metadata)

    # --- reads

    @property
    def in_listener(self) -> bool:
        """True if the current task is calling a rebalance listener."""
        return self.driver.inside

    def on_read(self, waiting: bool) -> None:
        """The application requests records.

        Args:
            waiting: True if a read waits for records, until the next call.
        """
        self._waiting = waiting
        self._read_at = self._loop.time()
        member, lease = self.driver.membership.group_metadata(), self.leases.renew()
        known = self._read_as
        if known is None or known.lease is not lease or known != member:
            self._read_as = ConsumerGroupMetadata.leased(member, lease)
        self._continue(waiting)

    def on_wait(self) -> None:
        """The read that called `on_read` found no records, and waits until the next call."""
        self._waiting = True
        self._continue(True)

    def _continue(self, waiting: bool) -> None:
        self.commits.on_read(waiting)
        if self._started and self._subscription.shared:
            self.driver.poll(waiting)

    def read_ago(self, now: float) -> float | None:
        """Return the seconds since the last read; 0.0 while one waits, None before the first."""
        if self._waiting:
            return 0.0
        return None if self._read_at is None else max(now - self._read_at, 0.0)

    def _on_taken(self) -> None:
        """The application took records without a call of `on_read`."""
        self._read_at = self._loop.time()
        self.driver.poll(self._waiting)

    def raise_failure(self) -> None:
        """Raise the membership's failure, if any; the membership then tries again. A manual
        assignment needs no membership."""
        if self.failure is not None and self._subscription.shared:
            raise self.take_failure()

    def take_failure(self) -> KafkaError:
        """Return the error to raise, and make the membership try again.

        Raises:
            ValueError: The membership has not failed.
        """
        error = self.failure
        if error is None:
            raise ValueError("the membership has not failed")
        if not isinstance(error, FencedInstanceIdError):
            self.failure = None
            self.driver.retry()
        return error

    async def wait_assigned(self) -> None:
        """Wait for the first assignment of the subscription, including the listener's call.

        Raises:
            KafkaTimeoutError: No coordinator was found within the request timeout. (The other
                members may take longer.)
            KafkaError: The membership has failed.
            ConsumerStoppedError: The consumer was stopped meanwhile.
        """
        # The application cannot poll before `start` returns.
        self.driver.poll(waiting=True)
        try:
            await self._first.wait()
        finally:
            self.driver.poll(self._waiting)

    def _heartbeat(self) -> None:
        self.driver.rejoin("start() waits for partitions")  # only sends a heartbeat

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        """Return the group's committed offsets, where reading starts.

        If the application unsubscribed from partitions and then assigned them itself, this waits
        until the offsets of the records read before are committed, but not for longer than a
        request takes: a listener may delay their commit for any time.
        """
        parting = self._parting
        if parting is not None and not parting.done.keys().isdisjoint(partitions):
            try:
                async with asyncio.timeout(self.options.request_timeout):
                    await parting.settled.wait()
            except TimeoutError:
                parting.settled.set()
        deadline = self._loop.time() + self.options.request_timeout
        return await self.commits.committed(partitions, deadline)

    # --- shutdown

    async def close(self, deadline: float, leave: bool | None = None) -> None:
        """Commit, call the listener, and leave the group; all by `deadline`.

        Args:
            leave: Whether to leave the group; None: unless the member is static.
        """
        self._close_by = deadline
        self._listeners.end_by(deadline)
        if self._started:
            await self.driver.close(deadline, None if leave is None else not leave)
        await self.commits.at_close(deadline)

    def abort(self) -> None:
        """Close at once, without awaiting."""
        self._first.end()
        if self._parting is not None:
            self._parting.settled.set()
        self._chunk_polls.stop()
        self.commits.close()
        self.driver.abort()
        self._tasks.cancel()

    async def end(self, deadline: float) -> None:
        """Wait for the tasks that `abort` cancelled."""
        await self._tasks.close(deadline)

    # --- callbacks of the membership

    async def on_revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Revoke partitions; the application may still commit them."""
        self._unwanted.on_transit(partitions)
        if self._parting is None:
            self._assignment.withhold(partitions)
            if self.work is not None:
                await self._listeners.call(self.work.before_going, partitions)
            await self.commits.before_revoke(partitions, self._commit_deadline())
        if self._parting is not None:  # since before, or since `before_revoke`
            await self._part(self._parting, partitions)
            return
        listener = self._subscription.listener
        if listener is not None:
            await self._listeners.call(listener.on_partitions_revoked, partitions)
        self._remove(partitions)

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions that other members may already own."""
        self.joined = False
        self.leases.on_given_up(partitions)
        self._unwanted.on_transit(partitions)
        parting = self._parting
        if parting is not None:
            parting.lease.given_up.update(partitions)
            parting.settled.set()
        listener = self._subscription.listener if parting is None else parting.listener
        if parting is None:  # otherwise the current assignment is the application's own
            self._assignment.withhold(partitions)
        if listener is not None:
            await self._listeners.call(listener.on_partitions_lost, partitions)
        if parting is None:
            self._remove(partitions)
        elif self.driver.membership.assignment.issubset(partitions):
            self._end_parting()

    async def on_assign(
        self, added: Collection[TopicPartition], all: Collection[TopicPartition]
    ) -> None:
        """Assign partitions to the application."""
        if self._parting is not None:
            return  # the application unsubscribed: they are about to be revoked
        self.failure = self.last_failure = None  # resolved, maybe before a read raised it
        listener = self._subscription.listener
        notified, self._notified_listener = self._notified_listener, listener
        self._assignment.replace(all, withhold=() if listener is None else added)
        self._subscription.on_assigned(all)
        self._track_topics()
        if listener is not None:
            # A new listener has not seen the retained partitions.
            news = added if listener is notified else all
            self._unwanted.on_transit(news)
            self._assignment.withhold(news)
            self.leases.renew()  # the listener has now reported the rebalance to the application
            await self._listeners.call(listener.on_partitions_assigned, news)
            self._assignment.release(news)
        self._unwanted.hold()
        self.joined = self._parting is None
        self._first.on_assigned(self.joined)

    def on_fail(self, error: KafkaError) -> None:
        """The membership has failed: let `start` or the next read raise the error."""
        self.failure = self.last_failure = error
        self._first.on_failed()
        self._on_failure()

    def on_change(self) -> None:
        """The membership changed: it may watch other topics."""
        self.commits.on_change()
        if not self.driver.membership.assignment:
            self._end_parting()
        self._track_topics()

    async def _part(self, parting: Parting, partitions: Collection[TopicPartition]) -> None:
        """Release the partitions that the application unsubscribed from."""
        await self.commits.commit_last(parting.done_of(partitions), self._commit_deadline())
        is_last = self.driver.membership.assignment.issubset(partitions)
        if is_last:
            parting.settled.set()
        if parting.listener is not None:
            parting.notified = True
            await self._listeners.call(parting.listener.on_partitions_revoked, partitions)
        parting.lease.given_up.update(partitions)
        if is_last:
            self._end_parting()

    def _end_parting(self) -> None:
        """The membership has revoked or lost all partitions that were unsubscribed from."""
        if self._parting is not None:
            self._parting.settled.set()
            self._parting = None

    def _remove(self, partitions: Collection[TopicPartition]) -> None:
        if partitions and self._subscription.shared:
            self._assignment.replace(self._assignment.partitions.difference(partitions))

    def _commit_deadline(self) -> float:
        """The deadline of the commit before a rebalance."""
        now = self._loop.time()
        patience = min(self.options.request_timeout, self.options.effective_rebalance_timeout)
        if self._close_by is not None:
            patience = min(patience, SHARE * max(0.0, self._close_by - now))
        return now + patience
