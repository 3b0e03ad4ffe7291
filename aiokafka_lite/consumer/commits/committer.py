"""Sends commits one at a time, with the member's identity at the time of the request.

Non-obvious:

- Commits are sent in the order of the calls: an earlier one that is delayed cannot undo a later
  one.
- If the member's epoch or generation rose while it still owns the partitions, a rejected commit is
  sent again; after a stale epoch, once a heartbeat has returned the current epoch (Java fails then,
  except for its own commit before a revocation).
- The coordinator checks members, not their partitions: so a commit that waited, or is retried, is
  abandoned here if a partition was revoked meanwhile. Its new owner may have read further.
- The membership receives every rejection, with the identity that was rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, Protocol, TypeAlias

from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import (
    BrokerResponseError,
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFound,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from aiokafka_lite.group.membership import CommitIdentity, Membership
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitCounters", "Committer", "Member", "Offsets", "Turn", "named"]

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
"""The offsets to commit."""

_LOOK_AGAIN: Final = 0.1
"""Minimum seconds between a stale epoch and the next attempt; also the interval at which a commit
that waits for the member's next epoch polls it."""

_OUT_OF_GROUP: Final = (
    FencedMemberEpochError,
    GroupIdNotFound,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
"""Errors that reject the member's identity: it was removed, perhaps with its group, or its epoch
changed."""


_GIVEN_UP: Final = "given up"

_Holding: TypeAlias = PartitionState | Literal["given up"] | None
"""How a consumer holds a partition: it is assigned (the state identifies the assignment); the
application unsubscribed, but the member still owns it; or neither."""


class Member(Protocol):
    """The part of the group's driver that commits need."""

    @property
    def membership(self) -> Membership:
        """The membership state machine."""

    def wake(self) -> None:
        """Process the machine's pending actions after an event."""


@dataclass(slots=True)
class CommitCounters:
    """Commit counters for metrics.

    Attributes:
        commits: Successful commits.
        failures: Failed commits.
        time: Total seconds of successful commits.
        slowest: Seconds of the slowest successful commit.
        last: Loop time of the last successful commit, -1 for never.
    """

    commits: int = 0
    failures: int = 0
    time: float = 0.0
    slowest: float = 0.0
    last: float = -1.0


class Turn:
    """A place in the queue of commits: taken at once, awaited later.

    Args:
        line: All turns that have not ended; the current one is first.
        owned: How the consumer held each partition of the commit when the turn was taken.
        given_up: True if the application had assigned the partitions itself, and gives them up: the
            commit needs no membership, even if the application has subscribed since.
    """

    def __init__(
        self,
        line: deque[Turn],
        owned: Mapping[TopicPartition, _Holding],
        *,
        given_up: bool = False,
    ) -> None:
        self.owned = owned
        self.given_up = given_up
        self._line = line
        self._come: asyncio.Future[None] | None = None
        line.append(self)

    async def come(self, deadline: float) -> None:
        """Wait for this turn.

        Raises:
            KafkaTimeoutError: The turns before it had not ended by the deadline.
        """
        if self._line[0] is self:
            return
        self._come = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline):
                await self._come
        except TimeoutError:
            raise KafkaTimeoutError(
                "Commit timed out: an earlier commit has not completed"
            ) from None

    def end(self) -> None:
        """Start the next turn. Idempotent."""
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
        driver: The driver of the member that commits, or None with manual assignment only.
        shared: Returns True if the group assigns the partitions now. With manual assignment,
            commits carry no member identity.
        on_committed: Called with the committed offsets. It must not raise.

    Attributes:
        around: Returns a context manager that each commit runs in; None without one.
    """

    def __init__(
        self,
        store: OffsetStore,
        positions: Positions,
        loop: asyncio.AbstractEventLoop,
        driver: Member | None,
        shared: Callable[[], bool],
        on_committed: Callable[[Offsets], None] | None = None,
    ) -> None:
        self.counters = CommitCounters()
        self._on_committed = on_committed
        self.around: Callable[[Offsets], AbstractContextManager[object]] | None = None
        self._store = store
        self._positions = positions
        self._loop = loop
        self._driver = driver
        self._shared = shared
        self._line: deque[Turn] = deque()
        self._changed = asyncio.Event()  # set when the membership changed
        # The committed offset of each partition, where no commit that was begun since can have
        # changed it; the state identifies the assignment.
        self._settled: dict[TopicPartition, tuple[PartitionState, int]] = {}

    @property
    def may_commit(self) -> bool:
        """True if the consumer is in a state to commit."""
        return self.is_member or self._driver is None or not self._shared()

    @property
    def is_member(self) -> bool:
        """True if the consumer is a member of the group now."""
        return self._identity_now() is not None

    def is_settled(self, state: PartitionState, offset: int) -> bool:
        """True if `offset` is the committed one of a partition, was committed since the partition
        was assigned, and no commit with another offset is queued, in flight, or of unknown
        outcome."""
        settled = self._settled.get(state.tp)
        return settled is not None and settled[0] is state and settled[1] == offset

    def on_change(self) -> None:
        """The membership changed: wake the commits that wait for its next epoch."""
        self._changed.set()

    async def commit(
        self,
        offsets: Offsets,
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
        turn: Turn | None = None,
    ) -> None:
        """Commit, after all earlier commits.

        Args:
            turn: Taken with `take_turn` when the offsets were read; this call ends it.

        Raises:
            CommitFailedError, KafkaError: As for `Commits.commit`.
        """
        turn = self.take_turn(offsets) if turn is None else turn
        try:
            if offsets:
                with nullcontext() if self.around is None else self.around(offsets):
                    await self._commit(offsets, deadline, missing_topics_may_come, turn)
        finally:
            turn.end()

    def take_turn(self, offsets: Offsets, *, given_up: bool = False) -> Turn:
        """Reserve a turn for a commit that will begin in another task: later commits cannot
        overtake it, and it is abandoned if the group revokes a partition before it begins.

        From now on none of these partitions is settled until a commit of it succeeds: if the
        application seeks back to the offset committed before, that offset must be committed again,
        whether this commit succeeds, fails or is cancelled.

        Args:
            given_up: As in `Turn`.
        """
        for tp in offsets:
            self._settled.pop(tp, None)
        owned = dict.fromkeys(offsets) if given_up else self._holdings(offsets)
        return Turn(self._line, owned, given_up=given_up)

    def _settle(self, offsets: Offsets, owned: Mapping[TopicPartition, _Holding]) -> None:
        """Record a successful commit, except of partitions that a later commit includes."""
        later = {tp for turn in islice(self._line, 1, None) for tp in turn.owned}
        for (tp, committed), state in zip(offsets.items(), owned.values(), strict=True):
            if isinstance(state, PartitionState) and tp not in later:
                self._settled[tp] = (state, committed[0])

    async def _commit(
        self, offsets: Offsets, deadline: float, missing_topics_may_come: bool, turn: Turn
    ) -> None:
        started = self._loop.time()
        try:
            await turn.come(deadline)
            await self._send(offsets, turn, deadline, missing_topics_may_come)
        except KafkaError:
            self.counters.failures += 1
            raise
        self._count(self._loop.time() - started)
        self._settle(offsets, turn.owned)
        if self._on_committed is not None:
            self._on_committed(offsets)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> dict[TopicPartition, Committed]:
        """Return the group's committed offsets; see `Commits.committed`."""
        fetch = self._store.begin_fetch(partitions, require_stable=True, deadline=deadline)
        while not fetch.done:
            connection = await fetch.connect()
            sent = self._fetch_identity()
            try:
                await fetch.attempt(connection, sent)
            except _OUT_OF_GROUP as error:
                if sent is None:
                    raise
                reported_at = self._report(error, sent)
                await self._until_heard(sent, reported_at, deadline)
                if self._loop.time() >= deadline:
                    raise
        return fetch.found

    async def _send(
        self,
        offsets: Offsets,
        turn: Turn,
        deadline: float,
        missing_topics_may_come: bool,
    ) -> None:
        owned = turn.owned
        commit = self._store.begin_commit(
            offsets, deadline, missing_topics_may_come=missing_topics_may_come
        )
        while not commit.done:
            connection = await commit.connect()
            # Nothing is awaited between this check and the request, so it holds when that is sent.
            sent = self._identity_now() if turn.given_up else self._identity()
            if sent is not None and not self._still_owns(owned):
                raise _rebalanced() from RebalanceInProgressError(self._store.group_id)
            try:
                await commit.attempt(connection, sent)
            except BrokerResponseError as error:
                # A static member that joined again under another member id has fenced the old one.
                outdated = isinstance(error, FencedInstanceIdError) and self._identity_now() != sent
                # Without a membership nothing was lost: the group is of another kind, such as a
                # share group, and does not take the next commit either.
                unfit = isinstance(error, GroupIdNotFound) and sent is None
                reported_at = self._report(error, sent)
                if unfit or not (outdated or isinstance(error, _OUT_OF_GROUP)):
                    raise
                heard = False
                if isinstance(error, StaleMemberEpochError) and sent is not None:
                    heard = await self._until_heard(sent, reported_at, deadline)
                again = self.is_member if heard else self._is_another(sent)
                if turn.given_up and sent is None:
                    again = False  # the group has members, which may have read further
                if not again or not self._still_owns(owned):
                    raise _rebalanced() from error
                text = "%s: committing %s of group %s again, rejected as %s: %s"
                client_id, group_id = self._store.client_id, self._store.group_id
                log.debug(text, client_id, named(offsets), group_id, sent, error)

    def _still_owns(self, owned: Mapping[TopicPartition, _Holding]) -> bool:
        """True if no partition was revoked since (and perhaps assigned again, after another member
        may have read further)."""
        return all(
            before is None or now is before or now is _GIVEN_UP
            for before, now in zip(owned.values(), self._holdings(owned).values(), strict=True)
        )

    def _holdings(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, _Holding]:
        """Return how the consumer holds these partitions now, in the same order."""
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

    # --- the member's identity

    def _identity(self) -> CommitIdentity | None:
        """Return the identity to commit with now.

        Raises:
            CommitFailedError: The group assigns the partitions, and this is not a member of it.
        """
        identity = self._identity_now()
        if identity is None and self._driver is not None and self._shared():
            if self._driver.membership.rejoin_needed:
                error = CommitFailedError(
                    f"Commit cannot be completed while joining group {self._store.group_id}"
                )
                raise error from RebalanceInProgressError(self._store.group_id)
            raise CommitFailedError()
        return identity

    def _fetch_identity(self) -> CommitIdentity | None:
        """Return the identity to read offsets with; None with the classic protocol."""
        if self._driver is None or not self._driver.membership.broker_assigns:
            return None
        return self._driver.membership.commit_identity()

    def _is_another(self, sent: CommitIdentity | None) -> bool:
        """True if this may commit now, with another identity than the rejected one."""
        return self.may_commit and self._identity_now() != sent

    def _report(self, error: KafkaError, sent: CommitIdentity | None) -> float:
        """Pass a rejection to the membership.

        Returns:
            The current loop time.
        """
        now = self._loop.time()
        if self._driver is not None and sent is not None:
            self._driver.membership.on_commit_error(error, now, sent)
            self._driver.wake()
        return now

    async def _until_heard(self, sent: CommitIdentity, reported_at: float, deadline: float) -> bool:
        """Wait until the member has another identity, or a heartbeat sent since has confirmed this
        one. A rejected request is not repeated at once.

        Returns:
            False if neither happened by the deadline.
        """
        not_before = reported_at + _LOOK_AGAIN
        while (now := self._loop.time()) < deadline:
            if self._identity_now() != sent:
                return True
            if now >= not_before and self._last_heartbeat() >= reported_at:
                return True
            self._changed.clear()
            try:
                # Not every heartbeat or epoch triggers `on_change`.
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
    """Format the first of the partitions for a log."""
    named = ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(offsets)[:5])
    return named + (f" and {len(offsets) - 5} more" if len(offsets) > 5 else "")
