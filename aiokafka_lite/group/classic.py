"""Membership in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Sans-IO.

What Java's AbstractCoordinator and ConsumerCoordinator do, as one machine (`membership` tells how
it is driven). KIP-62 (heartbeats in the background, max.poll.interval), KIP-345 (static members),
KIP-394 (member id required), KIP-429 (cooperative rebalancing), KIP-559, KIP-568, KIP-800 and
KIP-814.

=============  ==================================================  ================================
State          What goes on                                        Left for
=============  ==================================================  ================================
UNSUBSCRIBED   nothing is wanted                                   PREPARING: a subscription
PREPARING      partitions are given back (eager: all of them),     JOINING: JoinGroup is sent
               then the coordinator or a backoff is waited for
JOINING        JoinGroup is under way                              ELECTING, SYNCING: answered;
                                                                   PREPARING: refused
ELECTING       the leader's assignment is being computed           SYNCING: it is there
SYNCING        SyncGroup waits to be sent, or is under way         REVOKING, ASSIGNING: answered;
                                                                   PREPARING: refused
REVOKING       cooperative: what goes elsewhere is given back      ASSIGNING: it is
ASSIGNING      the application gets its partitions                 STABLE: it has them
STABLE         heartbeats, and nothing else                        PREPARING: to rejoin
IDLE           it has left: the application does not poll          PREPARING: a poll
FAILED         a lasting error was told                            PREPARING: `retry`
FENCED         another member has this one's instance id           never, but to close
LEAVING        everything is given back, then LeaveGroup           UNSUBSCRIBED, CLOSED
CLOSED         the end
=============  ==================================================  ================================

From PREPARING to STABLE (both included) the member is *active*: it wants a coordinator, and it
goes to IDLE without polls.

Non-obvious:
- Losing the membership (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, a session without an answer) is
  possible in any active state: the generation is gone at once, a new *era* begins, answers to
  requests of an older era count no more, and as soon as no listener is at work what the
  application holds is told as `Lost`. No JoinGroup goes out before that.
- ILLEGAL_GENERATION and the session's end keep the member id, UNKNOWN_MEMBER_ID does not.
- Unlike Java, which only looks for the coordinator then, a member that got no answer for a whole
  session takes its partitions for lost: another one may own them.
- While JoinGroup or SyncGroup is under way the coordinator keeps the member, and its own answer
  would come behind theirs: there are no heartbeats, and the session does not end.
- A rejoin that is wanted on the way to STABLE waits until STABLE: an assignment is always told.
- A member id that comes when nobody wants it any more (JoinGroup was under way as the application
  left) is given back by a LeaveGroup, or the others would wait for a ghost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    IllegalGenerationError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaConfigurationError,
    KafkaError,
    MemberIdRequired,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka_lite.group import classic_requests as requests
from aiokafka_lite.group.classic_requests import HEARTBEAT, JOIN, LEAVE, PROTOCOL_TYPE, SYNC
from aiokafka_lite.group.clocks import PollClock, SessionClock
from aiokafka_lite.group.coordinator import CoordinatorSearch
from aiokafka_lite.group.holdings import Holdings
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assignor,
    CommitIdentity,
    Counters,
    Elect,
    Fail,
    FindCoordinator,
    GroupMember,
    GroupMetadata,
    MembershipOptions,
    RebalanceProtocol,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.group.rebalance import Rebalance
from aiokafka_lite.group.watch import Watch
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatResponse
from aiokafka_lite.protocol.messages.join_group import JoinGroupResponse
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupResponse
from aiokafka_lite.protocol.messages.sync_group import SyncGroupResponse
from aiokafka_lite.structs import TopicPartition

__all__ = ["ClassicMembership", "ClassicState"]

log = logging.getLogger(__name__)

_NOBODY: Final = ""
_NO_GENERATION: Final = -1
_MOVED: Final = (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError)
_NO_MEMBER: Final = (IllegalGenerationError, UnknownMemberIdError)


class ClassicState(Enum):
    """Where a member stands; the module's docstring has the table."""

    UNSUBSCRIBED = "unsubscribed"
    PREPARING = "preparing"
    JOINING = "joining"
    ELECTING = "electing"
    SYNCING = "syncing"
    REVOKING = "revoking"
    ASSIGNING = "assigning"
    STABLE = "stable"
    IDLE = "idle"
    FAILED = "failed"
    FENCED = "fenced"
    LEAVING = "leaving"
    CLOSED = "closed"


S = ClassicState

_ACTIVE: Final = frozenset(
    {S.PREPARING, S.JOINING, S.ELECTING, S.SYNCING, S.REVOKING, S.ASSIGNING, S.STABLE}
)
_SYNCED: Final = frozenset({S.REVOKING, S.ASSIGNING, S.STABLE})
_BEATING: Final = frozenset({S.PREPARING, S.ELECTING, S.SYNCING, S.LEAVING}) | _SYNCED


class _Sent(NamedTuple):
    """A request under way, and who sent it."""

    at: float
    era: int
    member_id: str
    generation: int


class ClassicMembership:
    """A member of a group of the classic protocol.

    Args:
        options: The member's.
        assignors: Whose assignments it understands, the preferred one first.

    Raises:
        KafkaConfigurationError: no assignors, two of one name, or no way of rebalancing that all
            of them have.
    """

    def __init__(self, options: MembershipOptions, assignors: Sequence[Assignor]) -> None:
        self.options = options
        self.rebalance_protocol = common_protocol(assignors)
        self.counters = Counters()
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._state = S.UNSUBSCRIBED
        self._watch = Watch(racks=options.client_rack is not None)
        self._session = SessionClock(options.session_timeout, options.heartbeat_interval)
        self._polls = PollClock(options.max_poll_interval)
        self._coordinator = CoordinatorSearch(options.retry_backoff)
        self._rebalance = Rebalance(options.retry_backoff, self.counters)
        self._holdings = Holdings()

        self._member_id = _NOBODY
        self._generation = _NO_GENERATION
        self._protocol = ""  # the assignor's name, of this generation
        self._era = 0  # counts the memberships that are over

        self._target: frozenset[TopicPartition] = frozenset()  # what the application is to hold
        self._elect: Elect | None = None  # whose result is wanted
        self._electing: Elect | None = None  # whose result is to come
        self._shares: Mapping[str, bytes] = {}  # to be told by SyncGroup

        self._in_flight: dict[str, _Sent] = {}
        self._farewells: list[tuple[str, str]] = []  # (member id, reason) of LeaveGroups to send
        self._failure: KafkaError | None = None  # to be handed out

        self._prepared = False  # what has to be given back before the join is
        self._newcomer = True  # has not joined since it subscribed
        self._leave_reason = ""
        self._departed = False  # in LEAVING: the membership is given up
        self._resubscribed = False  # join again after LEAVING
        self._closing = False
        self._stay = False  # go without telling the coordinator

    @property
    def state(self) -> ClassicState:
        """Where it stands."""
        return self._state

    @property
    def closed(self) -> bool:
        """Whether `close` is through."""
        return self._state is S.CLOSED

    @property
    def member_id(self) -> str:
        """The member's id; "" while there is none."""
        return self._member_id

    @property
    def generation(self) -> int:
        """The generation; -1 outside of the group."""
        return self._generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What the application holds."""
        return self._holdings.partitions

    @property
    def rejoin_needed(self) -> bool:
        """Whether a rebalance is wanted or under way."""
        settled = self._state is S.STABLE and self._rebalance.wanted is None
        return self._state in _ACTIVE and not settled

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics whose changes `on_metadata` has to tell."""
        return self._watch.watched

    def commit_identity(self) -> CommitIdentity | None:
        """As whom to commit; None: this is no member now."""
        if self._generation == _NO_GENERATION:
            return None
        return CommitIdentity(self._member_id, self._generation, self.options.group_instance_id)

    def group_metadata(self) -> GroupMetadata:
        """Who this is, for transactions."""
        member_id, generation, instance_id = self.commit_identity() or CommitIdentity(
            _NOBODY, _NO_GENERATION, self.options.group_instance_id
        )
        return GroupMetadata(self.options.group_id, generation, member_id, instance_id)

    # --- what it wants

    def next_step(self, now: float) -> Step | None:
        """The next thing to do, or None for now. Each is handed out once."""
        self._look_at_clocks(now)
        if self._failure is not None:
            error, self._failure = self._failure, None
            return Fail(error)
        return self._coordinator_step(now) or self._listener_step() or self._join_step(now)

    def _coordinator_step(self, now: float) -> Step | None:
        """What keeps the member known, or makes it forgotten."""
        if not self._coordinator.known:
            self._farewells.clear()  # the session's timeout will do
            wanted = self._state in _ACTIVE and self._coordinator.begin(now)
            return FindCoordinator() if wanted else None
        if self._farewells and LEAVE not in self._in_flight:
            member_id, reason = self._farewells.pop(0)
            step = requests.leave(self.options, member_id, reason, apart=self._waits_in_line)
            return self._sent(step, now)
        if self._beats and now >= self._session.heartbeat_at:
            self._session.on_sent(now)
            step = requests.heartbeat(self.options, self._member_id, self._generation)
            return self._sent(step, now)
        return None

    def _listener_step(self) -> Step | None:
        """What the application has to be told."""
        holdings = self._holdings
        if holdings.busy:
            return None
        if holdings.forfeit:
            self.counters.lost += 1
            return holdings.lose()
        if self._state is S.PREPARING and not self._prepared:
            self._prepared = True
            return self._revoke_before_join()
        if self._state is S.REVOKING:
            return holdings.revoke(holdings.partitions - self._target)
        if self._state is S.ASSIGNING:
            return holdings.assign(self._target)
        if self._state is S.LEAVING and holdings.partitions:
            return holdings.revoke(holdings.partitions)
        return None

    def _revoke_before_join(self) -> Step | None:
        holdings = self._holdings
        if self.rebalance_protocol is RebalanceProtocol.COOPERATIVE:
            gone = frozenset(tp for tp in self.assignment if tp.topic not in self._watch.topics)
            return holdings.revoke(gone) if gone else None
        # As in aiokafka a newcomer's listener is called too, with nothing. After a loss it has
        # been told, and there is nothing more to say.
        if self._newcomer or self._generation != _NO_GENERATION:
            return holdings.revoke(holdings.partitions)
        return None

    def _join_step(self, now: float) -> Step | None:
        """What brings the member into the next generation, or out of the group."""
        if self._holdings.busy:
            return None
        if self._state is S.LEAVING:
            return self._leave_step(now)
        if self._state is S.STABLE and self._rebalance.wanted is not None:
            self._state = S.PREPARING
            self._prepared = False
            return self._listener_step() or self._join_step(now)
        if self._state is S.ELECTING and self._electing is None:
            self._electing = self._elect
            return self._elect
        if not self._coordinator.known:
            return None
        if self._may_join and now >= self._rebalance.retry_at:
            return self._sent(self._join(now), now)
        if self._state is S.SYNCING and SYNC not in self._in_flight:
            member_id, generation, protocol = self._member_id, self._generation, self._protocol
            step = requests.sync(self.options, member_id, generation, protocol, self._shares)
            return self._sent(step, now)
        return None

    def _join(self, now: float) -> Send:
        self._state = S.JOINING
        self._newcomer = False
        self._watch.on_join()
        reason = self._rebalance.begin(now)
        topics, rack = self._watch.topics, self.options.client_rack
        protocols = [
            (name, assignor.subscription(topics, self.assignment, self._generation, rack))
            for name, assignor in self._assignors.items()
        ]
        return requests.join(self.options, self._member_id, protocols, reason)

    def _leave_step(self, now: float) -> Step | None:
        """LEAVING, and everything is given back."""
        if not self._departed:
            self._departed = True
            self._give_up_membership(self._leave_reason, tell=not self._stay)
            if self._farewells:
                return self._coordinator_step(now) or self._leave_step(now)
        joining = self._in_flight.get(JOIN)
        nameless = joining is not None and joining.member_id == _NOBODY and not self._static
        if self._farewells or LEAVE in self._in_flight or (nameless and not self._stay):
            return None  # the end comes with the answer
        if self._closing:
            self._state = S.CLOSED
            return None
        self._watch.joined = None
        self._newcomer = True
        if not self._resubscribed:
            self._watch.forget()
            self._state = S.UNSUBSCRIBED
            return None
        self._rebalance.want("subscribed")
        self._state = S.PREPARING
        return self.next_step(now)

    def _sent(self, step: Send, now: float) -> Send:
        self._in_flight[step.kind] = _Sent(now, self._era, self._member_id, self._generation)
        return step

    @property
    def _waits_in_line(self) -> bool:
        """Whether a request is under way that the coordinator may be long to answer."""
        return JOIN in self._in_flight or SYNC in self._in_flight

    @property
    def _beats(self) -> bool:
        may = self._state in _BEATING and self._generation != _NO_GENERATION
        return may and HEARTBEAT not in self._in_flight and not self._waits_in_line

    @property
    def _may_join(self) -> bool:
        ready = self._state is S.PREPARING and self._prepared and not self._holdings.busy
        leaving = self._farewells or LEAVE in self._in_flight
        return ready and not leaving and not self._waits_in_line

    @property
    def _static(self) -> bool:
        return self.options.group_instance_id is not None

    # --- time

    def next_wakeup(self, now: float) -> float | None:
        """Loop time to ask `next_step` again at the latest; None: only after something is told."""
        times: list[float] = []
        if self._session_counts:
            times.append(self._session.expires_at)
        if self._polls_count and self._polls.expires_at is not None:
            times.append(self._polls.expires_at)
        if self._coordinator.known:
            if self._beats:
                times.append(self._session.heartbeat_at)
            if self._may_join:
                times.append(self._rebalance.retry_at)
        elif self._state in _ACTIVE and not self._coordinator.searching:
            times.append(self._coordinator.next_at)
        return min(times, default=None)

    @property
    def _session_counts(self) -> bool:
        return self._generation != _NO_GENERATION and not self._waits_in_line

    @property
    def _polls_count(self) -> bool:
        return self._state in _ACTIVE and not self._waits_in_line

    def _look_at_clocks(self, now: float) -> None:
        if self._session_counts and now >= self._session.expires_at:
            silence = self.options.session_timeout
            self._lose(f"no heartbeat was answered for {silence:g} s (session.timeout.ms)")
            self._coordinator.on_lost(now)
        if self._polls_count and self._polls.expired(now):
            reason = f"no poll for {self.options.max_poll_interval:g} s (max.poll.interval.ms)"
            log.warning("Leaving group %s until the next poll: %s", self.options.group_id, reason)
            # A static member is not to be missed at once: its session will time out.
            self._give_up_membership(reason, tell=not self._static)
            self._state = S.IDLE

    # --- what is told by the network

    def on_coordinator(self, now: float) -> None:
        """The coordinator is known."""
        self._coordinator.on_found()

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is gone, or was found wrong elsewhere."""
        self._coordinator.on_lost(now)

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """The metadata of topics."""
        self._watch.on_metadata(topics)
        self._look_for_changes()

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A request was answered."""
        sent = self._in_flight.pop(kind)
        match response:
            case JoinGroupResponse():
                self._on_join(response, sent, now)
            case SyncGroupResponse():
                self._on_sync(response, sent, now)
            case HeartbeatResponse(error_code=0):
                self.counters.heartbeats += 1
                self.counters.last_heartbeat = sent.at
                if sent.era == self._era:
                    self._session.on_answered(sent.at)
            case HeartbeatResponse():
                self._on_heartbeat_error(self._error(response.error_code, HEARTBEAT), sent, now)
            case LeaveGroupResponse():
                for code in {response.error_code, *(each.error_code for each in response.members)}:
                    if code:
                        log.info("%s", self._error(code, LEAVE))
            case _:
                raise IllegalStateError(f"no classic member asks for {response!r}")

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A request, or the search for the coordinator, has failed."""
        if kind == FIND_COORDINATOR:
            self._coordinator.on_failed(now)
            if not error.retriable and self._state in _ACTIVE:
                self._fail(error)
            return
        sent = self._in_flight.pop(kind)
        if error.retriable:
            self._coordinator.on_lost(now)
        if kind == HEARTBEAT:
            self._on_heartbeat_error(error, sent, now)
        elif kind == LEAVE:
            log.info("LeaveGroup to group %s: %s", self.options.group_id, error)
        elif self._is_current(kind, sent):
            self._on_join_error(kind, error, now)

    def _on_join(self, response: JoinGroupResponse, sent: _Sent, now: float) -> None:
        named = response.error_code in (0, MemberIdRequired.errno) and sent.member_id == _NOBODY
        if not self._is_current(JOIN, sent):
            if named and not self._static and not self._stay:  # a place that nobody wants
                self._farewells.append((response.member_id, self._leave_reason))
            return
        if response.error_code == MemberIdRequired.errno and named:
            self._member_id = response.member_id
            self._state = S.PREPARING
            return
        if response.error_code:
            self._on_join_error(JOIN, self._error(response.error_code, JOIN), now)
            return
        chosen = response.protocol_name or ""
        if response.protocol_type not in (None, PROTOCOL_TYPE) or chosen not in self._assignors:
            self._on_join_error(JOIN, self._inconsistent(response.protocol_type, chosen), now)
            return
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._protocol = chosen
        self._shares = {}
        self._session.restart(now)
        if response.leader != response.member_id:
            self._state = S.SYNCING
            return
        self._state = S.ELECTING
        members = tuple(
            GroupMember(member.member_id, member.group_instance_id, member.metadata)
            for member in response.members
        )
        self._elect = Elect(chosen, members, response.skip_assignment)

    def _on_sync(self, response: SyncGroupResponse, sent: _Sent, now: float) -> None:
        if not self._is_current(SYNC, sent):
            return
        if response.error_code:
            self._on_join_error(SYNC, self._error(response.error_code, SYNC), now)
            return
        kind, name = response.protocol_type, response.protocol_name
        if kind not in (None, PROTOCOL_TYPE) or name not in (None, self._protocol):
            self._on_join_error(SYNC, self._inconsistent(kind, name or ""), now)
            return
        try:
            assignor = self._assignors[self._protocol]
            partitions = frozenset(assignor.on_assignment(response.assignment, self._generation))
        except KafkaError as error:
            self._on_join_error(SYNC, error, now)
            return
        self._session.restart(now)
        self._on_assignment(partitions, now)

    def _on_assignment(self, partitions: frozenset[TopicPartition], now: float) -> None:
        self._prepared = False
        if not self._watch.accept(partitions):
            # The subscription has changed since, or the leader errs: what was assigned is not
            # taken, and the pauses grow if that goes on.
            self._rebalance.want("received assignment does not match the current subscription")
            self._join_again(now)
            return
        self._rebalance.on_done(now)
        self._target = partitions
        self._state = S.ASSIGNING
        if self.assignment - partitions:
            self._state = S.REVOKING
            self._rebalance.want("need to revoke partitions and re-join")
        self._look_for_changes()

    def _on_join_error(self, what: str, error: KafkaError, now: float) -> None:
        """JoinGroup, the election or SyncGroup was refused, or came to nothing."""
        log.info("%s of group %s: %s", what, self.options.group_id, error)
        self._rebalance.on_failed()
        if isinstance(error, FencedInstanceIdError):
            self._fence(error)
            return
        self._rebalance.want(f"rebalance failed due to {type(error).__name__}")
        if isinstance(error, _NO_MEMBER):
            self._lose(str(error), member_id=isinstance(error, UnknownMemberIdError))
            self._join_again(now, at_once=True)
        elif isinstance(error, RebalanceInProgressError):
            self._join_again(now, at_once=True)
        elif error.retriable:
            if isinstance(error, _MOVED):
                self._coordinator.on_lost(now)
            self._join_again(now)
        else:
            self._fail(error)

    def _on_heartbeat_error(self, error: KafkaError, sent: _Sent, now: float) -> None:
        if isinstance(error, FencedInstanceIdError) and sent.era == self._era:
            self._fence(error)
            return
        if (sent.era, sent.generation) != (self._era, self._generation) or self._waits_in_line:
            return  # of a time past; or the answer to the join tells the same, and more
        if isinstance(error, RebalanceInProgressError):
            # The coordinator waits for this member to join, and keeps it for so long.
            self._session.on_answered(sent.at)
            if self._state in _SYNCED:
                self._rebalance.want("group is already rebalancing")
        elif isinstance(error, _NO_MEMBER):
            self._lose(str(error), member_id=isinstance(error, UnknownMemberIdError))
        elif error.fatal_to_consumer and self._state in _ACTIVE:
            self._fail(error)
        else:
            if isinstance(error, _MOVED):
                self._coordinator.on_lost(now)
            self._session.on_failed(now, self.options.retry_backoff.delay(1))

    def _is_current(self, kind: str, sent: _Sent) -> bool:
        """Whether a JoinGroup or SyncGroup is still what the member waits for."""
        wanted = S.JOINING if kind == JOIN else S.SYNCING
        return sent.era == self._era and self._state is wanted

    def _error(self, code: int, kind: str) -> KafkaError:
        return for_code(code)(f"{kind} to group {self.options.group_id}")

    def _inconsistent(self, kind: str | None, name: str) -> KafkaError:
        return InconsistentGroupProtocolError(
            f"group {self.options.group_id} goes by {kind or PROTOCOL_TYPE} protocol {name!r}, this"
            f" member by {PROTOCOL_TYPE} protocols {', '.join(self._assignors)}"
        )

    # --- what becomes of the member

    def _lose(self, why: str, *, member_id: bool = False) -> None:
        """The membership is over: someone else may own the partitions."""
        log.info("No longer a member of group %s: %s", self.options.group_id, why)
        self._end_era(member_id=member_id)
        if self._state in _ACTIVE:
            self._rebalance.want(why)
            self._state = S.PREPARING

    def _end_era(self, *, member_id: bool) -> None:
        self._era += 1
        self._generation = _NO_GENERATION
        self._prepared = False
        self._elect = None
        self._watch.stop_leading()
        self._holdings.on_membership_over()
        if member_id:
            self._member_id = _NOBODY

    def _give_up_membership(self, reason: str, *, tell: bool) -> None:
        """Be a member no longer, if it is one or is about to become one.

        Args:
            tell: The coordinator, by LeaveGroup. A static member that is about to join needs no
                id for that.
        """
        joining = self._static and JOIN in self._in_flight
        if tell and (self._member_id != _NOBODY or joining):
            self._farewells.append((self._member_id, reason))
        self._rebalance.abandon()
        self._end_era(member_id=True)

    def _join_again(self, now: float, *, at_once: bool = False) -> None:
        self._rebalance.on_refused(now, at_once=at_once)
        self._state = S.PREPARING

    def _fail(self, error: KafkaError) -> None:
        self._rebalance.abandon()
        self._failure = error
        self._state = S.FAILED

    def _fence(self, error: KafkaError) -> None:
        """Another member has the instance id: the id of this one is worth nothing any more."""
        log.error("Fenced out of group %s: %s", self.options.group_id, error)
        self._rebalance.abandon()
        self._end_era(member_id=True)
        if self._state is not S.LEAVING:
            self._failure = error
            self._state = S.FENCED

    def _look_for_changes(self) -> None:
        if self._state in _SYNCED or self._state is S.SYNCING:
            self._rebalance.want(self._watch.why_rejoin())

    # --- what is told by the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """What the application subscribes to.

        Raises:
            KafkaConfigurationError: a pattern for the broker, which the classic protocol lacks.
            IllegalStateError: the member is to be closed.
        """
        if pattern is not None:
            raise KafkaConfigurationError("the classic protocol has no patterns for the broker")
        if self._closing:
            raise IllegalStateError("this member leaves for good")
        self._watch.on_subscription(topics, matches)
        if self._state is S.UNSUBSCRIBED:
            self._rebalance.want("subscribed")
            self._state = S.PREPARING
        elif self._state is S.LEAVING:
            self._resubscribed = True
        self._look_for_changes()

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application asks for records."""
        self._polls.on_poll(now, waiting=waiting)
        if self._state is S.IDLE:
            self._rebalance.want("the application polls again")
            self._state = S.PREPARING

    def on_revoked(self, now: float) -> None:
        """The listener of a `Revoke` is through."""
        self._holdings.on_revoked()
        if self._state is S.REVOKING:
            self._state = S.ASSIGNING

    def on_lost(self, now: float) -> None:
        """The listener of a `Lost` is through."""
        self._holdings.on_lost()

    def on_assigned(self, now: float) -> None:
        """The listener of an `Assign` is through."""
        self._holdings.on_assigned()
        if self._state is S.ASSIGNING:
            self._state = S.STABLE

    def on_elected(
        self, assignments: Mapping[str, bytes], now: float, topics: Collection[str] = ()
    ) -> None:
        """The assignment is computed."""
        if self._take_election():
            self._shares = dict(assignments)
            self._watch.on_elected(topics)
            self._state = S.SYNCING

    def on_election_failed(self, error: KafkaError, now: float) -> None:
        """The assignment could not be computed."""
        if self._take_election():
            self._on_join_error("Election", error, now)

    def _take_election(self) -> bool:
        """Whether the result of an `Elect` is still wanted."""
        if self._electing is None:
            raise IllegalStateError("no Elect is under way")
        elected, self._electing = self._electing, None
        return elected is self._elect and self._state is S.ELECTING

    def request_rejoin(self, reason: str, now: float) -> None:
        """Rebalance."""
        if self._state in _ACTIVE:
            self._rebalance.want(reason)

    def retry(self, now: float) -> None:
        """Go on after a `Fail`; a fenced member cannot."""
        if self._state is S.FAILED:
            self._failure = None
            self._state = S.PREPARING

    def leave(self, reason: str, now: float) -> None:
        """Give everything back and leave; static members leave by silence."""
        if self._state in (S.UNSUBSCRIBED, S.LEAVING, S.FENCED, S.CLOSED):
            self._resubscribed = False
            return
        self._begin_to_leave(reason, stay=self._static)

    def close(self, now: float, stay: bool | None = None) -> None:
        """Give everything back and end."""
        if self._closing:
            return
        self._closing = True
        stay = self._static if stay is None else stay
        if self._state is not S.LEAVING:
            self._begin_to_leave("the consumer is being closed", stay=stay)
        elif not self._departed:
            self._stay = stay

    def _begin_to_leave(self, reason: str, *, stay: bool) -> None:
        self._leave_reason = reason
        self._stay = stay
        self._departed = False
        self._resubscribed = False
        self._rebalance.wanted = None
        self._failure = None
        self._state = S.LEAVING

    # --- commits

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """A commit was refused: the coordinator may know more of this member than it does."""
        mine = self.commit_identity()
        if isinstance(error, _MOVED):
            self._coordinator.on_lost(now)
        elif mine is None or sent not in (None, mine):
            pass  # of a membership that is over anyway
        elif isinstance(error, FencedInstanceIdError):
            self._fence(error)
        elif isinstance(error, RebalanceInProgressError):
            if self._state in _SYNCED:
                self._rebalance.want("offset commit failed since group is already rebalancing")
        elif isinstance(error, _NO_MEMBER) and not self._waits_in_line:
            self._lose(str(error), member_id=isinstance(error, UnknownMemberIdError))


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best way of rebalancing that all assignors have, as in Java.

    Raises:
        KafkaConfigurationError: no assignors, two of one name, or nothing in common.
    """
    names = [assignor.name for assignor in assignors]
    if not names:
        raise KafkaConfigurationError("a member of a group needs an assignor")
    if len(set(names)) < len(names):
        raise KafkaConfigurationError(f"assignors of the same name: {', '.join(names)}")
    common = set.intersection(*(set(assignor.rebalance_protocols) for assignor in assignors))
    if not common:
        raise KafkaConfigurationError(
            f"assignors {', '.join(names)} have no way of rebalancing in common"
        )
    return max(common, key=lambda protocol: protocol.value)
