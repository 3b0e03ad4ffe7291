"""What a consumer commits, and when: at the application's word, by the clock, and at the end.

The clock commits only what is done with. As in Java, where the clock is looked at by poll, a
record is done with when the application asks for the next one: what was handed out before a read
that begins, or that is waiting, may be committed, and a record that is still being worked on may
not. So when the time has come and nobody waits, the commit is `due`, and the next read begins it.
When partitions are given back or the consumer ends, there is no later: then everything counts that
was handed out, but for what a block of `batches` is at work on: whoever is next reads that again.

Non-obvious:

- What ends a partition's time here overtakes the clock's commit, which it contains.
- What has not moved since it was committed is not committed again by the clock, but once in
  `AGAIN_AFTER`: brokers before 2.1 forget offsets by the time of their commit (KIP-211).
- Nothing here is timed for who does not read: the clock starts with the first read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.consumer.commits.committer import (
    CommitCounters,
    Committer,
    Member,
    Offsets,
    Turn,
    named,
)
from aiokafka_lite.consumer.partitions.delivery import EMPTY, Delivery
from aiokafka_lite.consumer.partitions.positions import UNKNOWN_EPOCH, PartitionState, Positions
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitOptions", "Commits"]

log = logging.getLogger(__name__)

AGAIN_AFTER: Final = 600.0
"""Seconds after which the clock commits everything, moved or not. Old brokers' shortest sensible
retention is far longer (a day by default)."""


class CommitOptions(Protocol):
    """As much of the consumer's options as committing needs; durations in seconds."""

    @property
    def enable_auto_commit(self) -> bool:
        """Whether what was given is committed without being asked."""

    @property
    def auto_commit_interval(self) -> float:
        """Between two commits by the clock."""

    @property
    def request_timeout(self) -> float:
        """How long a commit by the clock is tried."""


class Commits:
    """The commits of one consumer.

    Args:
        store: The group's offsets.
        positions: The assigned partitions.
        options: The consumer's.
        tasks: Owner of the commits by the clock.
        loop: The event loop.
        driver: Whose member commits, or None: partitions are assigned by hand only.
        shared: Whether the partitions come from the group now; by default whenever there is a
            driver. Where the application assigns them, nobody of the group commits.

    Attributes:
        due: Whether the next read begins a commit.
        delivery: What the fast path of reads takes from: emptied when a commit is due, so that
            the next read passes by `on_read`. Set by the owner.
    """

    def __init__(
        self,
        store: OffsetStore,
        positions: Positions,
        options: CommitOptions,
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
        *,
        driver: Member | None = None,
        shared: Callable[[], bool] | None = None,
    ) -> None:
        self.due = False
        self.delivery: Delivery | None = None
        self._positions = positions
        self._options = options
        self._tasks = tasks
        self._loop = loop
        self._committer = Committer(
            store, positions, loop, driver, shared or (lambda: driver is not None)
        )
        self._closed = False
        self._waiting = False  # a read, at this moment
        self._timer: asyncio.TimerHandle | None = None
        self._by_clock: asyncio.Task[None] | None = None
        self._let_go: set[asyncio.Task[None]] = set()
        self._everything_at = 0.0  # loop time from which the clock commits all again

    @property
    def counters(self) -> CommitCounters:
        """What was committed so far."""
        return self._committer.counters

    @property
    def on_committed(self) -> Callable[[Offsets], None] | None:
        """Told what was committed, by whatever way. What it raises is a mistake."""
        return self._committer.on_committed

    @on_committed.setter
    def on_committed(self, told: Callable[[Offsets], None] | None) -> None:
        self._committer.on_committed = told

    @property
    def member(self) -> bool:
        """Whether this is a member of the group now."""
        return self._committer.is_member

    # --- at the application's word

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        """Commit.

        Args:
            offsets: None: of all assigned partitions, what was handed out.
            deadline: Loop time after which no more is tried.

        Raises:
            CommitFailedError: This is no member of the group (any more), or a rebalance is under
                way; its cause tells which. The partitions may be someone else's.
            FencedInstanceIdError: Another process has this one's `group_instance_id`.
            KafkaTimeoutError: It was not done by the deadline.
            KafkaError: What else the coordinator answered; see `OffsetStore.commit`.

        Cancellation: stops the wait; it may be committed all the same.
        """
        if offsets is None:
            offsets = self.given()
        for tp, committed in offsets.items():
            state = self._positions.get(tp)
            work = None if state is None else state.at_work
            if work is not None and committed.offset > work.offset:
                # At once: an auto-commit that is made up before this one is through comes later.
                work.offset = committed.offset
                epoch = committed.leader_epoch
                work.epoch = UNKNOWN_EPOCH if epoch is None else epoch
        await self._committer.commit(offsets, deadline)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, Committed]:
        """What the group has committed; partitions that it has not committed for are missing.

        A member of KIP-848's kind asks as one, so that it never reads what the last owner of a
        partition has yet to overwrite. For the same reason this waits for the commits of
        partitions that the application gave up a moment ago: it may have been assigned them again.

        Raises:
            KafkaError: As of `OffsetStore.fetch`.

        Cancellation: safe.
        """
        if self._let_go:
            await asyncio.wait(self._let_go, timeout=max(0.0, deadline - self._loop.time()))
        return await self._committer.committed(partitions, deadline)

    def given(
        self,
        partitions: Collection[TopicPartition] | None = None,
        *,
        settled: bool = True,
        at_work: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the application has come: after the last record handed out, in each partition.

        Args:
            partitions: Only of these; None: of all.
            settled: Also of those that are committed at that offset already.
            at_work: Also what a block of `batches` is still at work on.
        """
        states: Iterable[PartitionState | None] = self._positions
        if partitions is not None:
            states = map(self._positions.get, partitions)
        is_settled = self._committer.is_settled
        given: dict[TopicPartition, OffsetAndMetadata] = {}
        for state in states:
            if state is None or state.remade or state.rival_id is not None:
                continue  # what is handed out is, perhaps, of a topic that is gone
            work = None if at_work else state.at_work
            position, epoch = state.standing() if work is None else (work.offset, work.epoch)
            if position is not None and (settled or not is_settled(state, position)):
                known = None if epoch == UNKNOWN_EPOCH else epoch
                given[state.tp] = OffsetAndMetadata(position, "", known)
        return given

    # --- by the clock

    def on_read(self, waiting: bool = False) -> None:
        """A read is under way that has taken nothing yet: what was handed out before is done with.

        Args:
            waiting: It waits for records, until the next call of this.
        """
        self._waiting = waiting
        if self.due:
            self._begin()
        elif self._timer is None and self._by_clock is None:
            self._arm(self._loop.time() + self._options.auto_commit_interval)

    def on_change(self) -> None:
        """The membership moved: who waits for its next epoch may look."""
        self._committer.on_change()

    def _arm(self, at: float) -> None:
        if self._options.enable_auto_commit and not self._closed:
            self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._closed or self._tasks.closed:
            return
        if self._waiting:
            self._begin()
            return
        self.due = True
        if self.delivery is not None:
            self.delivery.current = EMPTY

    def _begin(self) -> None:
        """Commit what was given so far, in the background."""
        self.due = False
        next_at = self._loop.time() + self._options.auto_commit_interval
        # What has not moved is committed again now and then.
        offsets = self.given(settled=self._loop.time() >= self._everything_at, at_work=False)
        if not offsets or self._closed or self._tasks.closed or not self._committer.may_commit:
            self._arm(next_at)
            return
        turn = self._committer.take_turn()
        commit = self._commit_by_clock(offsets, next_at, turn)
        self._by_clock = self._tasks.spawn(commit, "auto-commit")
        # It may be cancelled before its first step.
        self._by_clock.add_done_callback(lambda _: turn.end())

    async def _commit_by_clock(self, offsets: Offsets, next_at: float, turn: Turn) -> None:
        now = self._loop.time()
        try:
            # One topic that was deleted must not hold up the commits of all others.
            await self._committer.commit(
                offsets,
                now + self._options.request_timeout,
                missing_topics_may_come=False,
                turn=turn,
            )
        except KafkaError as error:
            log.warning("Auto-commit of %s failed: %s", named(offsets), error)
        else:
            if now >= self._everything_at:
                self._everything_at = now + AGAIN_AFTER
        finally:
            self._by_clock = None
            self._arm(max(next_at, self._loop.time()))

    # --- at the end

    async def before_revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Auto-commit what was given of partitions that the group takes. Never raises a KafkaError:
        whatever the outcome, they have to go.

        Args:
            partitions: Still assigned, though nothing more of them is handed out.
            deadline: Loop time after which they go uncommitted.
        """
        if self._options.enable_auto_commit and partitions:
            await self._overtake()
            offsets = self.given(partitions, settled=False, at_work=False)
            await self.commit_last(offsets, deadline)

    async def at_close(self, deadline: float) -> None:
        """The consumer ends: auto-commit everything given of what is still assigned. Never raises
        a KafkaError. The clock stops.

        Args:
            deadline: Loop time after which it ends uncommitted.
        """
        self.close()
        await self._overtake()
        await self.commit_last(self.given(settled=False, at_work=False), deadline)
        if self._let_go:
            await asyncio.wait(self._let_go, timeout=max(0.0, deadline - self._loop.time()))

    def let_go(self, partitions: Collection[TopicPartition]) -> None:
        """The application itself gives up partitions that it was assigned by hand: auto-commit what
        was given of them, in the background. Call it while they are still assigned."""
        offsets = self.given(partitions, settled=False, at_work=False)
        if self._options.enable_auto_commit and offsets and not self._tasks.closed:
            deadline = self._loop.time() + self._options.request_timeout
            turn = self._committer.take_turn()
            commit = self.commit_last(offsets, deadline, turn)
            task = self._tasks.spawn(commit, "commit what was let go")
            self._let_go.add(task)
            task.add_done_callback(self._let_go.discard)
            task.add_done_callback(lambda _: turn.end())

    async def commit_last(
        self, offsets: Offsets, deadline: float, turn: Turn | None = None
    ) -> None:
        """Auto-commit what was given of partitions that go, or are gone. Never raises a KafkaError.

        Args:
            deadline: Loop time after which no more is tried.
            turn: Taken when the offsets were read, if that was before.
        """
        try:
            if self._options.enable_auto_commit:
                # A topic that was deleted would never be committed: all goes on (as in Java).
                await self._committer.commit(
                    offsets, deadline, missing_topics_may_come=False, turn=turn
                )
        except KafkaError as error:
            log.warning("The last auto-commit of %s failed: %s", named(offsets), error)

    def close(self) -> None:
        """Stop the clock. Idempotent."""
        self._closed = True
        self.due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _overtake(self) -> None:
        """End the clock's commit: what is committed now is newer."""
        task = self._by_clock
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
            self._by_clock = None  # it may have been cancelled before its first step
