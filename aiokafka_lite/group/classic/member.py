"""A classic member's state, and the events that can end its membership at any time: loss, failure,
fencing, giving up. Sans-IO; see `machine`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.assignors.interface import choose_rebalance_protocol
from aiokafka_lite.group.classic.coordinator_search import CoordinatorSearch
from aiokafka_lite.group.classic.identity import MemberIdentity
from aiokafka_lite.group.classic.owned_partitions import Holdings
from aiokafka_lite.group.classic.rebalance_attempts import Rebalance
from aiokafka_lite.group.classic.rejoin_triggers import Watch
from aiokafka_lite.group.classic.states import ACTIVE, SYNCED, ClassicState
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.group.membership import (
    Assignor,
    CommitIdentity,
    Counters,
    Elect,
    MembershipOptions,
)
from aiokafka_lite.group.session_clocks import PollClock, SessionClock
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

S = ClassicState


class ClassicMember:
    """The state of a member of a group of the classic protocol.

    Args:
        options: Options of the member.
        assignors: The supported assignors, the preferred one first.

    Raises:
        KafkaConfigurationError: There are no assignors, two share a name, or they have no rebalance
            protocol in common.
    """

    def __init__(self, options: MembershipOptions, assignors: Sequence[Assignor]) -> None:
        self.options = options
        self.rebalance_protocol = choose_rebalance_protocol(assignors)
        self.counters = Counters()
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._state = S.UNSUBSCRIBED
        self._watch = Watch(racks=options.client_rack is not None)
        self._session = SessionClock(options.session_timeout, options.heartbeat_interval)
        self._polls = PollClock(options.max_poll_interval)
        self._coordinator = CoordinatorSearch(options.retry_backoff)
        self._rebalance = Rebalance(options.retry_backoff, self.counters)
        self._holdings = Holdings()
        self._identity = MemberIdentity(options)

        self._target: frozenset[TopicPartition] = frozenset()  # what the application must hold
        self._elect: Elect | None = None  # the election whose result is needed
        self._electing: Elect | None = None  # the election in progress
        self._shares: Mapping[str, bytes] = {}  # to send with SyncGroup

        self._failure: KafkaError | None = None  # to return as a `Fail`
        self._reported = False  # since `retry`: returned a `Fail` that keeps the membership
        self._rejections = 0  # failed authentications since the last answered heartbeat

        self._prepared = False  # the revocations before the join are done
        self._newcomer = True  # has not joined since it subscribed
        self._leave_reason = ""
        self._departed = False  # in LEAVING: the membership is abandoned
        self._resubscribed = False  # join again after LEAVING
        self._closing = False
        self._stay = False  # leave without a LeaveGroup

    @property
    def pending_failure(self) -> KafkaError | None:
        return self._failure

    @property
    def state(self) -> ClassicState:
        """The current state."""
        return self._state

    @property
    def closed(self) -> bool:
        """True once `close` has completed."""
        return self._state is S.CLOSED

    @property
    def member_id(self) -> str:
        """The member id; "" if there is none."""
        return self._identity.member_id

    @property
    def generation(self) -> int:
        """The generation; -1 outside of the group."""
        return self._identity.generation

    @property
    def protocol(self) -> str:
        """Name of the assignor of the generation; "" before the first."""
        return self._identity.protocol

    @property
    def broker_assigns(self) -> bool:
        """False: the group's leader computes the assignment."""
        return False

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the application holds."""
        return self._holdings.partitions

    @property
    def rejoin_needed(self) -> bool:
        """True if a rebalance is needed or in progress."""
        settled = self._state is S.STABLE and self._rebalance.wanted is None
        return self._state in ACTIVE and not settled

    @property
    def leaving(self) -> bool:
        """True while `leave` or `close` is in progress."""
        return self._state is S.LEAVING

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics that `on_metadata` must report."""
        return self._watch.watched

    @property
    def unresolved_topic_ids(self) -> frozenset[UUID]:
        """Always empty: this protocol uses topic names."""
        return frozenset()

    def commit_identity(self) -> CommitIdentity | None:
        """The identity to commit with; None: not a member now."""
        return self._identity.identity

    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions."""
        return self._identity.metadata

    # --- the end of the membership

    def _lose(self, why: str, *, member_id: bool = False) -> None:
        """The membership is lost: other members may own the partitions."""
        options = self.options
        text = "%s: no longer a member of group %s: %s"
        log.info(text, options.client_id, options.group_id, why, extra=options.log_fields)
        self._end_era(member_id=member_id)
        if self._state in ACTIVE:
            self._rebalance.want(why)
            self._state = S.PREPARING

    def _end_era(self, *, member_id: bool) -> None:
        self._identity.end(member_id=member_id)
        self._on_place_over()

    def _on_place_over(self) -> None:
        self._prepared = False
        self._elect = None
        self._watch.stop_leading()
        self._holdings.on_membership_over()

    def _give_up(self, reason: str, *, leave: bool) -> None:
        """Abandon the membership."""
        self._rebalance.abandon()
        self._identity.give_up(reason, leave=leave)
        self._on_place_over()

    def _join_again(self, now: float, *, at_once: bool = False) -> None:
        self._rebalance.on_refused(now, at_once=at_once)
        self._state = S.PREPARING

    def _fail(self, error: KafkaError) -> None:
        self._rebalance.abandon()
        self._failure = error
        self._state = S.FAILED

    def _report(self, error: KafkaError) -> None:
        """Let a read raise an error; the member keeps its place, as in Java."""
        if not self._reported:
            self._reported = True
            self._failure = error

    def _fence(self, error: KafkaError) -> None:
        """Another member has the instance id: this one's member id is no longer valid."""
        options = self.options
        text = "%s: fenced out of group %s: %s"
        log.error(text, options.client_id, options.group_id, error, extra=options.log_fields)
        self._rebalance.abandon()
        self._end_era(member_id=True)
        if self._state is not S.LEAVING:
            self._failure = error
            self._state = S.FENCED

    def _look_for_changes(self) -> None:
        if self._state in SYNCED or self._state is S.SYNCING:
            self._rebalance.want(self._watch.why_rejoin())
