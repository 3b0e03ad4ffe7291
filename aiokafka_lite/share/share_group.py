"""The share consumer as a member of its group: passes the assignment on to the fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.membership import MembershipOptions
from aiokafka_lite.group.membership_driver import GroupDriver
from aiokafka_lite.group.share.share_machine import ShareMembership
from aiokafka_lite.reading.first_assignment import FirstAssignment
from aiokafka_lite.structs import TopicPartition

__all__ = ["ShareGroup"]


class ShareGroup:
    """One share consumer's membership; a `GroupOwner`.

    Args:
        cluster: Finds the coordinator.
        options: The membership's options.
        on_assignment: Called with all partitions that the member has from now on.
        on_failure: Called with an error that the next read must raise.
        on_topics: Called when the set of topics that need metadata may have changed.
        on_error: Called when a task crashes because of a bug.
        loop: The event loop of the consumer.

    Attributes:
        driver: Drives the membership.
        last_failure: The last error of the membership, also once it was raised; None after an
            assignment.
        joined: True from an assignment on, until the membership is lost or the subscription ends.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: MembershipOptions,
        *,
        on_assignment: Callable[[frozenset[TopicPartition]], None],
        on_failure: Callable[[KafkaError], None],
        on_topics: Callable[[], None],
        on_error: Callable[[str, BaseException], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._on_assignment = on_assignment
        self._on_failure = on_failure
        self._on_topics = on_topics
        self._loop = loop
        self._tasks = TaskOwner(f"share group {options.group_id}", on_error, loop)
        self.driver = GroupDriver(
            cluster,
            ShareMembership(options),
            self,
            options=options,
            tasks=self._tasks,
            loop=loop,
        )
        self.last_failure: KafkaError | None = None
        self.joined = False
        self._waiting = False  # a read waits for records
        self._read_at: float | None = None  # loop time of the last read, or of its end
        self._started = False
        self._assignment: frozenset[TopicPartition] = frozenset()
        self._subscribed = False
        self._failure: KafkaError | None = None
        self._first = FirstAssignment(
            cluster,
            options,
            subscribed=lambda: self._subscribed,
            assigned=lambda: bool(self._assignment),
            gradual=True,
            raise_failure=self._raise_failure,
            heartbeat=self._heartbeat,
            loop=loop,
        )

    @property
    def member_id(self) -> str:
        """The id of the member, which it keeps for life."""
        return self.driver.membership.member_id

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose metadata the membership needs."""
        return self.driver.watched_topics if self._started else frozenset()

    # calls of the consumer

    def subscribe(self, topics: Collection[str]) -> None:
        """Join with these topics, or change the subscription."""
        self._subscribed = True
        self._failure = None
        self.driver.subscribe(topics)
        if not self._started:
            self._started = True
            self.driver.start()

    def unsubscribe(self) -> None:
        """Leave the group in the background."""
        self.joined = self._subscribed = False
        self._first.on_unsubscribed()
        if self._started:
            self.driver.membership.leave("the application unsubscribed", self._loop.time())
            self.driver.wake()

    def poll(self, waiting: bool) -> None:
        """The application reads.

        Args:
            waiting: True if a read waits for records, until the next call.
        """
        self._waiting = waiting
        self._read_at = self._loop.time()
        if self._started:
            self.driver.poll(waiting)

    def read_ago(self, now: float) -> float | None:
        """Return the seconds since the last read; 0.0 while one waits, None before the first."""
        if self._waiting:
            return 0.0
        return None if self._read_at is None else max(now - self._read_at, 0.0)

    def retry(self) -> None:
        """The error was raised: try again."""
        if self._started:
            self._failure = None
            self.driver.retry()

    async def wait_assigned(self) -> None:
        """Wait for the first assignment; for partitions of it, only for a limited time.

        Returns at once if the application unsubscribes meanwhile. The application counts as
        waiting until `on_started`: it cannot read before.

        Raises:
            KafkaTimeoutError: No coordinator was found within the request timeout.
            KafkaError: The membership has failed.
            ConsumerStoppedError: The consumer was stopped meanwhile.
        """
        self.driver.poll(waiting=True)
        await self._first.wait()

    def on_started(self) -> None:
        """The application can read from now on, and must do so in time."""
        self.driver.poll(self._waiting)

    def _heartbeat(self) -> None:
        self.driver.rejoin("start() waits for partitions")  # only sends a heartbeat

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # the end

    async def close(self, deadline: float) -> None:
        """Leave the group by the deadline (loop time)."""
        if self._started:
            await self.driver.close(deadline)

    def abort(self) -> None:
        """Close at once, without awaiting."""
        self._first.end()
        self.driver.abort()
        self._tasks.cancel()

    async def end(self, deadline: float) -> None:
        """Wait for the tasks that `abort` cancelled."""
        await self._tasks.close(deadline)

    # callbacks of the membership

    async def on_revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Stop fetching from these partitions; their records may still be acknowledged."""
        self._set(self._assignment - partitions)

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """As `on_revoked`: share sessions outlive a membership."""
        self.joined = False
        self._set(self._assignment - partitions)

    async def on_assign(
        self, added: frozenset[TopicPartition], all: frozenset[TopicPartition]
    ) -> None:
        """Fetch from these partitions."""
        self.joined = True
        self._failure = self.last_failure = None
        self._set(frozenset(all))
        self._first.on_assigned(self._subscribed)

    def on_fail(self, error: KafkaError) -> None:
        """The membership has failed."""
        self._failure = self.last_failure = error
        self._first.on_failed()
        self._on_failure(error)

    def on_change(self) -> None:
        """The membership changed: it may watch other topics."""
        self._on_topics()

    def _set(self, assignment: frozenset[TopicPartition]) -> None:
        self._assignment = assignment
        self._on_assignment(assignment)
