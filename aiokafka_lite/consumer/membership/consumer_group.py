"""The consumer as a member of its group: what the membership asks for, done to what is read.

`GroupDriver` runs the membership machine and asks this for each change; this stands between it and
the application: partitions that go are withheld, committed, told to the listener, and taken away;
those that come are given, told to the listener, and then read.

Non-obvious:

- A listener's exception is logged and the rebalance goes on, as in aiokafka: raising it from a read
  (as Java does from poll) would tell an application that did not ask, and change nothing.
- `unsubscribe` is synchronous: the partitions are gone when it returns. What is to be committed of
  them, and the listener that is to be told, wait as `_Parting` for the membership's own Revoke.
- A lasting error is raised once, by the start or by a read, which makes the membership try again:
  it may have been put right meanwhile. Only a fenced member stays so.
- A read that is served from a decoded chunk does not pass by here, or it would cost as much again.
  An application that takes minutes for each of those records polls all the same: so a timer looks
  now and then whether some were taken.
- Tasks hold this and not the face. The application's listener may hold the face, and then keeps
  a consumer that was dropped alive: that is the application's own circle.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.commits.auto_commit import Commits
from aiokafka_lite.consumer.commits.committer import named
from aiokafka_lite.consumer.consumer_options import ConsumerOptions, GroupOptions
from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.rebalance_listeners import SHARE, ListenerCalls
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.consumer.membership.unsubscribed import Unwanted
from aiokafka_lite.consumer.partitions.delivery import Delivery
from aiokafka_lite.consumer.partitions.positions import Positions
from aiokafka_lite.coordinator.strategy import assignors_of
from aiokafka_lite.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
)
from aiokafka_lite.group.assignment_lease import AssignmentLease, ConsumerGroupMetadata, LeaseBook
from aiokafka_lite.group.assignors.interface import choose_rebalance_protocol
from aiokafka_lite.group.classic.machine import ClassicMembership, ClassicState
from aiokafka_lite.group.consumer.machine import ConsumerMembership
from aiokafka_lite.group.membership import Membership, RebalanceProtocol
from aiokafka_lite.group.membership_driver import GroupDriver
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)


EMPTY_FOR = 6.0
"""Seconds that a start waits for the first partition where rebalances are not eager: within a
heartbeat's interval, 5 seconds by default in KIP-848, the others are told to give some back."""

LOOKS = 8
"""How often within max.poll.interval it is looked whether records were taken from a chunk."""


@dataclass(slots=True)
class _Parting:
    """What is left of a subscription that the application gave up.

    Attributes:
        offsets: How far the application had come.
        done: How far of that is done with, and committed when they go.
        listener: Who is to be told.
        telling: The listener is told now, or was.
        lease: Holds while the listener is told: it may still commit.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    done: Mapping[TopicPartition, OffsetAndMetadata]
    listener: ConsumerRebalanceListener | None
    telling: bool = False
    lease: AssignmentLease = field(default_factory=AssignmentLease)


class Work(Protocol):
    """What becomes of what was read, in steps that are not to be cut in two by a rebalance."""

    async def before_going(self, partitions: set[TopicPartition]) -> None:
        """Partitions are about to be taken: return when nothing of them is under way any more, or
        when that would take too long. They are withheld, but assigned still."""


class ConsumerGroup:
    """One consumer's membership and commits; a `GroupOwner`.

    Args:
        cluster: Where the coordinator is found.
        options: Of the membership.
        consumer_options: The consumer's own.
        subscription: What the application wants.
        assignment: What it gets.
        positions: How far it has come.
        delivery: What reads take from.
        leases: What offsets that were read are checked against before they are committed.
        on_failure: Called when a read has to raise `failure`.
        track_topics: Called when the topics that metadata is needed of may be others.
        on_error: Of tasks that end by a mistake of ours.
        loop: The event loop it lives in.

    Raises:
        TypeError, KafkaConfigurationError: By the strategy, which has no assignors that can work
            together.
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
        self.options = options.membership
        self._cluster = cluster
        self._subscription = subscription
        self._assignment = assignment
        self._on_failure = on_failure
        self._track_topics = track_topics
        self._loop = loop
        self._tasks = TaskOwner(f"group {self.options.group_id}", on_error, loop)
        assignors = (
            ()
            if options.modern
            else assignors_of(options.strategy, ClusterMetadata(lambda: cluster.metadata))
        )
        membership: Membership = (
            ConsumerMembership(self.options)
            if options.modern
            else ClassicMembership(self.options, assignors)
        )
        self._modern = options.modern
        self._gradual = options.modern or (
            choose_rebalance_protocol(assignors) is RebalanceProtocol.COOPERATIVE
        )
        self.driver = GroupDriver(
            cluster,
            membership,
            self,
            options=self.options,
            assignors=assignors,
            tasks=self._tasks,
            loop=loop,
        )
        self.commits = Commits(
            OffsetStore(cluster, self.options.group_id),
            positions,
            consumer_options,
            self._tasks,
            loop,
            driver=self.driver,
            shared=lambda: subscription.shared or self._parting is not None,
        )
        self.failure: KafkaError | None = None
        """What the next read raises; see `take_failure`."""
        self._started = False
        self._patience = 0  # version of the metadata that a pattern waits beyond
        self._told: tuple[frozenset[str], str | None] | None = None  # topics, the broker's pattern
        self._unwanted = Unwanted(subscription, assignment)
        self._heard: ConsumerRebalanceListener | None = None  # who was told of an assignment last
        self._assigned = False  # once, since the application subscribed
        self._changed = asyncio.Event()
        self._parting: _Parting | None = None
        self._close_by: float | None = None
        self.work: Work | None = None
        """Who has to be through with what was read before partitions go."""
        self._listeners = ListenerCalls(self.options.group_id, loop)
        self._delivery = delivery
        self.leases = leases
        self._waiting = False  # a read, for records
        self._read_as: ConsumerGroupMetadata | None = None
        self._taken = (0, 0)  # which chunk was read, and how far, when it was looked last
        self._look: asyncio.TimerHandle | None = None
        self._ended = False

    # --- what the application wants

    def subscribe(self) -> None:
        """The subscription is another one now."""
        if self.failure is not None:
            self.take_failure()  # the membership tries again, and tells if that fails
        self._unwanted.on_subscription(self._told[0] if self._told else ())
        self._told = None
        listener = self._subscription.listener
        if self._started and listener is not None and listener is not self._heard:
            self.driver.rejoin("another listener is to be told of the partitions")
        if self._subscription.pattern is not None:
            # The topics known here may be a few of those that match.
            self._patience = self._cluster.request_update()
        self.on_metadata(self._cluster.metadata)

    def unsubscribe(self) -> None:
        """Leave; in the background, the partitions are gone at once."""
        if self.driver.membership.state is not ClassicState.FENCED:  # which does not pass
            self.failure = None
        self._told = None
        self._unwanted.on_unsubscribe()
        self._read_as = None
        if not self._started:
            return
        if self._parting is None and self.driver.membership.assignment:
            given, done = self.commits.given(), self.commits.given(at_work=False)
            self._parting = _Parting(given, done, self._subscription.listener)
        self._assigned = False
        self._changed.set()
        self.driver.membership.leave("the application unsubscribed", self._loop.time())
        self.driver.wake()

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance (KIP-568)."""
        if self._started:
            self.driver.rejoin(reason)

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member's identity at the last read, or now if there was none yet, with its lease.

        A rebalance may end while the application processes what it was given before: under the
        identity of now the coordinator would accept its offsets, though another member reads the
        partitions.
        """
        if self._read_as is not None:
            return self._read_as
        member = self.driver.membership.group_metadata()
        if self._parting is not None and self._parting.telling:
            return ConsumerGroupMetadata.leased(member, self._parting.lease)
        return ConsumerGroupMetadata.leased(member, self.leases.current)

    def check_commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Refuse offsets of partitions that the group took, and gave back, since the last read.

        The identity of now would have the coordinator accept them, though another member may have
        gone further meanwhile. In Java a rebalance happens within a poll only, so that none can
        end between a read and the commit of it.

        Raises:
            CommitFailedError: With RebalanceInProgressError as its cause.
        """
        if self._subscription.shared and self._read_as is not None:
            given_up = self.leases.current.given_up
            if given_up and (gone := [tp for tp in partitions if tp in given_up]):
                error = CommitFailedError(
                    "Commit cannot be completed since the group has rebalanced: it took "
                    f"{named(gone)} from this consumer after the last read, and another member may "
                    "have gone further. Read before you commit again"
                )
                raise error from RebalanceInProgressError(self.options.group_id)

    @property
    def parting(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """How far the application had come in what it has given up, as long as it may commit that:
        while its listener is told."""
        parting = self._parting
        return parting.offsets if parting is not None and parting.telling else {}

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose metadata the membership needs besides the subscription's."""
        return self.driver.watched_topics if self._started else frozenset()

    def on_metadata(self, metadata: Metadata) -> None:
        """New metadata: tell of topics that match now, and of all that the leader watches."""
        subscription = self._subscription
        wanted = subscription.shared and self._close_by is None
        if wanted and metadata.version > self._patience:
            by_broker = subscription.broker_pattern
            topics = subscription.topics if by_broker is None else frozenset()
            if (topics, by_broker) != self._told:
                self._told = (topics, by_broker)
                matches = None if subscription.pattern is None else subscription.matches
                self.driver.subscribe(topics, by_broker, matches)
                self.driver.poll(self._waiting)  # somebody may since before there was a member
                if not self._started:
                    self._started = True
                    self.driver.start()
                    self._look_for_reads()
        if self._started:
            self.driver.on_metadata(metadata)

    # --- the application reads, or waits

    def on_read(self, waiting: bool) -> None:
        """The application asks for records.

        Args:
            waiting: Somebody waits for them, until the next call.
        """
        self._waiting = waiting
        member, lease = self.driver.membership.group_metadata(), self.leases.renew()
        known = self._read_as
        if known is None or known != member or known.lease is not lease:
            self._read_as = ConsumerGroupMetadata.leased(member, lease)
        self.commits.on_read(waiting)
        if self._started and self._subscription.shared:
            self.driver.poll(waiting)

    def _look_for_reads(self) -> None:
        """Let the membership know of records that were taken without passing by here."""
        chunk = self._delivery.current
        taken = (id(chunk), chunk.index)
        if taken != self._taken:
            self._taken = taken
            if chunk.index:
                self.driver.poll(self._waiting)
        self._look = self._loop.call_later(
            self.options.max_poll_interval / LOOKS, self._look_for_reads
        )

    def raise_failure(self) -> None:
        """Raise what lets reading fail, if anything does; the membership tries again then. What
        the application assigns itself needs no membership."""
        if self.failure is not None and self._subscription.shared:
            raise self.take_failure()

    def take_failure(self) -> KafkaError:
        """The error that the application is told now.

        Raises:
            ValueError: There is none.
        """
        error = self.failure
        if error is None:
            raise ValueError("the membership has not failed")
        if not isinstance(error, FencedInstanceIdError):
            self.failure = None
            self.driver.retry()
        return error

    async def wait_assigned(self) -> None:
        """Wait for the first assignment of the subscription, its listener included.

        Raises:
            KafkaTimeoutError: The group has no coordinator, a request's timeout long. (The other
                members may take as long as they are allowed to.)
            KafkaError: The membership has failed.
            ConsumerStoppedError: Stopped meanwhile.
        """
        group_id, patience = self.options.group_id, self.options.request_timeout
        # The application cannot poll before its start has ended.
        self.driver.poll(waiting=True)
        try:
            while not self._assigned and self._subscription.shared:
                if self._ended:
                    raise ConsumerStoppedError()
                self.raise_failure()
                self._changed.clear()
                try:
                    async with asyncio.timeout(patience):
                        await self._changed.wait()
                except TimeoutError:
                    coordinators = self._cluster.coordinators
                    if coordinators.get(CoordinatorKind.GROUP, group_id) is None:
                        raise KafkaTimeoutError(
                            f"No coordinator of group {group_id} was found in {patience:g} s"
                        ) from None
            if self._gradual:
                await self._wait_for_some()
        finally:
            self.driver.poll(self._waiting)

    async def _wait_for_some(self) -> None:
        """Wait for the first partitions, for a while: it may be that there are none to have.

        Where rebalances are not eager a newcomer begins with nothing, until the others have given
        something back. And the broker that assigns (KIP-848) answers at once, even if a topic is
        new to it or a pattern not resolved.
        """
        until, pause = self._loop.time() + EMPTY_FOR, 0.1
        while not self._assignment.partitions and self._subscription.shared:
            if self._ended:
                raise ConsumerStoppedError()
            self.raise_failure()
            left = until - self._loop.time()
            if left <= 0:
                return
            if self._modern:
                self.driver.rejoin("the start waits for partitions")  # a heartbeat, nothing more
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left)):
                    await self._changed.wait()
            pause = min(2 * pause, 1.0)

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        """What the group has committed: where reading begins."""
        deadline = self._loop.time() + self.options.request_timeout
        return await self.commits.committed(partitions, deadline)

    # --- the end

    async def close(self, deadline: float) -> None:
        """Commit what was given, tell the listener, leave; all by `deadline`."""
        self._close_by = deadline
        self._listeners.end_by(deadline)
        if self._started:
            await self.driver.close(deadline)
        await self.commits.at_close(deadline)

    def abort(self) -> None:
        """End everything at once."""
        self._ended = True
        self._changed.set()
        if self._look is not None:
            self._look.cancel()
        self.commits.close()
        self.driver.abort()
        self._tasks.cancel()

    async def end(self, deadline: float) -> None:
        """Wait for what `abort` has ended."""
        await self._tasks.close(deadline)

    # --- what the membership asks for

    async def on_revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions from the application, which may still commit."""
        self._unwanted.on_transit(partitions)
        if self._parting is None:
            self._assignment.withhold(partitions)
            if self.work is not None:
                await self._listeners.tell(self.work.before_going, partitions)
            await self.commits.before_revoke(partitions, self._commit_deadline())
        if self._parting is not None:  # since before, or since that commit
            await self._part(self._parting, partitions)
            return
        listener = self._subscription.listener
        if listener is not None:
            await self._listeners.tell(listener.on_partitions_revoked, partitions)
        self._take_away(partitions)

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions away that others may have already."""
        self.leases.on_given_up(partitions)
        self._unwanted.on_transit(partitions)
        parting = self._parting
        if parting is not None:
            parting.lease.given_up.update(partitions)
        listener = self._subscription.listener if parting is None else parting.listener
        if parting is None:  # or what is assigned now is of the application's own choice
            self._assignment.withhold(partitions)
        if listener is not None:
            await self._listeners.tell(listener.on_partitions_lost, partitions)
        if parting is None:
            self._take_away(partitions)
        elif self.driver.membership.assignment.issubset(partitions):
            self._parting = None

    async def on_assign(
        self, added: Collection[TopicPartition], all: Collection[TopicPartition]
    ) -> None:
        """Give partitions to the application."""
        if self._parting is not None:
            return  # it does not want them any more: they are about to be revoked
        self.failure = None  # it is over, if nobody read meanwhile
        listener = self._subscription.listener
        heard, self._heard = self._heard, listener
        self._assignment.replace(all, withhold=() if listener is None else added)
        self._subscription.on_assigned(all)
        self._track_topics()
        if listener is not None:
            # Who listens since a moment ago knows nothing of what stays, either.
            news = added if listener is heard else all
            self._unwanted.on_transit(news)
            self._assignment.withhold(news)
            self.leases.renew()  # from here on the application knows of the rebalance
            await self._listeners.tell(listener.on_partitions_assigned, news)
            self._assignment.release(news)
        self._unwanted.hold()
        self._assigned = self._parting is None
        self._changed.set()

    def on_fail(self, error: KafkaError) -> None:
        """The membership has failed: let the application know."""
        self.failure = error
        self._changed.set()
        self._on_failure()

    def on_change(self) -> None:
        """The membership moved on: topics that it watches may be others."""
        self.commits.on_change()
        if self._parting is not None and not self.driver.membership.assignment:
            self._parting = None
        self._track_topics()

    async def _part(self, parting: _Parting, partitions: Collection[TopicPartition]) -> None:
        """Give back what the application has unsubscribed from."""
        offsets = {tp: at for tp, at in parting.done.items() if tp in partitions}
        await self.commits.commit_last(offsets, self._commit_deadline())
        if parting.listener is not None:
            parting.telling = True
            await self._listeners.tell(parting.listener.on_partitions_revoked, partitions)
        parting.lease.given_up.update(partitions)
        if self.driver.membership.assignment.issubset(partitions):
            self._parting = None

    def _take_away(self, partitions: Collection[TopicPartition]) -> None:
        if partitions and self._subscription.shared:
            self._assignment.replace(self._assignment.partitions.difference(partitions))

    def _commit_deadline(self) -> float:
        """Until when the commit before a change may take."""
        now = self._loop.time()
        patience = min(self.options.request_timeout, self.options.effective_rebalance_timeout)
        if self._close_by is not None:
            patience = min(patience, SHARE * max(0.0, self._close_by - now))
        return now + patience
