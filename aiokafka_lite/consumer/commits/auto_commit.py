"""Decides which offsets a consumer commits, and when: on request, periodically, and on `stop`.

The periodic commit covers only processed records. As in Java, where poll checks the timer, a record
counts as processed when the application requests the next one: records delivered before a read that
begins or waits may be committed, a record still being processed may not. So if the timer expires
while no read waits, the commit is `due`, and the next read begins it. When partitions are revoked
or the consumer stops, there is no next read: then all delivered records count, except a batch in
progress in a block of `batches`, which the next owner reads again.

Non-obvious:

- The commit before a revocation replaces a periodic commit in progress, whose offsets it contains.
- The periodic commit repeats an unchanged offset only once per `AGAIN_AFTER`: brokers before 2.1
  expire offsets by the time of their commit (KIP-211).
- The timer starts with the first read: without reads, nothing is timed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
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
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitOptions", "Commits"]

log = logging.getLogger(__name__)

AGAIN_AFTER: Final = 600.0
"""Seconds after which a periodic commit includes unchanged offsets. The retention of old brokers is
far longer (a day by default)."""

LOOK_AGAIN: Final = 0.01
"""Minimum seconds between two looks for something to commit while a read waits. With an interval of
0, the event loop would do nothing else."""


class CommitOptions(Protocol):
    """The consumer's options that commits need; durations in seconds."""

    @property
    def enable_auto_commit(self) -> bool:
        """True if delivered records are committed automatically."""

    @property
    def auto_commit_interval(self) -> float:
        """Time between two periodic commits."""

    @property
    def request_timeout(self) -> float:
        """How long a periodic commit is retried."""


class Commits:
    """The commits of one consumer.

    Args:
        store: The group's offsets.
        positions: The assigned partitions.
        options: The consumer's options.
        tasks: Owner of the tasks of periodic commits.
        loop: The event loop.
        driver: The driver of the member that commits, or None with manual assignment only.
        shared: Returns True if the group assigns the partitions now; by default, True if there is
            a driver. With manual assignment, commits carry no member identity.
        delivery: The source of the fast path of reads. It is emptied when a commit is due, so that
            the next read calls `on_read`.
        on_committed: Called with the offsets of every successful commit. It must not raise.

    Attributes:
        due: True if the next read begins a commit.
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
        delivery: Delivery | None = None,
        on_committed: Callable[[Offsets], None] | None = None,
    ) -> None:
        self.due = False
        self._delivery = delivery
        self._store = store
        self._positions = positions
        self._options = options
        self._tasks = tasks
        self._loop = loop
        self._committer = Committer(
            store, positions, loop, driver, shared or (lambda: driver is not None), on_committed
        )
        self._closed = False
        self._waiting = False  # a read waits at this moment
        self._timer: asyncio.TimerHandle | None = None
        self._by_clock: asyncio.Task[None] | None = None
        self._let_go: set[asyncio.Task[None]] = set()
        self._everything_at = 0.0  # loop time of the next periodic commit of unchanged offsets

    @property
    def counters(self) -> CommitCounters:
        """The counters of all commits."""
        return self._committer.counters

    def run_in(self, around: Callable[[Offsets], AbstractContextManager[object]]) -> None:
        """Run each later commit in the context manager that `around` returns for its offsets."""
        self._committer.around = around

    @property
    def member(self) -> bool:
        """True if the consumer is a member of the group now."""
        return self._committer.is_member

    # --- on request

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        """Commit offsets.

        Args:
            offsets: None for those of the delivered records of all assigned partitions.
            deadline: Loop time after which the commit is not retried.

        Raises:
            CommitFailedError: The consumer is not a member of the group, or a rebalance is in
                progress, as its cause says. Another member may own the partitions.
            FencedInstanceIdError: Another process uses the same `group_instance_id`.
            KafkaTimeoutError: The commit was not completed by the deadline.
            KafkaError: The coordinator returned another error; see `CommitCall.attempt`.

        Cancellation: stops the wait; the commit may still take place.
        """
        if offsets is None:
            offsets = self.given()
        for tp, committed in offsets.items():
            state = self._positions.get(tp)
            if state is not None and state.at_work is not None:
                # Now, because an auto-commit prepared before this one completes is sent after it.
                epoch = committed.leader_epoch
                state.on_work_committed(committed.offset, UNKNOWN_EPOCH if epoch is None else epoch)
        await self._committer.commit(offsets, deadline)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, Committed]:
        """Return the group's committed offsets; partitions without one are missing.

        With KIP-848 the request carries the member's identity, so that it never returns an offset
        that the previous owner of a partition is about to overwrite. For the same reason this waits
        for pending commits of partitions that the application just gave up: it may have assigned
        them again.

        Raises:
            KafkaError: As for `FetchCall.attempt`.

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
        """Return the application's positions: after the last delivered record of each partition.

        Args:
            partitions: Only these; None for all.
            settled: Include partitions whose offset is already committed.
            at_work: Include batches in progress in a block of `batches`.
        """
        states: Iterable[PartitionState | None] = self._positions
        if partitions is not None:
            states = map(self._positions.get, partitions)
        is_settled = self._committer.is_settled
        given: dict[TopicPartition, OffsetAndMetadata] = {}
        for state in states:
            if state is None or state.remade or state.rival_id is not None:
                continue  # the delivered records may belong to a deleted topic
            work = None if at_work else state.at_work
            position, epoch = state.standing() if work is None else (work.offset, work.epoch)
            if position is not None and (settled or not is_settled(state, position)):
                known = None if epoch == UNKNOWN_EPOCH else epoch
                given[state.tp] = OffsetAndMetadata(position, "", known)
        return given

    # --- periodic commits

    def on_read(self, waiting: bool = False) -> None:
        """A read has started and taken no record yet: the records delivered before are processed.

        Args:
            waiting: True if the read waits for records, until the next call.
        """
        self._waiting = waiting
        if self.due:
            self._begin()
        elif self._timer is None and self._by_clock is None:
            self._arm(self._loop.time() + self._options.auto_commit_interval)

    def on_change(self) -> None:
        """The membership changed: wake the commits that wait for its next epoch."""
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
        if self._delivery is not None:
            self._delivery.current = EMPTY

    def _begin(self) -> None:
        """Commit the processed records in the background."""
        self.due = False
        next_at = self._loop.time() + self._options.auto_commit_interval
        # Unchanged offsets are committed again every `AGAIN_AFTER` seconds.
        offsets = self.given(settled=self._loop.time() >= self._everything_at, at_work=False)
        if not offsets or self._closed or self._tasks.closed or not self._committer.may_commit:
            self._arm(max(next_at, self._loop.time() + LOOK_AGAIN))
            return
        turn = self._committer.take_turn(offsets)
        commit = self._commit_by_clock(offsets, next_at, turn)
        self._by_clock = self._tasks.spawn(commit, "auto-commit")
        # The task may be cancelled before its first step.
        self._by_clock.add_done_callback(lambda _: turn.end())

    async def _commit_by_clock(self, offsets: Offsets, next_at: float, turn: Turn) -> None:
        now = self._loop.time()
        try:
            # A deleted topic must not delay the commits of all others.
            await self._committer.commit(
                offsets,
                now + self._options.request_timeout,
                missing_topics_may_come=False,
                turn=turn,
            )
        except KafkaError as error:
            self._log_failed("auto-commit", offsets, error)
        else:
            if now >= self._everything_at:
                self._everything_at = now + AGAIN_AFTER
        finally:
            self._by_clock = None
            self._arm(max(next_at, self._loop.time()))

    # --- last commits

    async def before_revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Auto-commit partitions that are about to be revoked. Never raises a KafkaError, because
        they are revoked in any case.

        Args:
            partitions: Still assigned, but withheld.
            deadline: Loop time after which they are revoked uncommitted.
        """
        if self._options.enable_auto_commit and partitions:
            await self._overtake()
            offsets = self.given(partitions, settled=False, at_work=False)
            await self.commit_last(offsets, deadline)

    async def at_close(self, deadline: float) -> None:
        """Stop the timer, and auto-commit all assigned partitions before the consumer closes. Never
        raises a KafkaError.

        Args:
            deadline: Loop time after which the consumer closes without the commit.
        """
        self.close()
        await self._overtake()
        await self.commit_last(self.given(settled=False, at_work=False), deadline)
        if self._let_go:
            await asyncio.wait(self._let_go, timeout=max(0.0, deadline - self._loop.time()))

    def let_go(self, partitions: Collection[TopicPartition]) -> None:
        """Auto-commit manually assigned partitions that the application gives up, in the
        background. Call it while they are still assigned."""
        offsets = self.given(partitions, settled=False, at_work=False)
        if self._options.enable_auto_commit and offsets and not self._tasks.closed:
            deadline = self._loop.time() + self._options.request_timeout
            turn = self._committer.take_turn(offsets, given_up=True)
            commit = self.commit_last(offsets, deadline, turn)
            task = self._tasks.spawn(commit, "commit what was let go")
            self._let_go.add(task)
            task.add_done_callback(self._let_go.discard)
            task.add_done_callback(lambda _: turn.end())

    async def commit_last(
        self, offsets: Offsets, deadline: float, turn: Turn | None = None
    ) -> None:
        """Auto-commit offsets of partitions that are being, or were, removed. Never raises a
        KafkaError.

        Args:
            deadline: Loop time after which the commit is not retried.
            turn: The turn taken when the offsets were read, if that was earlier.
        """
        try:
            if self._options.enable_auto_commit:
                # Do not wait for a deleted topic, which can never be committed (as in Java).
                await self._committer.commit(
                    offsets, deadline, missing_topics_may_come=False, turn=turn
                )
        except KafkaError as error:
            self._log_failed("the last auto-commit", offsets, error)

    def close(self) -> None:
        """Stop the timer. Idempotent."""
        self._closed = True
        self.due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _log_failed(self, what: str, offsets: Offsets, error: KafkaError) -> None:
        client_id, group_id = self._store.client_id, self._store.group_id
        text = "%s: %s of %s in group %s failed: %s"
        extra = {"kafka_client_id": client_id, "kafka_group": group_id}
        log.warning(text, client_id, what, named(offsets), group_id, error, extra=extra)

    async def _overtake(self) -> None:
        """Cancel the periodic commit: the commit that follows is newer."""
        # If the interval has passed, the clock begins another one at the end of the first.
        while (task := self._by_clock) is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
            if self._by_clock is task:
                self._by_clock = None  # the task was cancelled before its first step
