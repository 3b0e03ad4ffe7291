"""A group in the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup). No I/O.

A rebalance goes: PreparingRebalance, until every member has joined or the longest rebalance
timeout is over; CompletingRebalance, until the leader has shared out; Stable. Answers that wait
are ``Reply``s; what has a time limit is a timer of the cluster's clock.

Non-obvious, and as in Kafka:
- whoever closes the connection while its join waits is still in the group: a broker does not
  look at a connection that waits for an answer. A new member is then dropped after five minutes,
  another by its session;
- a first member does not wait for all, but for ``group.initial.rebalance.delay.ms``, prolonged by
  each member who comes in that time; here that is 0 by default, so it is alone at first;
- a rebalance that nobody joins is never completed: it is looked at again after another timeout.
"""

from collections.abc import Iterable
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MemberIdRequired,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.testing.clock import Timer
from aiokafka_lite.testing.groups.classic_roster import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicMember,
    ClassicRoster,
    MemberProtocol,
)
from aiokafka_lite.testing.groups.classic_snapshot import Snapshot
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.group import NO_MEMBER, Joiner, refused_join
from aiokafka_lite.testing.groups.offsets import GroupOffsets
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["ClassicGroup"]

NEW_MEMBER_TIMEOUT: Final = 300.0  # seconds that a first join may wait


class ClassicGroup(ClassicRoster):
    """A group and its rebalances; owns their timers."""

    def __init__(self, group_id: str, offsets: GroupOffsets, environment: Environment) -> None:
        super().__init__(group_id, offsets, environment)
        self._join_deadline: Timer | None = None
        self._sync_deadline: Timer | None = None
        self._member_came = False  # while the initial rebalance is delayed
        self._persisted = Snapshot.of(self)

    # JoinGroup

    def on_join(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        try:
            if self._state == DEAD:
                raise GroupCoordinatorNotAvailableError("the group is dead")
            if not self._has_room_for(request.member_id):
                self.remove(request.member_id)
                request.member_id = NO_MEMBER
                raise GroupMaxSizeReachedError("the group has as many members as it may have")
            if not self.supports(request.protocol_type, (each.name for each in request.protocols)):
                raise InconsistentGroupProtocolError("the members of now support nothing of that")
            if request.member_id == NO_MEMBER:
                self._join_newcomer(request, joiner, reply)
            elif request.member_id in self.pending_members:
                if request.group_instance_id is not None:
                    raise UnknownError("a member that was told to come back cannot be static")
                self._add(request.member_id, request, joiner, reply)
            else:
                self._rejoin(request, reply)
        except BrokerResponseError as error:
            reply.send(refused_join(error.errno, request.member_id))

    def _has_room_for(self, member_id: str) -> bool:
        limit = self.environment.config("group.max.size")
        member = self.members.get(member_id)
        if self._state == EMPTY:
            return True
        if self._state == PREPARING_REBALANCE:  # those who join late are left out
            joining = [each for each in self.members.values() if each.joining is not None]
            return member in joining or len(joining) < limit
        return member is not None or len(self.members) < limit

    def _join_newcomer(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        instance_id = request.group_instance_id
        prefix = joiner.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self.environment.new_uuid()}"
        if instance_id is not None and instance_id in self.static_members:
            self._replace_static(
                self.static_members[instance_id], member_id, request, joiner, reply
            )
        elif instance_id is None and joiner.knows_member_id:
            self.pending_members[member_id] = self.environment.clock.call_later(
                request.session_timeout_ms / 1000, lambda: self._on_pending_expired(member_id)
            )
            reply.send(refused_join(MemberIdRequired.errno, member_id))
        else:
            self._add(member_id, request, joiner, reply)

    def _add(
        self,
        member_id: str,
        request: JoinGroupRequest,
        joiner: Joiner,
        reply: Reply[JoinGroupResponse],
    ) -> None:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            joiner.client_id,
            joiner.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            _protocols(request),
        )
        member.is_new = True
        member.joining = reply
        if self._state == PREPARING_REBALANCE and self._previous_state == EMPTY:
            self._member_came = True
        self.add(member)
        self._expect(member, NEW_MEMBER_TIMEOUT)
        self._rebalance()

    def _rejoin(self, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        member = self.check_member(request.member_id, request.group_instance_id)
        changed = member.protocols != _protocols(request)
        if self._state == EMPTY:
            raise UnknownMemberIdError("the group is empty")
        leads_anew = self._state == STABLE and member.member_id == self.leader
        if self._state == PREPARING_REBALANCE or changed or leads_anew:
            self._update(member, request, reply)
            self._rebalance()
        else:  # it may have missed the answer to its join
            reply.send(self._joined(member))

    def _update(
        self, member: ClassicMember, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]
    ) -> None:
        member.protocols = _protocols(request)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.joining = reply

    def _replace_static(
        self,
        old_member_id: str,
        member_id: str,
        request: JoinGroupRequest,
        joiner: Joiner,
        reply: Reply[JoinGroupResponse],
    ) -> None:
        """A static member is back, after a restart perhaps: whoever still uses its old id is
        fenced, and nobody rebalances if all can stay as it is."""
        led_before = self.leader
        member = self.members[old_member_id]
        fenced = FencedInstanceIdError.errno
        self._answer_join(member, refused_join(fenced, old_member_id))
        self._answer_sync(member, SyncGroupResponse(error_code=fenced))
        self.rename_static(member, member_id)
        member.is_new = False
        self._expect(member)  # still for the timeout of before, as in Kafka
        self._update(member, request, reply)
        if self._state == STABLE:
            if self.select_protocol() != self.protocol_name:
                self._rebalance()
                return
            self._persist()
            leads = self.leader == member_id
            answer = self._joined(member)
            if joiner.skips_assignment:
                answer.skip_assignment = leads
            else:  # by the old leader's id it sees that it must not share out
                answer.leader = led_before or ""
                answer.members = []
            self._answer_join(member, answer)
        elif self._state == COMPLETING_REBALANCE:
            self._prepare_rebalance()  # the leader may be sharing out to the old id
        else:
            self._maybe_complete_join()

    def _joined(self, member: ClassicMember) -> JoinGroupResponse:
        """What a member of this generation is told; only the leader needs to know the others."""
        leads = member.member_id == self.leader
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(
                    each.member_id, each.instance_id, each.metadata(self.protocol_name)
                )
                for each in self.members.values()
                if leads
            ],
        )

    # The rebalance

    def _rebalance(self) -> None:
        """Begin to rebalance, or go on with what has begun."""
        if self._state == PREPARING_REBALANCE:
            self._maybe_complete_join()
        else:
            self._prepare_rebalance()

    def _prepare_rebalance(self) -> None:
        if self._state == COMPLETING_REBALANCE:
            self._share_out({}, RebalanceInProgressError.errno)
        self._forget_syncs()
        is_initial = self._state == EMPTY
        self.enter(PREPARING_REBALANCE)
        if is_initial:
            delay = self.environment.config("group.initial.rebalance.delay.ms") / 1000
            self._delay_first(delay, max(self.rebalance_timeout - delay, 0.0))
        elif self.have_all_joined:
            self._complete_join()
        else:
            self._set_join_deadline(self.rebalance_timeout)

    def _delay_first(self, delay: float, remaining: float) -> None:
        """Give the first members of a group time to come, as long as there come more."""

        def look() -> None:
            if self._member_came and remaining:
                self._member_came = False
                self._delay_first(min(delay, remaining), max(remaining - delay, 0.0))
            else:
                self._complete_join()

        if delay:
            self._join_deadline = self.environment.clock.call_later(delay, look)
        else:
            look()

    def _maybe_complete_join(self) -> None:
        if (
            self._state == PREPARING_REBALANCE
            and self._previous_state != EMPTY  # the delay has to end first
            and self.have_all_joined
        ):
            self._complete_join()

    def _set_join_deadline(self, delay: float) -> None:
        self._join_deadline = self.environment.clock.call_later(delay, self._complete_join)

    def _cancel_join_deadline(self) -> None:
        if self._join_deadline is not None:
            self._join_deadline.cancel()
            self._join_deadline = None

    def _complete_join(self) -> None:
        """Begin the next generation with those who have joined, and the static ones."""
        self._cancel_join_deadline()
        self._member_came = False
        for late in [each for each in self.members.values() if each.joining is None]:
            if late.instance_id is None:
                self.remove(late.member_id)
        if self.members and not self.elect_joined_leader():
            self._set_join_deadline(self.rebalance_timeout)
            return
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.read_subscriptions()
        if not self.members:
            self.enter(EMPTY)
            self._persist()
            return
        self.enter(COMPLETING_REBALANCE)
        for member in self.members.values():
            self._answer_join(member, self._joined(member))
            self._expect(member)
            member.is_new = False
            self.pending_syncs.add(member.member_id)
        self._sync_deadline = self.environment.clock.call_later(
            self.rebalance_timeout, self._on_sync_deadline
        )

    # SyncGroup

    def on_sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        try:
            member = self._check_sync(request)
        except BrokerResponseError as error:
            reply.send(SyncGroupResponse(error_code=error.errno))
            return
        self.pending_syncs.discard(member.member_id)
        if not self.pending_syncs:
            self._forget_syncs()
        if self._state == STABLE:
            reply.send(self._synced(member))
            return
        member.syncing = reply
        if member.member_id == self.leader:
            self._share_out({each.member_id: each.assignment for each in request.assignments})
            self.enter(STABLE)
            self._persist()

    def _check_sync(self, request: SyncGroupRequest) -> ClassicMember:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError("the group is dead")
        member = self.check_member(request.member_id, request.group_instance_id)
        self.check_generation(request.generation_id)
        for told, agreed in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol_name),
        ):
            if told is not None and agreed is not None and told != agreed:
                raise InconsistentGroupProtocolError(f"the group uses {agreed!r}, not {told!r}")
        if self._state == PREPARING_REBALANCE:
            raise RebalanceInProgressError("join again")
        return member

    def _share_out(self, assignments: dict[str, bytes], error_code: int = 0) -> None:
        """Give every member its share, or take it away, and answer those who wait for it."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            answer = SyncGroupResponse(error_code=error_code)
            if not error_code:
                answer = self._synced(member)
            if self._answer_sync(member, answer):
                self._expect(member)

    def _synced(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _forget_syncs(self) -> None:
        self.pending_syncs.clear()
        if self._sync_deadline is not None:
            self._sync_deadline.cancel()
            self._sync_deadline = None

    def _on_sync_deadline(self) -> None:
        """Members who joined, but never asked for their share, hold the others up."""
        self._sync_deadline = None
        if self.pending_syncs:
            for member_id in list(self.pending_syncs):
                self.remove(member_id)
            self._prepare_rebalance()

    # Heartbeat, and what else shows that a member lives

    def on_heartbeat(self, request: HeartbeatRequest) -> None:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError("the group is dead")
        member = self.check_member(request.member_id, request.group_instance_id)
        self.check_generation(request.generation_id)
        self._expect(member)
        if self._state == PREPARING_REBALANCE:
            raise RebalanceInProgressError("join again")

    def on_offset_commit(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and self._state in (STABLE, PREPARING_REBALANCE):
            self._expect(member)

    def _expect(self, member: ClassicMember, timeout: float | None = None) -> None:
        """Begin a member's session anew: from now on it may be silent for its timeout."""
        if member.session is not None:
            member.session.cancel()
        member.session = self.environment.clock.call_later(
            member.session_timeout_ms / 1000 if timeout is None else timeout,
            lambda: self._on_silent(member),
        )

    def _on_silent(self, member: ClassicMember) -> None:
        if member.is_excused:
            return  # its session begins anew with the answer that it waits for
        self._drop(member)
        if self._state in (STABLE, COMPLETING_REBALANCE):
            self._prepare_rebalance()
        elif self._state == PREPARING_REBALANCE and self.have_all_joined:
            self._complete_join()

    def _on_pending_expired(self, member_id: str) -> None:
        self.remove(member_id)
        if self._state == PREPARING_REBALANCE and self.have_all_joined:
            self._complete_join()

    # LeaveGroup

    def on_leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError("the group is dead")
        answers = [
            MemberResponse(
                member_id=leaving.member_id,
                group_instance_id=leaving.group_instance_id,
                error_code=self._leave(leaving),
            )
            for leaving in request.members
        ]
        if any(answer.error_code == 0 for answer in answers):
            if self._state in (STABLE, COMPLETING_REBALANCE):
                self._prepare_rebalance()
            else:
                self._maybe_complete_join()
        return LeaveGroupResponse(members=answers)

    def _leave(self, leaving: MemberIdentity) -> int:
        """Take out one member; the error code to answer for it."""
        if leaving.member_id in self.pending_members:
            self.remove(leaving.member_id)
            return 0
        instance_id = leaving.group_instance_id
        try:
            if leaving.member_id == NO_MEMBER:  # an administrator only knows static names
                member = self.members.get(self.static_members.get(instance_id or "", ""))
                if member is None:
                    raise UnknownMemberIdError(f"no static member {instance_id!r} is in the group")
            else:
                member = self.check_member(leaving.member_id, instance_id)
        except BrokerResponseError as error:
            return error.errno
        self._drop(member)
        return 0

    def _drop(self, member: ClassicMember) -> None:
        """Take a member out, and tell it if it still waits to join."""
        self._answer_join(member, refused_join(UnknownMemberIdError.errno))
        self.remove(member.member_id)

    def _answer_join(self, member: ClassicMember, answer: JoinGroupResponse) -> None:
        reply, member.joining = member.joining, None
        if reply is not None:
            reply.send(answer)

    def _answer_sync(self, member: ClassicMember, answer: SyncGroupResponse) -> bool:
        reply, member.syncing = member.syncing, None
        if reply is not None:
            reply.send(answer)
        return reply is not None

    # From and to a consumer group (KIP-848); ``migration`` decides when

    def begin_with(self, generation: int, members: Iterable[ClassicMember]) -> None:
        """Go on where a consumer group was whose members are all of this protocol."""
        for member in members:
            self.add(member)
            self._expect(member)
        self.generation = generation
        self.protocol_name = self.select_protocol()
        self.read_subscriptions()
        self.enter(STABLE)
        self._persist()

    def rebalance(self) -> None:
        """Have all members join again."""
        self._rebalance()

    def make_way(self) -> None:
        """A consumer group takes this one's place: who waits for an answer joins that."""
        self._end(RebalanceInProgressError.errno)

    # The cluster's life

    def _persist(self) -> None:
        self._persisted = Snapshot.of(self)
        self.note()

    def on_coordinator_moved(self) -> None:
        self._end(NotCoordinatorForGroupError.errno)
        self._persisted.restore(self)
        for member in self.members.values():
            self._expect(member)

    def close(self) -> None:
        self._end(GroupCoordinatorNotAvailableError.errno)
        self.enter(DEAD)

    def _end(self, error_code: int) -> None:
        """Cancel every timer, answer all who wait, forget all members."""
        self._cancel_join_deadline()
        self._forget_syncs()
        for member in list(self.members.values()):
            self._answer_join(member, refused_join(error_code, member.member_id))
            self._answer_sync(member, SyncGroupResponse(error_code=error_code))
        for member_id in [*self.members, *self.pending_members]:
            self.remove(member_id)
        self._member_came = False


def _protocols(request: JoinGroupRequest) -> list[MemberProtocol]:
    return [MemberProtocol(each.name, each.metadata) for each in request.protocols]
