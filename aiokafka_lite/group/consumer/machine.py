"""A member of a group of the consumer protocol, where the broker assigns (KIP-848): sans-IO.

The member says by heartbeats what it subscribes to and what it owns; the coordinator answers with
what it shall own. `Heartbeats` writes the former, `Reconciliation` carries out the latter,
`verdict` judges errors, `Pace` knows when; this machine binds them together.

=================  ================================================================================
State              Followed by
=================  ================================================================================
UNSUBSCRIBED       JOINING (a subscription)
JOINING            RECONCILING (a target came); STABLE (the answer told none)
RECONCILING        ACKNOWLEDGING (revoked and assigned, or nothing to do but to say so)
ACKNOWLEDGING      STABLE, or RECONCILING when there is a newer target (the heartbeat goes out)
STABLE             RECONCILING (another target came)
any of these four  FENCED; PREPARE_LEAVING (leave, close); LEAVING (nobody polls); FATAL
FENCED             JOINING (all is lost, and the listener through); PREPARE_LEAVING
PREPARE_LEAVING    LEAVING (all is given back, and the listener through)
LEAVING            UNSUBSCRIBED; STALE (the application did not poll)
STALE              JOINING (it polls again); PREPARE_LEAVING
FATAL              JOINING (`retry`, or another subscription); PREPARE_LEAVING
=================  ================================================================================

Non-obvious:
- One heartbeat is in flight at a time. One that acknowledges, joins or leaves waits for the answer
  to the one before, not for the interval.
- What the heartbeats say to be owned is what was reconciled last; it changes when the listener is
  through, and not while it runs. Heartbeats go on meanwhile, so a slow listener costs the member
  its place only after the rebalance timeout, which the coordinator watches.
- A newer target that comes while one is reconciled waits for that, as in Java: each change is
  acknowledged before the next begins.
- An answer counts for the membership that asked: after a fence, or an error that ended it,
  the era has moved on, and an older answer only frees the place in flight.
- A member that leaves tells the coordinator whenever that may know it, even if it never got an
  answer: under an id that it made itself, a join may have arrived.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    IllegalStateError,
    KafkaError,
    KafkaProtocolError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka_lite.group.consumer.heartbeat_errors import Verdict, explain, verdict
from aiokafka_lite.group.consumer.heartbeat_schedule import Pace
from aiokafka_lite.group.consumer.identity import Sent, Standing
from aiokafka_lite.group.consumer.reconciliation import Reconciliation
from aiokafka_lite.group.consumer.states import ENDED, FOLLOWING, IN_GROUP, LEAVES, MemberState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    CommitIdentity,
    Counters,
    Fail,
    FindCoordinator,
    GroupMetadata,
    Lost,
    MembershipOptions,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.group.session_clocks import PollClock
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["ConsumerMembership", "MemberState"]

logger: Final = logging.getLogger(__name__)


class ConsumerMembership:
    """See the module; the methods are those of `membership.Membership`.

    Args:
        options: The member's. `session_timeout` and `heartbeat_interval` are the group's business.
        new_uuid: Makes the id that the member goes by for life.
    """

    def __init__(
        self, options: MembershipOptions, new_uuid: Callable[[], UUID] = uuid.uuid4
    ) -> None:
        self.options = options
        self.counters = Counters()
        self._state = MemberState.UNSUBSCRIBED
        self._standing = Standing(options, new_uuid())
        self._pace = Pace(options.retry_backoff)
        self._parts = Reconciliation()
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._poll = PollClock(options.max_poll_interval)
        self._failure: KafkaError | None = None  # to be told
        self._last_failure: KafkaError | None = None  # told, and not tried again since
        self._rejoin = False  # from FATAL, or after LEAVING
        self._stale = False  # leaves because the application does not poll
        self._closing = False
        self._rebalancing_since: float | None = None

    # what it is

    @property
    def state(self) -> MemberState:
        """The current state; it cannot be set."""
        return self._state

    @property
    def member_id(self) -> str:
        """Its id, once a coordinator has answered it; the same through all rejoins."""
        return self._standing.member_id

    @property
    def generation(self) -> int:
        """The member epoch; -1 outside of the group."""
        return self._standing.generation

    @property
    def protocol(self) -> str:
        """The broker's business."""
        return ""

    @property
    def broker_assigns(self) -> bool:
        """It does."""
        return True

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What the application holds; what is revoked or lost, until its listener is through."""
        return self._parts.held

    @property
    def rejoin_needed(self) -> bool:
        """True if it is anything but settled."""
        return self._state not in (MemberState.STABLE, MemberState.UNSUBSCRIBED)

    @property
    def closed(self) -> bool:
        """True once `close` has completed."""
        return self._closing and self._state is MemberState.UNSUBSCRIBED

    @property
    def leaving(self) -> bool:
        """True if `leave` or `close` is under way."""
        return self._state in LEAVES and not self._stale

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics whose metadata `on_metadata` has to tell."""
        return self._topics | self._parts.topics

    @property
    def unresolved_topic_ids(self) -> frozenset[UUID]:
        """Topics that are assigned (by a pattern, say) whose names metadata has yet to tell."""
        return self._parts.unresolved

    # what it wants

    def next_step(self, now: float) -> Step | None:
        """The next thing to do, or None for now; each is handed out once."""
        if self._state in IN_GROUP and self._poll.expired(now):
            self._on_poll_expired()
        self._settle(now)
        if (failure := self._failure) is not None:
            self._failure = None
            return Fail(failure)
        if self._may_search and now >= self._pace.search_at:
            self._pace.searching = True
            return FindCoordinator()
        if self._may_send and now >= self._pace.heartbeat_at:
            return self._send(now)
        return self._next_callback()

    def next_wakeup(self, now: float) -> float | None:
        """Loop time to ask `next_step` again at the latest; None: only after something is told."""
        times = []
        if self._may_search:
            times.append(self._pace.search_at)
        elif self._may_send:
            times.append(self._pace.heartbeat_at)
        if self._state in IN_GROUP and self._poll.expires_at is not None:
            times.append(self._poll.expires_at)
        return min(times) if times else None

    # told by the network

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A heartbeat was answered."""
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            raise IllegalStateError(f"{response!r} answers no heartbeat")
        sent = self._standing.on_outcome(kind)
        if response.error_code:
            error = for_code(response.error_code)(response.error_message or "")
            self._on_refused(error, sent, now, answered=True)
        elif _assigns_the_impossible(response):
            impossible = KafkaProtocolError("The coordinator assigns a negative partition")
            self._on_refused(impossible, sent, now, answered=False)
        else:
            self._on_heartbeat(sent, response, now)
        self._settle(now)

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A heartbeat, or the search for the coordinator, came to nothing."""
        if kind == FIND_COORDINATOR:
            self._pace.searching = False
            self._on_coordinator_not_found(error, now)
        else:
            self._on_refused(error, self._standing.on_outcome(kind), now, answered=False)
        self._settle(now)

    def on_coordinator(self, now: float) -> None:
        """The coordinator is known."""
        self._pace.coordinator = True
        self._pace.searching = False

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is gone, or another one now; it does not harm the membership."""
        self._pace.coordinator = False

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """The metadata of topics: the names of what is assigned."""
        self._parts.on_metadata(topics)
        self._settle(now)

    # told by the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """What it subscribes to: join, or tell it at once.

        Args:
            topics: Names; of a pattern that the client resolves, those that match so far.
            pattern: RE2, resolved by the broker.
            matches: Of no use here.
        """
        if self._closing:
            raise IllegalStateError("the membership is closed, or about to be")
        changed = (self._topics, self._pattern) != (frozenset(topics), pattern)
        self._topics, self._pattern = frozenset(topics), pattern
        if self._state is MemberState.UNSUBSCRIBED:
            self._join()
        elif self._state in ENDED:
            # Told again what it was told before, it would only fail again.
            self._rejoin = self._rejoin or changed or self._state is not MemberState.FATAL
        elif changed:
            self._pace.hasten()
        self._settle(now)

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application polls for records, or waits for them."""
        self._poll.on_poll(now, waiting=waiting)
        self._settle(now)

    def on_revoked(self, now: float) -> None:
        """The listener of a `Revoke` has completed."""
        self._parts.on_revoked()
        self._settle(now)

    def on_lost(self, now: float) -> None:
        """The listener of a `Lost` has completed."""
        self._parts.on_lost()
        self._settle(now)

    def on_assigned(self, now: float) -> None:
        """The listener of an `Assign` has completed: the change is made, and is acknowledged."""
        if self._parts.on_assigned():
            self._acknowledge(now)
        self._settle(now)

    def on_elected(
        self, assignments: Mapping[str, bytes], now: float, topics: Collection[str] = ()
    ) -> None:
        """Raises IllegalStateError: no member of this protocol leads."""
        raise IllegalStateError("the broker assigns in the consumer protocol")

    def on_election_failed(self, error: KafkaError, now: float) -> None:
        """Raises IllegalStateError: no member of this protocol leads."""
        raise IllegalStateError("the broker assigns in the consumer protocol") from error

    def request_rejoin(self, reason: str, now: float) -> None:
        """A rebalance is the coordinator's to begin, in this protocol; ask it for news at once."""
        logger.debug("%s was asked for a rebalance: %s", self, reason)
        self._hasten()

    def retry(self, now: float) -> None:
        """Join again after a `Fail`, or fail again where that would take another's place."""
        error, self._last_failure = self._last_failure, None
        if self._state is not MemberState.FATAL or self._rejoin:
            return
        if isinstance(error, FencedInstanceIdError):
            self._failure = self._last_failure = error
        else:
            self._rejoin = True
        self._settle(now)

    def leave(self, reason: str, now: float) -> None:
        """Give everything back, and leave; a static member is expected back (as in Java)."""
        self._begin_leaving(reason, now, stay=None)
        self._topics, self._pattern = frozenset(), None
        self._rejoin = False

    def close(self, now: float, stay: bool | None = None) -> None:
        """Give everything back, and end.

        Args:
            stay: A static member says that it will be back within its session, another says
                nothing. None: static members stay.
        """
        self._closing = True
        self._rejoin = False
        self._failure = None
        self._begin_leaving("the consumer is closed", now, stay=stay)

    # commits

    def commit_identity(self) -> CommitIdentity | None:
        """The identity to commit with now; None outside of the group."""
        return self._standing.identity

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """A commit was refused: whether this is a member still, or in which epoch, the coordinator
        tells with the next heartbeat, so ask it at once.

        Upon StaleMemberEpochError commit again, as `commit_identity` says then.
        """
        if isinstance(error, NotCoordinatorForGroupError | GroupCoordinatorNotAvailableError):
            self.on_coordinator_lost(now)
        elif not error.retriable and (sent is None or sent == self.commit_identity()):
            self._hasten()

    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions; its generation is the member epoch."""
        return self._standing.metadata

    # inside: what it wants

    @property
    def _has_to_tell(self) -> bool:
        """True if a heartbeat is wanted, now or later."""
        if self._state is MemberState.PREPARE_LEAVING:
            return self._standing.known and self._standing.inside
        leaves = self._state is MemberState.LEAVING and self._standing.known
        return leaves or self._state in IN_GROUP

    @property
    def _may_search(self) -> bool:
        return self._has_to_tell and not self._pace.coordinator and not self._pace.searching

    @property
    def _may_send(self) -> bool:
        return self._has_to_tell and self._pace.coordinator and not self._standing.asks

    def _send(self, now: float) -> Send:
        self._pace.on_sent(now)
        if self._state is MemberState.LEAVING:
            return self._standing.farewell(now)
        if self._state is MemberState.ACKNOWLEDGING:
            # Whether it arrives or not: if not, the next one says it again.
            self._to(MemberState.STABLE if self._parts.reconciled else MemberState.RECONCILING)
        elif self._state is MemberState.JOINING and self._rebalancing_since is None:
            self._rebalancing_since = now
        return self._standing.heartbeat(self._topics, self._pattern, self._parts.owned, now)

    def _next_callback(self) -> Step | None:
        if self._state in IN_GROUP:
            return self._parts.next_of_change()
        # What could be given back was given back before LEAVING.
        kept = self._state is MemberState.PREPARE_LEAVING and self._standing.inside
        step = self._parts.release(lost=not kept)
        if isinstance(step, Lost):
            self.counters.lost += 1
        return step

    # inside: what heartbeats come to

    def _on_heartbeat(
        self, sent: Sent, response: ConsumerGroupHeartbeatResponse, now: float
    ) -> None:
        standing = self._standing
        if sent.leaves:
            standing.known = False
            return
        # Learnt even by one who leaves meanwhile: in v0 it could not say otherwise who leaves.
        standing.on_named(response.member_id)
        self._pace.on_answered(response.heartbeat_interval_ms / 1000)
        self.counters.heartbeats += 1
        self.counters.last_heartbeat = sent.at
        in_group = self._state in IN_GROUP
        if sent.era != standing.era or not (in_group or self._state is MemberState.PREPARE_LEAVING):
            return
        if response.member_epoch <= 0:
            self._pace.on_failed(now)  # no member yet, whatever that means: ask again, slowly
            return
        standing.epoch = response.member_epoch
        self._last_failure = None
        if not in_group:
            return  # what it is to own now does not matter any more
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            if self._parts.on_target((one.topic_id, n) for one in topics for n in one.partitions):
                self.counters.rebalances += 1
                self.counters.last_rebalance = now
                if self._rebalancing_since is None:
                    self._rebalancing_since = now
        if self._state is MemberState.JOINING:
            self._pace.on_joined()
            self._to(MemberState.STABLE if self._parts.reconciled else MemberState.RECONCILING)
        elif self._state is MemberState.STABLE and not self._parts.reconciled:
            self._to(MemberState.RECONCILING)
        if self._parts.topic_ids:
            self._pace.on_supplied()

    def _on_refused(self, error: KafkaError, sent: Sent, now: float, *, answered: bool) -> None:
        what = verdict(error, answered=answered, joining=sent.joins)
        if what in (Verdict.MOVED, Verdict.LOST):
            self._pace.coordinator = False
        again = what in (Verdict.RETRY, Verdict.MOVED, Verdict.LOST, Verdict.TELL)
        if again:
            self._pace.on_failed(now, at_once=what is Verdict.MOVED)
        if sent.leaves:
            self._standing.on_farewell_failed(again=again)
            return
        self._standing.on_doubt()
        if sent.era != self._standing.era:
            return
        if what is Verdict.TELL:
            if self._state in IN_GROUP and self._last_failure is None:
                self._failure = explain(error, self.options, self._pattern)
                self._last_failure = self._failure
        elif what is Verdict.FENCED:
            if sent.joins:
                self._pace.on_failed(now)  # not in circles at full speed
            self._on_fenced(error)
        elif what is Verdict.FATAL:
            # Whoever may not join, or whose place another took, has nothing to leave.
            if answered and (sent.joins or isinstance(error, FencedInstanceIdError)):
                self._standing.known = False
            self._on_fatal(error)

    def _on_coordinator_not_found(self, error: KafkaError, now: float) -> None:
        self._pace.on_failed(now)
        if self._state is MemberState.LEAVING:
            self._standing.on_farewell_failed(again=error.retriable)
        elif not error.retriable and self._has_to_tell:
            self._on_fatal(error)

    def _on_fenced(self, error: KafkaError) -> None:
        logger.warning("%s lost its membership; rejoining: %s", self, error)
        self._standing.known = False
        if self._state in IN_GROUP:
            self._end_membership()
            self._to(MemberState.FENCED)
        else:
            self._standing.end()

    def _on_fatal(self, error: KafkaError) -> None:
        explained = explain(error, self.options, self._pattern)
        logger.error("%s: %s", self, explained)
        if self._state not in IN_GROUP:
            self._standing.known = False  # it leaves anyway: only it cannot say so
            return
        self._end_membership()
        self._to(MemberState.FATAL)
        self._failure = self._last_failure = explained

    # inside: transitions

    def _to(self, state: MemberState) -> None:
        if state not in FOLLOWING[self._state]:
            raise IllegalStateError(f"{self._state.name} is not followed by {state.name}")
        logger.debug("%s: %s -> %s", self, self._state.name, state.name)
        self._state = state

    def _settle(self, now: float) -> None:
        """Move on where nothing has to be waited for."""
        before = None
        while self._state is not before:
            before = self._state
            empty = self._parts.empty
            if before is MemberState.RECONCILING:
                if self._parts.maybe_begin():
                    self._acknowledge(now)
            elif before is MemberState.LEAVING and not self._standing.known:
                if self._stale or empty:
                    self._end_membership()
                    self._to(MemberState.STALE if self._stale else MemberState.UNSUBSCRIBED)
            elif before is MemberState.PREPARE_LEAVING and empty:
                self._pace.hasten()
                self._to(MemberState.LEAVING)
            elif empty and (
                before is MemberState.FENCED
                or (before in (MemberState.FATAL, MemberState.UNSUBSCRIBED) and self._rejoin)
                or (before is MemberState.STALE and not self._poll.expired(now))
            ):
                self._join()

    def _join(self) -> None:
        self._end_membership()
        self._to(MemberState.JOINING)
        self._standing.begin()
        self._rejoin = False
        self._pace.hasten()

    def _end_membership(self) -> None:
        """Nothing that was so far counts any more, but for what the application still holds."""
        if self._state in IN_GROUP and self._state is not MemberState.STABLE:
            self.counters.failed_rebalances += 1
        self._standing.end()
        self._parts.end()
        self._rebalancing_since = None

    def _acknowledge(self, now: float) -> None:
        self._to(MemberState.ACKNOWLEDGING)
        self._pace.hasten()
        if self._rebalancing_since is not None:
            took = now - self._rebalancing_since
            self._rebalancing_since = None
            self.counters.rebalance_time += took
            self.counters.slowest_rebalance = max(self.counters.slowest_rebalance, took)

    def _hasten(self) -> None:
        if self._standing.inside:
            self._pace.hasten()

    def _on_poll_expired(self) -> None:
        logger.warning(
            "%s leaves the group until the next poll: max_poll_interval_ms was exceeded", self
        )
        self._parts.abandon()
        self._stale = True
        self._standing.plan_farewell(None)
        self._pace.hasten()
        self._to(MemberState.LEAVING)

    def _begin_leaving(self, reason: str, now: float, stay: bool | None) -> None:
        if self._state is MemberState.UNSUBSCRIBED:
            return
        self._stale = False
        self._standing.plan_farewell(stay)
        if self._state not in LEAVES:
            group, member = self.options.group_id, self.member_id
            logger.info("Leaving group %s as member %s: %s", group, member, reason)
            self._parts.abandon()
            self._to(MemberState.PREPARE_LEAVING)
        self._settle(now)

    def __repr__(self) -> str:
        return f"<{self._standing}, {self._state.value}>"


def _assigns_the_impossible(response: ConsumerGroupHeartbeatResponse) -> bool:
    assignment = response.assignment
    return assignment is not None and any(
        number < 0 for topic in assignment.topic_partitions for number in topic.partitions
    )
