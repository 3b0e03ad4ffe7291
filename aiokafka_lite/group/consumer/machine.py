"""A member of a group of the consumer protocol, where the broker assigns (KIP-848). Sans-IO.

The member's heartbeats carry its subscription and the partitions it owns; the coordinator answers
with its target assignment. `Heartbeats` builds the requests, `Reconciliation` carries out the
target, `reaction` classifies errors, `Pace` schedules heartbeats, and `member` holds the state and
its transitions; this machine combines them.

=================  ================================================================================
State              Followed by
=================  ================================================================================
UNSUBSCRIBED       JOINING (a subscription)
JOINING            RECONCILING (a target arrived); STABLE (the response has none)
RECONCILING        ACKNOWLEDGING (partitions were revoked and assigned, or need not change)
ACKNOWLEDGING      once the heartbeat is sent: STABLE; RECONCILING if there is a newer target
STABLE             RECONCILING (a new target arrived)
any of these four  FENCED; PREPARE_LEAVING (leave, close); LEAVING (poll timeout); FATAL
FENCED             JOINING (the listener for the lost partitions returned); PREPARE_LEAVING
PREPARE_LEAVING    LEAVING (all partitions are revoked)
LEAVING            UNSUBSCRIBED; STALE (the application did not poll)
STALE              JOINING (the application polls again); PREPARE_LEAVING
FATAL              JOINING (`retry`, or another subscription); PREPARE_LEAVING
=================  ================================================================================

Non-obvious:
- One heartbeat is in flight at a time. One that acknowledges, joins or leaves waits for the answer
  to the one before, not for the interval.
- Heartbeats report the partitions that were reconciled last, which change when the listener has
  completed, not while it runs. Heartbeats continue meanwhile, so a slow listener loses the
  membership only after the rebalance timeout, which the coordinator enforces.
- A newer target that arrives during a reconciliation waits for its end, as in Java: each change is
  acknowledged before the next begins.
- A response counts only for the membership that sent the request. After a fence, or an error that
  ended the membership, a new era begins, and an older response only frees the slot in flight.
- A member that leaves sends a heartbeat whenever the coordinator may have it, even if it never got
  a response: with a client-made member id, a join may have arrived.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    IllegalStateError,
    KafkaError,
    KafkaProtocolError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka_lite.group.consumer.heartbeat_errors import Reaction, reaction
from aiokafka_lite.group.consumer.identity import Sent
from aiokafka_lite.group.consumer.member import ConsumerMember
from aiokafka_lite.group.consumer.states import ENDED, IN_GROUP, MemberState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    CommitIdentity,
    Fail,
    FindCoordinator,
    Lost,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:  # imported only with a share group
    from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

    HeartbeatResponse: TypeAlias = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse

__all__ = ["ConsumerMembership", "MemberState"]

logger: Final = logging.getLogger(__name__)


class ConsumerMembership(ConsumerMember):
    """A member of a group of the consumer protocol; implements `membership.Membership`.

    Args:
        options: Options of the member. The group's configuration replaces `session_timeout` and
            `heartbeat_interval`.
        new_uuid: Makes the member id, which the member keeps for life.
        heartbeats: Makes the requests, given the options and the member id.
    """

    _response_class: ClassVar[type[HeartbeatResponse]] = ConsumerGroupHeartbeatResponse

    # steps

    def next_step(self, now: float) -> Step | None:
        """The next step, or None for now. Each step is returned once."""
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
        """Latest loop time to call `next_step` again; None: only after the next input."""
        times = []
        if self._may_search:
            times.append(self._pace.search_at)
        elif self._may_send:
            times.append(self._pace.heartbeat_at)
        if self._state in IN_GROUP and self._poll.expires_at is not None:
            times.append(self._poll.expires_at)
        return min(times) if times else None

    # inputs from the network

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A heartbeat was answered."""
        if not isinstance(response, self._response_class):
            raise IllegalStateError(f"not a response to a heartbeat: {response!r}")
        sent = self._identity.on_outcome(kind)
        if response.error_code:
            error = for_code(response.error_code)(response.error_message or "")
            self._on_refused(error, sent, now, answered=True)
        elif _assigns_the_impossible(response):
            impossible = KafkaProtocolError("the coordinator assigned a negative partition")
            self._on_refused(impossible, sent, now, answered=False)
        else:
            self._on_heartbeat(sent, response, now)
        self._settle(now)

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A heartbeat or the coordinator lookup failed."""
        if kind == FIND_COORDINATOR:
            self._pace.searching = False
            self._on_coordinator_not_found(error, now)
        else:
            self._on_refused(error, self._identity.on_outcome(kind), now, answered=False)
        self._settle(now)

    def on_coordinator(self, now: float) -> None:
        """The coordinator was found."""
        self._pace.coordinator = True
        self._pace.searching = False

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is gone or has changed; the membership is not affected."""
        self._pace.coordinator = False

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """New metadata of topics arrived, with the names of assigned topics."""
        self._parts.on_metadata(topics)
        self._settle(now)

    # inputs from the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """The application subscribes: join, or send the new subscription at once.

        Args:
            topics: Names; for a pattern that the client resolves, the current matches.
            pattern: A pattern that the broker resolves (RE2).
            matches: Not used.
        """
        if self._closing:
            raise IllegalStateError("the membership is closed or closing")
        changed = (self._topics, self._pattern) != (frozenset(topics), pattern)
        self._topics, self._pattern = frozenset(topics), pattern
        if self._state is MemberState.UNSUBSCRIBED:
            self._join()
        elif self._state in ENDED:
            # With the same subscription, it would only fail again.
            self._rejoin = self._rejoin or changed or self._state is not MemberState.FATAL
        elif changed:
            self._pace.hasten()
        self._settle(now)

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application polls for records, or waits for them."""
        self._poll.on_poll(now, waiting=waiting)
        if self._state is not MemberState.STABLE:  # of a stable member, a read changes nothing
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
        """The listener of an `Assign` has completed: the change is done and is acknowledged."""
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
        """Send a heartbeat at once: in this protocol only the coordinator starts a rebalance."""
        logger.debug("%s: a rebalance was requested: %s", self, reason)
        self._hasten()

    def retry(self, now: float) -> None:
        """Rejoin after a `Fail`, or fail again if rejoining would fence another member."""
        error, self._last_failure = self._last_failure, None
        if self._state is not MemberState.FATAL or self._rejoin:
            return
        if isinstance(error, FencedInstanceIdError):
            self._failure = self._last_failure = error
        else:
            self._rejoin = True
        self._settle(now)

    def leave(self, reason: str, now: float) -> None:
        """Revoke all partitions and leave; a static member is expected back (as in Java)."""
        self._begin_leaving(reason, now, stay=None)
        self._topics, self._pattern = frozenset(), None
        self._rejoin = False
        # Only for this subscription: a later one reports its own failures, even the same ones.
        self._failure = self._last_failure = None

    def close(self, now: float, stay: bool | None = None) -> None:
        """Revoke all partitions and end.

        Args:
            stay: Stay in the group: a static member announces that it will return within its
                session, another member sends nothing. None: static members stay.
        """
        self._closing = True
        self._rejoin = False
        self._failure = None
        self._begin_leaving("the consumer is closed", now, stay=stay)

    # commits

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """The coordinator rejected a commit: send a heartbeat at once, because its response shows
        the membership and its epoch.

        After StaleMemberEpochError, commit again with the new `commit_identity`.
        """
        if isinstance(error, NotCoordinatorForGroupError | GroupCoordinatorNotAvailableError):
            self.on_coordinator_lost(now)
        elif not error.retriable and (sent is None or sent == self.commit_identity()):
            self._hasten()

    # internal: steps

    @property
    def _must_heartbeat(self) -> bool:
        """True if a heartbeat is needed, now or later."""
        if self._state is MemberState.PREPARE_LEAVING:
            return self._identity.known and self._identity.inside
        leaves = self._state is MemberState.LEAVING and self._identity.known
        return leaves or self._state in IN_GROUP

    @property
    def _may_search(self) -> bool:
        return self._must_heartbeat and not self._pace.coordinator and not self._pace.searching

    @property
    def _may_send(self) -> bool:
        return self._must_heartbeat and self._pace.coordinator and not self._identity.asks

    def _send(self, now: float) -> Send:
        self._pace.on_sent(now)
        if self._state is MemberState.LEAVING:
            return self._identity.farewell(now)
        if self._state is MemberState.ACKNOWLEDGING:
            # Even if it does not arrive: the next one acknowledges again.
            self._to(MemberState.STABLE if self._parts.reconciled else MemberState.RECONCILING)
        elif self._state is MemberState.JOINING and self._rebalancing_since is None:
            self._rebalancing_since = now
        return self._identity.heartbeat(self._topics, self._pattern, self._parts.owned, now)

    def _next_callback(self) -> Step | None:
        if self._state in IN_GROUP:
            return self._parts.next_of_change()
        # All partitions that could be revoked were revoked before LEAVING.
        kept = self._state is MemberState.PREPARE_LEAVING and self._identity.inside
        step = self._parts.release(lost=not kept)
        if isinstance(step, Lost):
            self.counters.lost += 1
        return step

    # internal: outcomes of heartbeats

    def _on_heartbeat(self, sent: Sent, response: HeartbeatResponse, now: float) -> None:
        standing = self._identity
        if sent.leaves:
            standing.known = False
            return
        # Also while leaving: in v0 the member needs this id to leave.
        standing.on_named(response.member_id)
        self._pace.on_answered(response.heartbeat_interval_ms / 1000, joins=sent.joins)
        self.counters.heartbeats += 1
        self.counters.last_heartbeat = sent.at
        in_group = self._state in IN_GROUP
        if sent.era != standing.era or not (in_group or self._state is MemberState.PREPARE_LEAVING):
            return
        if response.member_epoch <= 0:
            self._pace.on_failed(now)  # an epoch of a non-member: retry slowly
            return
        standing.epoch = response.member_epoch
        self._last_failure = None
        if not in_group:
            return  # its target no longer matters
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
        what = reaction(error, answered=answered, joining=sent.joins)
        rejected = not answered and isinstance(error, AuthenticationFailedError)
        if rejected or what in (Reaction.MOVED, Reaction.LOST):
            self._pace.coordinator = False  # the group may have moved to another broker
        again = what in (Reaction.RETRY, Reaction.MOVED, Reaction.LOST, Reaction.REPORT)
        if again:
            self._pace.on_failed(now, at_once=what is Reaction.MOVED)
        if sent.leaves:
            self._identity.on_farewell_failed(again=again)
            return
        self._identity.on_doubt()
        if sent.era != self._identity.era:
            return
        if what is Reaction.REPORT:
            self._report(error)
        elif what is Reaction.FENCED:
            self._pace.on_fenced(now, joins=sent.joins)
            self._on_fenced(error)
        elif what is Reaction.FATAL:
            # A member that may not join, or was replaced by another, has nothing to leave.
            if answered and (sent.joins or isinstance(error, FencedInstanceIdError)):
                self._identity.known = False
            self._on_fatal(error)

    def _on_coordinator_not_found(self, error: KafkaError, now: float) -> None:
        self._pace.on_failed(now)
        if self._state is MemberState.LEAVING:
            self._identity.on_farewell_failed(again=error.retriable)
        elif isinstance(error, AuthenticationFailedError) and self._identity.inside:
            self._report(error)
        elif not error.retriable and self._must_heartbeat:
            self._on_fatal(error)

    def _report(self, error: KafkaError) -> None:
        """Let a read raise an error; the member keeps its place."""
        if self._state in IN_GROUP and self._last_failure is None:
            self._failure = self._last_failure = self._explain(error)


def _assigns_the_impossible(response: HeartbeatResponse) -> bool:
    assignment = response.assignment
    return assignment is not None and any(
        number < 0 for topic in assignment.topic_partitions for number in topic.partitions
    )
