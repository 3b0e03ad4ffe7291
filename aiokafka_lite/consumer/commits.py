"""What a consumer commits, and when: at the application's word, by the clock, and at the end.

The clock commits only what is done with. As in Java, where the clock is looked at by poll, a
record is done with when the application asks for the next one: what was handed out before a read
that begins, or that is waiting, may be committed, and a record that is still being worked on may
not. So when the time has come and nobody waits, the commit is `due`, and the next read begins it.
When partitions are given back or the consumer ends, there is no later: then everything counts that
was handed out.

Non-obvious:

- Commits go one at a time, in the order of the calls: a late answer to an earlier one cannot undo
  a later one. What ends a partition's time here overtakes the clock's commit, which it contains.
- What has not moved since it was committed is not committed again by the clock, but once in
  `AGAIN_AFTER`: brokers before 2.1 forget offsets by the time of their commit (KIP-211).
- A member commits as whom it is when the request leaves. When it has become another (its epoch or
  generation rose) while it still owns the partitions, the commit is sent again; the membership is
  told of every refusal, with the identity that was refused.
- Nothing here is timed for who does not read: the clock starts with the first read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.consumer.delivery import EMPTY, Delivery
from aiokafka_lite.consumer.positions import PartitionState, Positions
from aiokafka_lite.consumer.waiters import Waiters
from aiokafka_lite.errors import (
    BrokerResponseError,
    CommitFailedError,
    FencedMemberEpochError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from aiokafka_lite.group.membership import CommitIdentity, Membership
from aiokafka_lite.group.modern import ModernMembership
from aiokafka_lite.group.offset_store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitCounters", "CommitOptions", "Commits", "Member"]

log = logging.getLogger(__name__)

AGAIN_AFTER: Final = 600.0
"""Seconds after which the clock commits everything, moved or not. Old brokers' shortest sensible
retention is far longer (a day by default)."""

_LOOK_AGAIN: Final = 0.1
"""Seconds after which who waits for the member's next epoch looks for itself."""

_OUT_OF_GROUP: Final = (
    FencedMemberEpochError,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
"""Refusals of who commits, not of what: the member is out, or has become another."""


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


class Member(Protocol):
    """As much of the group's driver as committing needs."""

    @property
    def membership(self) -> Membership:
        """The machine."""

    def wake(self) -> None:
        """Look what it wants: it was told something."""


@dataclass(slots=True)
class CommitCounters:
    """What was committed so far, for metrics.

    Attributes:
        commits: Commits that succeeded.
        failures: Commits that did not.
        time: Seconds that those that succeeded took, in all.
        slowest: The longest of them.
        last: Loop time when the last one succeeded, -1 for never.
    """

    commits: int = 0
    failures: int = 0
    time: float = 0.0
    slowest: float = 0.0
    last: float = -1.0


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
        delivery: What the fast path of reads takes from: emptied when a commit is due, so that
            the next read passes by `on_read`.
        waiters: The reads that wait now.

    Attributes:
        due: Whether the next read begins a commit.
        on_committed: Told what was committed, by whatever way. What it raises is a mistake.
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
        waiters: Waiters | None = None,
    ) -> None:
        self.due = False
        self.counters = CommitCounters()
        self.on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None] | None
        self.on_committed = None
        self._store = store
        self._positions = positions
        self._options = options
        self._tasks = tasks
        self._loop = loop
        self._driver = driver
        self._shared = shared if shared is not None else lambda: driver is not None
        self._delivery = delivery
        self._waiters = waiters
        self._closed = False
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()  # set when the membership moved
        self._timer: asyncio.TimerHandle | None = None
        self._by_clock: asyncio.Task[None] | None = None
        self._everything_at = 0.0  # loop time from which the clock commits all again
        # What each partition was committed at; the state tells whether it was lost meanwhile.
        self._settled: dict[TopicPartition, tuple[PartitionState, int]] = {}

    # --- at the application's word

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, deadline: float
    ) -> None:
        """Commit.

        Args:
            offsets: None: of all assigned partitions, what was handed out.
            deadline: Loop time after which no more is tried.

        Raises:
            CommitFailedError: this is no member of the group (any more), or a rebalance is under
                way; its cause tells which. The partitions may be someone else's.
            FencedInstanceIdError: another process has this one's `group_instance_id`.
            KafkaTimeoutError: it was not done by the deadline.
            KafkaError: what else the coordinator answered; see `OffsetStore.commit`.

        Cancellation: stops the wait; it may be committed all the same.
        """
        await self._commit(self.given() if offsets is None else offsets, deadline)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, Committed]:
        """What the group has committed; partitions that it has not committed for are missing.

        A member of KIP-848's kind asks as one, so that it never reads what the next owner of a
        partition has yet to overwrite.

        Raises:
            KafkaError: as of `OffsetStore.fetch`.

        Cancellation: safe.
        """
        while True:
            sent: CommitIdentity | None = None

            def identity() -> CommitIdentity | None:
                nonlocal sent
                sent = self._modern_identity()
                return sent

            try:
                return await self._store.fetch(
                    partitions, require_stable=True, identity=identity, deadline=deadline
                )
            except _OUT_OF_GROUP as error:
                if sent is None:
                    raise
                self._tell(error, sent)
                await self._until_not(sent, deadline)
                if self._modern_identity() == sent:
                    raise

    def given(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the application has come: after the last record handed out, in each partition.

        Args:
            partitions: Only of these; None: of all.
        """
        return {
            state.tp: OffsetAndMetadata(position, "")
            for state in self._positions
            if (partitions is None or state.tp in partitions)
            and (position := state.position) is not None
        }

    # --- by the clock

    def on_read(self) -> None:
        """A read begins that has taken nothing yet: what was handed out before it is done with."""
        if self.due:
            self._begin()
        elif self._timer is None and self._by_clock is None:
            self._arm(self._loop.time() + self._options.auto_commit_interval)

    def on_change(self) -> None:
        """The membership moved: who waits for its next epoch may look."""
        self._changed.set()

    def _arm(self, at: float) -> None:
        if self._options.enable_auto_commit and not self._closed:
            self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._closed or self._tasks.closed:
            return
        if self._waiters:
            self._begin()
            return
        self.due = True
        if self._delivery is not None:
            self._delivery.current = EMPTY

    def _begin(self) -> None:
        """Commit what was given so far, in the background."""
        self.due = False
        next_at = self._loop.time() + self._options.auto_commit_interval
        offsets = self._moved(self.given())
        if not offsets or self._closed or self._tasks.closed or not self._may_commit():
            self._arm(next_at)
            return
        self._by_clock = self._tasks.spawn(self._commit_by_clock(offsets, next_at), "auto-commit")

    async def _commit_by_clock(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], next_at: float
    ) -> None:
        now = self._loop.time()
        try:
            # One topic that was deleted must not hold up the commits of all others.
            await self._commit(
                offsets, now + self._options.request_timeout, missing_topics_may_come=False
            )
        except KafkaError as error:
            log.warning("Auto-commit of %s failed: %s", _named(offsets), error)
        else:
            if now >= self._everything_at:
                self._everything_at = now + AGAIN_AFTER
        finally:
            self._by_clock = None
            self._arm(max(next_at, self._loop.time()))

    def _moved(
        self, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Those that are not committed yet; now and then all of them."""
        if self._loop.time() >= self._everything_at:
            return offsets
        return self._unsettled(offsets)

    def _unsettled(
        self, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            tp: offset
            for tp, offset in offsets.items()
            if self._settled.get(tp) != (self._positions.get(tp), offset.offset)
        }

    # --- at the end

    async def before_revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Auto-commit what was given of partitions that the group takes. Never raises a KafkaError:
        whatever the outcome, they have to go.

        Args:
            partitions: Still assigned, though nothing more of them is handed out.
            deadline: Loop time after which they go uncommitted.
        """
        if not self._options.enable_auto_commit or not partitions:
            return
        await self._overtake()
        await self._commit_last(self._unsettled(self.given(partitions)), deadline)

    async def at_close(self, deadline: float) -> None:
        """The consumer ends: auto-commit everything given of what is still assigned. Never raises
        a KafkaError. The clock stops.

        Args:
            deadline: Loop time after which it ends uncommitted.
        """
        self.close()
        await self._overtake()
        if self._options.enable_auto_commit:
            await self._commit_last(self._unsettled(self.given()), deadline)

    def let_go(self, partitions: Collection[TopicPartition]) -> None:
        """The application itself gives up partitions that it was assigned by hand: auto-commit what
        was given of them, in the background. Call it while they are still assigned."""
        offsets = self._unsettled(self.given(partitions))
        if self._options.enable_auto_commit and offsets and not self._tasks.closed:
            deadline = self._loop.time() + self._options.request_timeout
            self._tasks.spawn(self._commit_last(offsets, deadline), "commit what was let go")

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

    async def _commit_last(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float
    ) -> None:
        try:
            # A topic that was deleted would never be committed: the rebalance goes on (as in Java).
            await self._commit(offsets, deadline, missing_topics_may_come=False)
        except KafkaError as error:
            log.warning("The last auto-commit of %s failed: %s", _named(offsets), error)

    # --- one commit

    async def _commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
    ) -> None:
        if not offsets:
            return
        owned = {tp: self._positions.get(tp) for tp in offsets}
        started = self._loop.time()
        try:
            async with self._its_turn(deadline):
                await self._send(offsets, owned, deadline, missing_topics_may_come)
        except KafkaError:
            self.counters.failures += 1
            raise
        self._count(self._loop.time() - started)
        for tp, state in owned.items():
            if state is not None:
                self._settled[tp] = (state, offsets[tp].offset)
        if self.on_committed is not None:
            self.on_committed(offsets)

    async def _send(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        owned: Mapping[TopicPartition, PartitionState | None],
        deadline: float,
        missing_topics_may_come: bool,
    ) -> None:
        while True:
            sent: CommitIdentity | None = None

            def identity() -> CommitIdentity | None:
                nonlocal sent
                sent = self._identity()
                return sent

            try:
                await self._store.commit(
                    offsets, identity, deadline, missing_topics_may_come=missing_topics_may_come
                )
                return
            except BrokerResponseError as error:
                self._tell(error, sent)
                if not isinstance(error, _OUT_OF_GROUP):
                    raise
                if isinstance(error, StaleMemberEpochError):
                    await self._until_not(sent, deadline)
                if not self._is_another(sent) or not self._still_owns(owned):
                    raise CommitFailedError(
                        "Commit cannot be completed since the group has already rebalanced and "
                        "may have assigned the partitions to another member"
                    ) from error
                log.debug("Committing %s again as %s: %s", _named(offsets), sent, error)

    @asynccontextmanager
    async def _its_turn(self, deadline: float) -> AsyncIterator[None]:
        """Wait for the commits before this one.

        Raises:
            KafkaTimeoutError: they were not through by the deadline.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._turn.acquire()
        except TimeoutError:
            raise KafkaTimeoutError("An earlier commit was not through in time") from None
        try:
            yield
        finally:
            self._turn.release()

    def _still_owns(self, owned: Mapping[TopicPartition, PartitionState | None]) -> bool:
        """Whether none of the partitions was taken away since (and perhaps given back, when
        another member may have gone further)."""
        return all(state is None or self._positions.get(tp) is state for tp, state in owned.items())

    def _count(self, seconds: float) -> None:
        counters = self.counters
        counters.commits += 1
        counters.time += seconds
        counters.slowest = max(counters.slowest, seconds)
        counters.last = self._loop.time()

    # --- as whom

    def _identity(self) -> CommitIdentity | None:
        """As whom to commit now.

        Raises:
            CommitFailedError: the partitions come from the group, and this is no member of it.
        """
        identity = None if self._driver is None else self._driver.membership.commit_identity()
        if identity is None and self._driver is not None and self._shared():
            if self._driver.membership.rejoin_needed:
                error = CommitFailedError(
                    "Commit cannot be completed while the consumer joins its group"
                )
                raise error from RebalanceInProgressError(self._store.group_id)
            raise CommitFailedError()
        return identity

    def _may_commit(self) -> bool:
        """Whether `_identity` has one."""
        driver = self._driver
        out = driver is not None and driver.membership.commit_identity() is None
        return not (out and self._shared())

    def _modern_identity(self) -> CommitIdentity | None:
        """As whom to read; the classic protocol's members read as nobody."""
        if self._driver is None or not isinstance(self._driver.membership, ModernMembership):
            return None
        return self._driver.membership.commit_identity()

    def _is_another(self, sent: CommitIdentity | None) -> bool:
        """Whether this is a member now, and not the one that was refused."""
        now = None if self._driver is None else self._driver.membership.commit_identity()
        return now is not None and now != sent

    def _tell(self, error: KafkaError, sent: CommitIdentity | None) -> None:
        """Let the membership know that it was refused."""
        if self._driver is not None and sent is not None:
            self._driver.membership.on_commit_error(error, self._loop.time(), sent)
            self._driver.wake()

    async def _until_not(self, sent: CommitIdentity | None, deadline: float) -> None:
        """Wait until this is not the member that it was, at most until the deadline."""
        if self._driver is None:
            return
        while self._driver.membership.commit_identity() == sent and self._loop.time() < deadline:
            self._changed.clear()
            # Not every epoch is announced.
            look_at = min(deadline, self._loop.time() + _LOOK_AGAIN)
            try:
                async with asyncio.timeout_at(look_at):
                    await self._changed.wait()
            except TimeoutError:
                continue


def _named(offsets: Collection[TopicPartition]) -> str:
    """The first of them, for a log."""
    named = ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(offsets)[:5])
    return named + (f" and {len(offsets) - 5} more" if len(offsets) > 5 else "")
