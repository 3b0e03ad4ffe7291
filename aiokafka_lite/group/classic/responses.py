"""How a classic member handles the coordinator's responses and failures. Sans-IO.

=====================  ========================  ========================  ========================
Error                  JoinGroup, SyncGroup      Heartbeat                 OffsetCommit
=====================  ========================  ========================  ========================
MEMBER_ID_REQUIRED     join with the id          -                         -
UNKNOWN_MEMBER_ID      lost, join without id     lost, join without id     lost, join without id
ILLEGAL_GENERATION     lost, join with the id    lost, join with the id    lost, join with the id
REBALANCE_IN_PROGRESS  join again                rejoin; the session      rejoin
                                                 continues
FENCED_INSTANCE_ID     fenced                    fenced                    fenced
COORDINATOR_NOT_AVA.., find it, join again       find it, beat again       find it
NOT_COORDINATOR
other retriable ones   join again                beat again                -
ends the consumer      failed                    failed                    -
anything else          failed                    beat again                -
=====================  ========================  ========================  ========================

"Lost" applies to the generation in the request; a response to a past generation is ignored. A
rejoin waits for a growing pause, except the first one after a loss or a rebalance. A lost
connection counts as a retriable error, and the coordinator is looked up again; likewise after a
failed authentication. A member with an assignment reports a failed authentication and keeps its
place, because the coordinator keeps the member, too, until the session times out.

Source: AbstractCoordinator and ConsumerCoordinator of Kafka's Java client, 4.x.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    IllegalGenerationError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    MemberIdRequired,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka_lite.group.classic.identity import NOBODY, Sent
from aiokafka_lite.group.classic.member import ClassicMember
from aiokafka_lite.group.classic.requests import HEARTBEAT, JOIN, LEAVE, PROTOCOL_TYPE, SYNC
from aiokafka_lite.group.classic.states import ACTIVE, SYNCED, ClassicState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    CommitIdentity,
    Elect,
    GroupMember,
    MembershipOptions,
    TopicLayout,
)
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatResponse
from aiokafka_lite.protocol.messages.join_group import JoinGroupResponse
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupResponse
from aiokafka_lite.protocol.messages.sync_group import SyncGroupResponse
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

S = ClassicState

_MOVED: Final = (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError)
_NO_MEMBER: Final = (IllegalGenerationError, UnknownMemberIdError)


class ClassicAnswers(ClassicMember):
    """A member that handles responses and errors."""

    def on_coordinator(self, now: float) -> None:
        """The coordinator was found."""
        self._coordinator.on_found()
        self._session.on_coordinator(now)

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is unknown: it is gone, or another request found it wrong."""
        self._coordinator.on_lost(now)

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """New metadata of topics arrived."""
        self._watch.on_metadata(topics)
        self._look_for_changes()

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A request was answered."""
        sent = self._identity.on_outcome(kind)
        match response:
            case JoinGroupResponse():
                self._on_join(response, sent, now)
            case SyncGroupResponse():
                self._on_sync(response, sent, now)
            case HeartbeatResponse(error_code=0):
                self.counters.heartbeats += 1
                self.counters.last_heartbeat = sent.at
                if sent.era == self._identity.era:
                    self._session.on_answered(sent.at)
                    self._reported = False
                    self._rejections = 0
            case HeartbeatResponse():
                self._on_heartbeat_error(self._error(response.error_code, HEARTBEAT), sent, now)
            case LeaveGroupResponse():
                for code in {response.error_code, *(each.error_code for each in response.members)}:
                    if code:
                        self._log_failed(LEAVE, self._error(code, LEAVE))
            case _:
                raise IllegalStateError(f"a classic member never requests {response!r}")

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A request or the coordinator lookup failed."""
        if kind == FIND_COORDINATOR:
            self._coordinator.on_failed(now)
            if isinstance(error, AuthenticationFailedError) and self._state in SYNCED:
                self._report(error)
            elif not error.retriable and self._state in ACTIVE:
                self._fail(error)
            return
        sent = self._identity.on_outcome(kind)
        if error.retriable or isinstance(error, AuthenticationFailedError):
            self._coordinator.on_lost(now)  # the group may have moved to another broker
        if kind == HEARTBEAT:
            self._on_heartbeat_error(error, sent, now)
        elif kind == LEAVE:
            self._log_failed(LEAVE, error)
        elif self._is_current(kind, sent):
            self._on_join_error(kind, error, now)

    def _on_join(self, response: JoinGroupResponse, sent: Sent, now: float) -> None:
        named = response.error_code in (0, MemberIdRequired.errno) and sent.member_id == NOBODY
        if not self._is_current(JOIN, sent):
            if named and not self._identity.static and not self._stay:
                self._identity.decline(response.member_id, self._leave_reason)
            return
        if response.error_code == MemberIdRequired.errno and named:
            self._identity.member_id = response.member_id
            self._state = S.PREPARING
            return
        if response.error_code:
            self._on_join_error(JOIN, self._error(response.error_code, JOIN), now)
            return
        chosen = response.protocol_name or ""
        # Even if the protocol does not match: the member is in the group and must leave it.
        self._identity.take(response.member_id, response.generation_id, chosen)
        self._session.restart(now)
        if response.protocol_type not in (None, PROTOCOL_TYPE) or chosen not in self._assignors:
            self._on_join_error(JOIN, self._inconsistent(response.protocol_type, chosen), now)
            return
        self._shares = {}
        if response.leader != response.member_id:
            self._state = S.SYNCING
            return
        self._state = S.ELECTING
        members = tuple(
            GroupMember(member.member_id, member.group_instance_id, member.metadata)
            for member in response.members
        )
        self._elect = Elect(chosen, members, response.skip_assignment)

    def _on_sync(self, response: SyncGroupResponse, sent: Sent, now: float) -> None:
        if not self._is_current(SYNC, sent):
            return
        if response.error_code:
            self._on_join_error(SYNC, self._error(response.error_code, SYNC), now)
            return
        kind, name = response.protocol_type, response.protocol_name
        if kind not in (None, PROTOCOL_TYPE) or name not in (None, self._identity.protocol):
            self._on_join_error(SYNC, self._inconsistent(kind, name or ""), now)
            return
        try:
            assignor = self._assignors[self._identity.protocol]
            partitions = frozenset(assignor.on_assignment(response.assignment, self.generation))
        except KafkaError as error:
            self._on_join_error(SYNC, error, now)
            return
        except Exception as error:  # of an application's assignor
            failure = assignor_failed(self.options, self._identity.protocol, error)
            self._on_join_error(SYNC, failure, now)
            return
        self._session.restart(now)
        self._on_assignment(partitions, now)

    def _on_assignment(self, partitions: frozenset[TopicPartition], now: float) -> None:
        self._prepared = False
        if not self._watch.accept(partitions):
            # The subscription changed meanwhile, or the leader has a bug: the assignment is
            # rejected, and the pauses grow if that repeats.
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
        """JoinGroup, the election or SyncGroup failed."""
        self._log_failed(what, error)
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

    def _on_heartbeat_error(self, error: KafkaError, sent: Sent, now: float) -> None:
        if isinstance(error, FencedInstanceIdError) and sent.era == self._identity.era:
            self._fence(error)
            return
        if (sent.era, sent.generation) != (self._identity.era, self.generation):
            return  # of a past generation
        if self._identity.waits_in_line:
            return  # the join response contains the same, and more
        if isinstance(error, RebalanceInProgressError):
            # The coordinator waits for this member to join, and keeps its session until then.
            self._session.on_answered(sent.at)
            if self._state in SYNCED:
                self._rebalance.want("group is already rebalancing")
        elif isinstance(error, _NO_MEMBER):
            self._lose(str(error), member_id=isinstance(error, UnknownMemberIdError))
        elif isinstance(error, AuthenticationFailedError) and self._state in SYNCED:
            self._report(error)
            self._rejections += 1
            self._session.on_failed(now, self.options.retry_backoff.delay(self._rejections))
        elif error.fatal_to_consumer and self._state in ACTIVE:
            self._fail(error)
        else:
            if isinstance(error, _MOVED):
                self._coordinator.on_lost(now)
            self._session.on_failed(now, self.options.retry_backoff.delay(1))

    def _log_failed(self, what: str, error: KafkaError) -> None:
        client_id, group_id = self.options.client_id, self.options.group_id
        text = "%s: %s of group %s failed: %s"
        log.info(text, client_id, what, group_id, error, extra=self.options.log_fields)

    def _is_current(self, kind: str, sent: Sent) -> bool:
        """True if the member still waits for this JoinGroup or SyncGroup."""
        wanted = S.JOINING if kind == JOIN else S.SYNCING
        return sent.era == self._identity.era and self._state is wanted

    def _error(self, code: int, kind: str) -> KafkaError:
        text = f"{kind} to group {self.options.group_id}"
        if code == InvalidSessionTimeoutError.errno:
            text += (
                f": session_timeout_ms={self.options.session_timeout * 1000:.0f} is not between the"
                " brokers' group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        return for_code(code)(text)

    def _inconsistent(self, kind: str | None, name: str) -> KafkaError:
        return InconsistentGroupProtocolError(
            f"group {self.options.group_id} uses {kind or PROTOCOL_TYPE} protocol {name!r}, but "
            f"this member supports {PROTOCOL_TYPE} protocols {', '.join(self._assignors)}"
        )

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """The coordinator rejected a commit, which may show a change of this membership."""
        mine = self.commit_identity()
        if isinstance(error, _MOVED):
            self._coordinator.on_lost(now)
        elif mine is None or sent not in (None, mine):
            pass  # of a membership that has ended
        elif isinstance(error, FencedInstanceIdError):
            self._fence(error)
        elif isinstance(error, RebalanceInProgressError):
            if self._state in SYNCED:
                self._rebalance.want("offset commit failed since group is already rebalancing")
        elif isinstance(error, _NO_MEMBER) and not self._identity.waits_in_line:
            self._lose(str(error), member_id=isinstance(error, UnknownMemberIdError))


def assignor_failed(options: MembershipOptions, name: str, error: Exception) -> KafkaError:
    """The error to raise when the application's own assignor fails."""
    text = "%s: the assignor %s of group %s failed"
    extra = options.log_fields
    log.error(text, options.client_id, name, options.group_id, exc_info=error, extra=extra)
    failure = KafkaError(f"the assignor {name!r} failed: {error!r}")
    failure.__cause__ = error
    return failure
