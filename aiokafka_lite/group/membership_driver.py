"""Drives a group member: one task carries out what its machine decides.

It treats the machines of both protocols alike (see `membership`). The task takes steps and waits;
each step that takes time runs in a child task, which reports its outcome to the machine and wakes
the driver task. So heartbeats continue while a listener runs, and a LeaveGroup overtakes a join.

Non-obvious:
- Only the task takes steps. The application's calls reach the machine synchronously and wake the
  task.
- Every `Send` and every listener reports exactly one outcome to the machine. When the driver ends
  it cancels its children, and they report nothing more.
- The machine ensures that the owner receives no event twice and runs one listener at a time. The
  task calls `on_change` after it began the steps of a change.
- A listener that stops the consumer does not wait here: its partitions cannot be revoked before it
  returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from functools import partial
from math import inf
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.assignment_data import subscribed_topics
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.coordinator_link import CoordinatorLink
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    Elect,
    Fail,
    FindCoordinator,
    Lost,
    Membership,
    MembershipOptions,
    Revoke,
    Send,
    Step,
)
from aiokafka_lite.group.membership_log import GroupLife
from aiokafka_lite.group.topic_metadata import Briefing
from aiokafka_lite.structs import TopicPartition

__all__ = ["GroupDriver", "GroupOwner"]

log: Final = logging.getLogger(__name__)


class GroupOwner(Protocol):
    """The owner of a membership: a consumer.

    An exception from these methods is a bug in the owner, which handles exceptions of listeners.
    """

    async def on_revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Revoke partitions, whose offsets may still be committed; possibly none (eager)."""

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Partitions are lost: other members may own them already."""

    async def on_assign(
        self, added: frozenset[TopicPartition], all: frozenset[TopicPartition]
    ) -> None:
        """Take over partitions.

        Args:
            added: The new partitions, possibly none.
            all: All partitions that the member has now.
        """

    def on_fail(self, error: KafkaError) -> None:
        """Report a lasting error to the application's pending calls. It does not end the driver:
        the member continues after `GroupDriver.retry`, or by itself."""

    def on_change(self) -> None:
        """The state, generation, assignment or watched topics of the membership changed."""


class GroupDriver:
    """Drives one membership.

    Attributes:
        membership: The machine. Read it freely; only the driver calls its inputs.

    Args:
        cluster: Must be started before `start`.
        membership: The machine, of either protocol.
        owner: Receives the changes of the partitions.
        options: Options of the membership.
        assignors: Assignors of the classic membership, used if it leads.
        tasks: Owner of this task and its children. It reports tasks that failed through a bug, and
            ends those that `close` could not end in time.
        loop: The event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        owner: GroupOwner,
        *,
        options: MembershipOptions,
        assignors: Sequence[LeadingAssignor] = (),
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.membership = membership
        self._cluster = cluster
        self._owner = owner
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._tasks = tasks
        self._loop = loop
        self._link = CoordinatorLink(cluster, options.group_id, self._spawn, loop)
        self._briefing = Briefing(cluster, membership, options)
        self._life = GroupLife(options, membership)
        self._task: asyncio.Task[None] | None = None
        self._children: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()  # set: the task looks for steps again
        self._wakes_at = -inf  # loop time when it does so without being woken, at the latest
        self._moved = asyncio.Event()  # set, and replaced, whenever the task has taken steps
        self._seen: tuple[object, ...] = ()  # of the membership, at the last `on_change`
        self._waiting = False  # the application waits in a poll
        self._resolving = False
        self._ended = False
        self._asking: dict[str, float] = {}  # requests in flight: loop time of their deadline
        self._stuck_since: float | None = None  # loop time when `stuck` first saw it

    # --- life

    def start(self) -> None:
        """Start the task; the membership may have received inputs before."""
        self._task = self._tasks.spawn(self._run(), f"member of group {self._options.group_id}")

    async def leave(self, reason: str, deadline: float) -> bool:
        """Revoke all partitions and leave the group; `subscribe` joins again.

        Args:
            reason: For the coordinator's log.
            deadline: In loop time; after it, leaving continues in the background.

        Returns:
            True if the member left in time.

        Cancellation: stops the wait; the member still leaves.
        """
        self.membership.leave(reason, self._now)
        self.wake()
        return await self._until(lambda: not self.membership.leaving, deadline)

    async def close(self, deadline: float, stay: bool | None = None) -> None:
        """Revoke all partitions, leave the group, and end. Idempotent.

        Args:
            deadline: In loop time; the driver ends by this time, even if listeners or brokers hang.
            stay: Remain a member until the session times out (KIP-1092); None: static members do.

        Cancellation: ends it at once.
        """
        if self._task is not None and not self._ended:
            self.membership.close(self._now, stay)
            self.wake()
            try:
                await self._until(lambda: self.membership.closed, deadline)
            finally:
                self.abort()
        self.abort()
        ending = self._others()
        if ending:
            await asyncio.wait(ending, timeout=max(0.0, deadline - self._now))

    def abort(self) -> None:
        """End at once, without awaiting, revoking or leaving the group. Idempotent."""
        if self._ended:
            return
        self._ended = True
        self._link.close()
        for task in self._others():
            task.cancel()
        self._announce()

    def _others(self) -> set[asyncio.Task[None]]:
        """Its tasks except the current one, which may be the listener that ends the driver."""
        tasks = self._children if self._task is None else {self._task, *self._children}
        return tasks - {asyncio.current_task()}

    @property
    def inside(self) -> bool:
        """True if the caller is a child task, such as a listener: it must end before the driver."""
        return bool(self._children) and asyncio.current_task() in self._children

    @property
    def ended(self) -> bool:
        """True once it has ended and cancelled its tasks."""
        return self._ended

    @property
    def group_id(self) -> str:
        """The group's name."""
        return self._options.group_id

    @property
    def coordinator_known(self) -> bool:
        """True if the coordinator was found, and no connection to it broke since."""
        coordinators = self._cluster.coordinators
        known = coordinators.get(CoordinatorKind.GROUP, self.group_id) is not None
        return known and not self._link.lost

    def stuck(self, now: float) -> bool:
        """True if this task is stuck: a step of it, or the outcome of a request, has been overdue
        for two session timeouts.

        No broker can cause this, because every request has a deadline. A blocked event loop delays
        both the steps and this call. So only the second call that finds a step overdue, at least a
        second after the first, returns True.
        """
        due = min(self._wakes_at, *self._asking.values(), inf)
        running = self._task is not None and not self._ended
        if not running or now - due <= 2 * self._options.session_timeout:
            self._stuck_since = None
            return False
        if self._stuck_since is None:
            self._stuck_since = now
        return now - self._stuck_since >= 1.0

    # --- calls of the application

    def wake(self) -> None:
        """The membership received an input: take its next steps."""
        self._wake.set()

    def subscribe(
        self,
        topics: Collection[str],
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """Join with a subscription; see `Membership.on_subscription`.

        Raises:
            KafkaConfigurationError: The classic protocol does not support broker-side patterns.
            IllegalStateError: The driver is closed.
        """
        self.membership.on_subscription(topics, self._now, pattern=pattern, matches=matches)
        # From here on the application is expected to poll.
        self.membership.on_poll(self._now, waiting=self._waiting)
        self._briefing.publish(self._cluster.metadata)
        self.wake()

    def poll(self, waiting: bool = False) -> None:
        """The application polls for records; cheap enough for every read that has to wait.

        Args:
            waiting: The application waits until the next call of this method. If several calls
                wait, the wait lasts as long as the last of them.
        """
        membership, now = self.membership, self._loop.time()
        self._waiting = waiting
        before = membership.state
        membership.on_poll(now, waiting=waiting)
        # Without this timer the task would sleep past the end of the interval.
        unguarded = not waiting and self._wakes_at > now + self._options.max_poll_interval
        if unguarded or membership.state is not before:
            self.wake()

    def rejoin(self, reason: str) -> None:
        """Rebalance (KIP-568).

        Args:
            reason: Sent to the coordinator (KIP-800).
        """
        self.membership.request_rejoin(reason, self._now)
        self.wake()

    def retry(self) -> None:
        """Continue after an `on_fail`, if that can help; otherwise does nothing."""
        self.membership.retry(self._now)
        self.wake()

    # --- metadata

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics whose metadata the client must keep for the member."""
        return self.membership.watched_topics

    def on_metadata(self, metadata: Metadata) -> None:
        """New metadata arrived; it may have topics that the member does not watch."""
        if self._ended:
            return
        if self._link.lost:
            # A lost connection triggers a metadata refresh, so the loss is soon noticed here.
            self.membership.on_coordinator_lost(self._now)
        self._briefing.publish(metadata)
        self.wake()

    # --- the task

    @property
    def _now(self) -> float:
        return self._loop.time()

    async def _run(self) -> None:
        try:
            while not self._ended:
                self._wake.clear()
                self._take_steps()
                if self.membership.closed:
                    return
                at = self.membership.next_wakeup(self._now)
                self._wakes_at = inf if at is None else at
                try:
                    async with asyncio.timeout_at(at):
                        await self._wake.wait()
                except TimeoutError:
                    pass  # the machine's own timer is due
        finally:
            self.abort()

    def _take_steps(self) -> None:
        membership = self.membership
        self._life.look()
        while (step := membership.next_step(self._now)) is not None:
            self._life.on_step(step)
            self._begin(step)
        self._life.look()
        if membership.rejoin_needed and membership.unresolved_topic_ids and not self._resolving:
            self._resolving = True
            self._spawn(self._resolve(), "names of topics")
        # A cheap comparison: an unchanged assignment is the same object.
        seen = (
            membership.state,
            membership.generation,
            membership.rejoin_needed,
            membership.assignment,
        )
        if seen != self._seen:
            self._seen = seen
            self._owner.on_change()
        self._announce()

    def _begin(self, step: Step) -> None:
        membership, owner = self.membership, self._owner
        match step:
            case Send():
                self._spawn(self._ask(step), step.kind)
            case FindCoordinator():
                self._spawn(self._find(), "find the coordinator")
            case Revoke(gone):
                self._listen(partial(owner.on_revoke, gone), membership.on_revoked, "revoke")
            case Lost(gone):
                self._listen(partial(owner.on_lost, gone), membership.on_lost, "lost")
            case Assign(added, everything):
                listener = partial(owner.on_assign, added, everything)
                self._listen(listener, membership.on_assigned, "assign")
            case Elect():
                self._spawn(self._elect(step), "assign partitions to the members")
            case Fail(error):
                owner.on_fail(error)

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        child = self._tasks.spawn(work, f"group {self._options.group_id}: {name}")
        self._children.add(child)
        child.add_done_callback(self._children.discard)

    def _announce(self) -> None:
        """Wake all waiting callers; each checks its own condition."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _until(self, holds: Callable[[], bool], deadline: float) -> bool:
        if self.inside:
            return holds()  # the machine waits for this very listener
        try:
            async with asyncio.timeout_at(deadline):
                while not holds() and not self._ended:
                    await self._moved.wait()
        except TimeoutError:
            client_id, group_id = self._options.client_id, self._options.group_id
            text = "%s: leaving group %s timed out"
            log.warning(text, client_id, group_id, extra=self._options.log_fields)
        return holds()

    # --- its children

    async def _ask(self, step: Send) -> None:
        self._asking[step.kind] = self._now + step.timeout
        try:
            response = await self._link.ask(step)
        except KafkaError as error:
            self.membership.on_error(step.kind, error, self._now)
        except Exception as error:
            self.membership.on_error(step.kind, _bug_error(f"{step.kind} failed", error), self._now)
            raise  # a bug: the owner of the tasks reports it
        else:
            self.membership.on_response(step.kind, response, self._now)
        finally:
            del self._asking[step.kind]
            self.wake()

    async def _find(self) -> None:
        try:
            await self._link.find(self._now + self._options.request_timeout)
        except KafkaError as error:
            self.membership.on_error(FIND_COORDINATOR, error, self._now)
        except Exception as error:
            failure = _bug_error("the coordinator lookup failed", error)
            self.membership.on_error(FIND_COORDINATOR, failure, self._now)
            raise
        else:
            self._life.on_coordinator(
                self._cluster.coordinators.get(CoordinatorKind.GROUP, self._options.group_id)
            )
            self.membership.on_coordinator(self._now)
        finally:
            self.wake()

    def _listen(
        self, listener: Callable[[], Awaitable[None]], through: Callable[[float], None], name: str
    ) -> None:
        async def listen() -> None:
            try:
                await listener()
            finally:
                # Whatever the outcome, the member continues: the other members wait for it.
                if not self._ended:
                    through(self._now)
                    self.wake()

        self._spawn(listen(), name)

    async def _elect(self, step: Elect) -> None:
        """Lead: assign the partitions of all topics that the members subscribe to."""
        try:
            topics = subscribed_topics(member.subscription for member in step.members)
            metadata = await self._briefing.load(topics)
            # No await from here on: the assigned and the watched layouts must be the same.
            layouts = self._briefing.publish(metadata, also=topics)
            shares: Mapping[str, bytes] = {}
            if not step.skip:
                shares = self._assignors[step.protocol].assign(step.members, layouts)
        except KafkaError as error:
            self.membership.on_election_failed(error, self._now)
        except Exception as error:
            client_id, group_id = self._options.client_id, self._options.group_id
            text = "%s: the assignor %s of group %s failed"
            extra = self._options.log_fields
            log.exception(text, client_id, step.protocol, group_id, extra=extra)
            failure = _bug_error(f"the assignor {step.protocol!r} failed", error)
            self.membership.on_election_failed(failure, self._now)
        else:
            self.membership.on_elected(shares, self._now, topics)
        finally:
            self.wake()

    async def _resolve(self) -> None:
        try:
            await self._briefing.resolve(self._on_names)
        finally:
            self._resolving = False

    def _on_names(self) -> None:
        self._seen = ()  # the owner does not have all topics to watch yet
        self.wake()


def _bug_error(what: str, error: Exception) -> KafkaError:
    failure = KafkaError(f"{what}: {error!r}")
    failure.__cause__ = error
    return failure
