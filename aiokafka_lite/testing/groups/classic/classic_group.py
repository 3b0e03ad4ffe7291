"""A group in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. No I/O.

This module checks and starts requests; `classic_rebalance` runs the rebalance. Waiting answers
are `Reply`s.

Non-obvious, and as in Kafka: a member that disconnects while its join waits stays in the group,
because a broker does not read a connection that waits for a response. A new member is removed
after five minutes, any other when its session expires.
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
)
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.testing.groups.base_group import NO_MEMBER, Joiner, refused_join
from aiokafka_lite.testing.groups.classic.classic_rebalance import ClassicRebalance
from aiokafka_lite.testing.groups.classic.classic_roster import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicMember,
    MemberProtocol,
)
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["ClassicGroup"]

NEW_MEMBER_TIMEOUT: Final = 300.0  # seconds that a first join may wait


class ClassicGroup(ClassicRebalance):
    """A classic group and its request handlers."""

    # JoinGroup

    def on_join(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        try:
            if self._state == DEAD:
                raise GroupCoordinatorNotAvailableError(f"group {self.group_id!r} is dead")
            if not self._has_room_for(request.member_id):
                self.remove(request.member_id)
                request.member_id = NO_MEMBER
                raise GroupMaxSizeReachedError(f"group {self.group_id!r} is full")
            if not self.supports(request.protocol_type, (each.name for each in request.protocols)):
                raise InconsistentGroupProtocolError(
                    f"the members of group {self.group_id!r} support none of these protocols"
                )
            if request.member_id == NO_MEMBER:
                self._join_newcomer(request, joiner, reply)
            elif request.member_id in self.pending_members:
                if request.group_instance_id is not None:
                    raise UnknownError("a member with a pending member id cannot be static")
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
        if self._state == PREPARING_REBALANCE:  # members that join later are not included
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
            raise UnknownMemberIdError(f"group {self.group_id!r} is empty")
        leads_anew = self._state == STABLE and member.member_id == self.leader
        if self._state == PREPARING_REBALANCE or changed or leads_anew:
            self._update(member, request, reply)
            self._rebalance()
        else:  # it may have missed the response to its join
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
        """Handle the rejoin of a static member: fence its old member id, and avoid a
        rebalance if nothing has to change."""
        led_before = self.leader
        member = self.members[old_member_id]
        fenced = FencedInstanceIdError.errno
        self._answer_join(member, refused_join(fenced, old_member_id))
        self._answer_sync(member, SyncGroupResponse(error_code=fenced))
        self.rename_static(member, member_id)
        member.is_new = False
        self._expect(member)  # still with the old timeout, as in Kafka
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
            else:  # the old leader's id shows that it must not assign
                answer.leader = led_before or ""
                answer.members = []
            self._answer_join(member, answer)
        elif self._state == COMPLETING_REBALANCE:
            self._prepare_rebalance()  # the leader may be assigning to the old id
        else:
            self._maybe_complete_join()

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
            raise GroupCoordinatorNotAvailableError(f"group {self.group_id!r} is dead")
        member = self.check_member(request.member_id, request.group_instance_id)
        self.check_generation(request.generation_id)
        for sent, agreed in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol_name),
        ):
            if sent is not None and agreed is not None and sent != agreed:
                raise InconsistentGroupProtocolError(f"the group uses {agreed!r}, not {sent!r}")
        if self._state == PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {self.group_id!r} is rebalancing; rejoin")
        return member

    # Heartbeat and other session renewals

    def on_heartbeat(self, request: HeartbeatRequest) -> None:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError(f"group {self.group_id!r} is dead")
        member = self.check_member(request.member_id, request.group_instance_id)
        self.check_generation(request.generation_id)
        self._expect(member)
        if self._state == PREPARING_REBALANCE:
            raise RebalanceInProgressError(f"group {self.group_id!r} is rebalancing; rejoin")

    def on_offset_commit(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and self._state in (STABLE, PREPARING_REBALANCE):
            self._expect(member)

    # LeaveGroup

    def on_leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError(f"group {self.group_id!r} is dead")
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
        """Remove one member; return its error code."""
        if leaving.member_id in self.pending_members:
            self.remove(leaving.member_id)
            return 0
        instance_id = leaving.group_instance_id
        try:
            if leaving.member_id == NO_MEMBER:  # an administrator only knows static names
                member = self.members.get(self.static_members.get(instance_id or "", ""))
                if member is None:
                    raise UnknownMemberIdError(
                        f"static member {instance_id!r} is not in group {self.group_id!r}"
                    )
            else:
                member = self.check_member(leaving.member_id, instance_id)
        except BrokerResponseError as error:
            return error.errno
        self._drop(member)
        return 0

    # Conversion from and to a consumer group (KIP-848), started by `migration`

    def begin_with(self, generation: int, members: Iterable[ClassicMember]) -> None:
        """Continue a consumer group whose members all use the classic protocol."""
        for member in members:
            self.add(member)
            self._expect(member)
        self.generation = generation
        self.protocol_name = self.select_protocol()
        self.read_subscriptions()
        self.enter(STABLE)
        self._persist()

    def rebalance(self) -> None:
        """Make all members rejoin."""
        self._rebalance()

    def make_way(self) -> None:
        """Replace this group by a consumer group; waiting members rejoin there."""
        self._end(RebalanceInProgressError.errno)

    # Coordinator changes and deletion

    def on_coordinator_lost(self) -> None:
        self._end(NotCoordinatorForGroupError.errno)
        self._persisted.restore(self)

    def on_coordinator_moved(self) -> None:
        self.on_coordinator_lost()
        for member in self.members.values():
            self._expect(member)

    def close(self) -> None:
        self._end(GroupCoordinatorNotAvailableError.errno)
        self.enter(DEAD)


def _protocols(request: JoinGroupRequest) -> list[MemberProtocol]:
    return [MemberProtocol(each.name, each.metadata) for each in request.protocols]
