"""How a consumer commits: one commit at a time, as the member that it is when the request leaves.

Non-obvious:

- Commits go in the order of the calls: a late answer to an earlier one cannot undo a later one.
- When the member has become another (its epoch or generation rose) while it still owns the
  partitions, a refused commit is sent again; after a stale epoch, when the next heartbeat has told
  the epoch of now (Java fails then, but for its own commit before a revocation).
- Nothing else would be refused by the coordinator, which knows members and not what they own: so a
  commit that had to wait, or is tried again, is given up here if a partition went meanwhile. Its
  new owner may have gone further.
- The membership is told of every refusal, with the identity that was refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
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
from aiokafka_lite.group.consumer.machine import ConsumerMembership
from aiokafka_lite.group.membership import CommitIdentity, Membership
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitCounters", "Committer", "Member", "Offsets", "Turn", "named"]

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
"""What is committed."""

_LOOK_AGAIN: Final = 0.1
"""Seconds that lie between a stale epoch and the next attempt at least; after as many, who waits
for the member's next epoch looks for itself."""

_OUT_OF_GROUP: Final = (
    FencedMemberEpochError,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
"""Refusals of who commits, not of what: the member is out, or has become another."""


_GIVEN_UP: Final = "given up"

_Holding: TypeAlias = PartitionState | Literal["given up"] | None
"""How a consumer has a partition: it is assigned (by this very assignment); the application has
unsubscribed from it, and it is the member's still; or neither."""


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


class Turn:
    """A place in line: taken at once, waited for later.

    Args:
        line: All that were taken and have not ended, the one whose turn it is first.
    """

    def __init__(self, line: deque[Turn]) -> None:
        self._line = line
        self._come: asyncio.Future[None] | None = None
        line.append(self)

    async def come(self, deadline: float) -> None:
        """Wait for it.

        Raises:
            KafkaTimeoutError: Those before it had not ended by the deadline.
        """
        if self._line[0] is self:
            return
        self._come = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline):
                await self._come
        except TimeoutError:
            raise KafkaTimeoutError("An earlier commit was not through in time") from None

    def end(self) -> None:
        """Let the next one go; idempotent."""
        if self in self._line:
            self._line.remove(self)
        if self._line:
            come = self._line[0]._come
            if come is not None and not come.done():
                come.set_result(None)


class Committer:
    """Commits and reads committed offsets for one consumer.

    Args:
        store: The group's offsets.
        positions: The assigned partitions.
        loop: The event loop.
        driver: Whose member commits, or None: partitions are assigned by hand only.
        shared: Whether the partitions come from the group now. Where the application assigns
            them, nobody of the group commits.

    Attributes:
        on_committed: Told what was committed. What it raises is a mistake.
    """

    def __init__(
        self,
        store: OffsetStore,
        positions: Positions,
        loop: asyncio.AbstractEventLoop,
        driver: Member | None,
        shared: Callable[[], bool],
    ) -> None:
        self.counters = CommitCounters()
        self.on_committed: Callable[[Offsets], None] | None = None
        self._store = store
        self._positions = positions
        self._loop = loop
        self._driver = driver
        self._shared = shared
        self._line: deque[Turn] = deque()
        self._changed = asyncio.Event()  # set when the membership moved
        # What each partition was committed at; the state tells whether it was lost meanwhile.
        self._settled: dict[TopicPartition, tuple[PartitionState, int]] = {}

    @property
    def may_commit(self) -> bool:
        """Whether there is one to commit as."""
        return self.is_member or self._driver is None or not self._shared()

    @property
    def is_member(self) -> bool:
        """Whether it is a member of the group now."""
        return self._identity_now() is not None

    def is_settled(self, state: PartitionState, offset: int) -> bool:
        """Whether that is what was committed last for a partition since it was assigned."""
        settled = self._settled.get(state.tp)
        return settled is not None and settled[0] is state and settled[1] == offset

    def on_change(self) -> None:
        """The membership moved: who waits for its next epoch may look."""
        self._changed.set()

    async def commit(
        self,
        offsets: Offsets,
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
        turn: Turn | None = None,
    ) -> None:
        """Commit, after those that were begun before.

        Args:
            turn: Taken before, by `take_turn`, when the offsets were read; it is ended.

        Raises:
            CommitFailedError, KafkaError: As of `Commits.commit`.
        """
        turn = self.take_turn() if turn is None else turn
        try:
            if offsets:
                await self._commit(offsets, deadline, missing_topics_may_come, turn)
        finally:
            turn.end()

    def take_turn(self) -> Turn:
        """A place in line for a commit that is about to begin in another task: what is committed
        later does not overtake it."""
        return Turn(self._line)

    async def _commit(
        self, offsets: Offsets, deadline: float, missing_topics_may_come: bool, turn: Turn
    ) -> None:
        owned = self._holdings(offsets)
        started = self._loop.time()
        try:
            await turn.come(deadline)
            await self._send(offsets, owned, deadline, missing_topics_may_come)
        except KafkaError:
            self.counters.failures += 1
            raise
        self._count(self._loop.time() - started)
        settled = self._settled
        for (tp, committed), state in zip(offsets.items(), owned.values(), strict=True):
            if isinstance(state, PartitionState):
                settled[tp] = (state, committed[0])
        if self.on_committed is not None:
            self.on_committed(offsets)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, Committed]:
        """What the group has committed; see `Commits.committed`."""
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
                told_at = self._tell(error, sent)
                await self._until_heard(sent, told_at, deadline)
                if self._loop.time() >= deadline:
                    raise

    async def _send(
        self,
        offsets: Offsets,
        owned: Mapping[TopicPartition, _Holding],
        deadline: float,
        missing_topics_may_come: bool,
    ) -> None:
        while True:
            sent: CommitIdentity | None = None

            def identity() -> CommitIdentity | None:
                nonlocal sent
                sent = self._identity()
                if sent is not None and not self._still_owns(owned):
                    raise _rebalanced() from RebalanceInProgressError(self._store.group_id)
                return sent

            try:
                await self._store.commit(
                    offsets, identity, deadline, missing_topics_may_come=missing_topics_may_come
                )
                return
            except BrokerResponseError as error:
                told_at = self._tell(error, sent)
                if not isinstance(error, _OUT_OF_GROUP):
                    raise
                heard = False
                if isinstance(error, StaleMemberEpochError) and sent is not None:
                    heard = await self._until_heard(sent, told_at, deadline)
                again = self.is_member if heard else self._is_another(sent)
                if not again or not self._still_owns(owned):
                    raise _rebalanced() from error
                log.debug("Committing %s again as %s: %s", named(offsets), sent, error)

    def _still_owns(self, owned: Mapping[TopicPartition, _Holding]) -> bool:
        """Whether none of the partitions was taken away since (and perhaps given back, when
        another member may have gone further)."""
        return all(
            before is None or now is before or now is _GIVEN_UP
            for before, now in zip(owned.values(), self._holdings(owned).values(), strict=True)
        )

    def _holdings(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Holding]:
        """How this has partitions now, in their order."""
        holdings: dict[TopicPartition, _Holding]
        holdings = dict(zip(partitions, map(self._positions.get, partitions), strict=True))
        if self._driver is not None and None in holdings.values():
            members = self._driver.membership.assignment
            for tp, state in holdings.items():
                if state is None and tp in members:
                    holdings[tp] = _GIVEN_UP
        return holdings

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
            CommitFailedError: The partitions come from the group, and this is no member of it.
        """
        identity = self._identity_now()
        if identity is None and self._driver is not None and self._shared():
            if self._driver.membership.rejoin_needed:
                error = CommitFailedError(
                    "Commit cannot be completed while the consumer joins its group"
                )
                raise error from RebalanceInProgressError(self._store.group_id)
            raise CommitFailedError()
        return identity

    def _modern_identity(self) -> CommitIdentity | None:
        """As whom to read; the classic protocol's members read as nobody."""
        if self._driver is None or not isinstance(self._driver.membership, ConsumerMembership):
            return None
        return self._driver.membership.commit_identity()

    def _is_another(self, sent: CommitIdentity | None) -> bool:
        """Whether this may commit now, and as another than the one that was refused."""
        return self.may_commit and self._identity_now() != sent

    def _tell(self, error: KafkaError, sent: CommitIdentity | None) -> float:
        """Let the membership know that it was refused.

        Returns:
            When it was told, in loop time.
        """
        now = self._loop.time()
        if self._driver is not None and sent is not None:
            self._driver.membership.on_commit_error(error, now, sent)
            self._driver.wake()
        return now

    async def _until_heard(self, sent: CommitIdentity, told_at: float, deadline: float) -> bool:
        """Wait until the coordinator has told whether this is another member by now: by a heartbeat
        that was sent since, or because it is one. A refusal is not repeated at once.

        Returns:
            False if it has not told by the deadline.
        """
        not_before = told_at + _LOOK_AGAIN
        while (now := self._loop.time()) < deadline:
            if self._identity_now() != sent:
                return True
            if now >= not_before and self._last_heartbeat() >= told_at:
                return True
            self._changed.clear()
            try:
                # Not every heartbeat, nor every epoch, is announced.
                async with asyncio.timeout_at(min(deadline, max(not_before, now + _LOOK_AGAIN))):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return False

    def _identity_now(self) -> CommitIdentity | None:
        return None if self._driver is None else self._driver.membership.commit_identity()

    def _last_heartbeat(self) -> float:
        return -1.0 if self._driver is None else self._driver.membership.counters.last_heartbeat


def _rebalanced() -> CommitFailedError:
    return CommitFailedError(
        "Commit cannot be completed since the group has already rebalanced and may have assigned "
        "the partitions to another member"
    )


def named(offsets: Collection[TopicPartition]) -> str:
    """The first of them, for a log."""
    named = ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(offsets)[:5])
    return named + (f" and {len(offsets) - 5} more" if len(offsets) > 5 else "")
