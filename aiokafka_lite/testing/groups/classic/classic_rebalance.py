"""The rebalances of a classic group, and their timers. No I/O.

PreparingRebalance lasts until every member has joined or the longest rebalance timeout expires,
CompletingRebalance until the leader sends the assignment; then the group is Stable. Timers use the
cluster's clock. `classic_group` checks the requests.

Non-obvious, and as in Kafka:
- the first member waits only for `group.initial.rebalance.delay.ms`, which each member that joins
  in that time extends; here it is 0 by default, so the first member is alone at first;
- a rebalance without members that join never completes: it is checked again after each timeout.
"""

from aiokafka_lite.errors import RebalanceInProgressError, UnknownMemberIdError
from aiokafka_lite.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from aiokafka_lite.protocol.messages.sync_group import SyncGroupResponse
from aiokafka_lite.testing.clock import Timer
from aiokafka_lite.testing.groups.base_group import refused_join
from aiokafka_lite.testing.groups.classic.classic_roster import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicMember,
    ClassicRoster,
)
from aiokafka_lite.testing.groups.classic.classic_snapshot import Snapshot
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.environment import Environment

__all__ = ["ClassicRebalance"]


class ClassicRebalance(ClassicRoster):
    """A group that moves from one generation to the next; owns the timers."""

    def __init__(self, group_id: str, offsets: GroupOffsets, environment: Environment) -> None:
        super().__init__(group_id, offsets, environment)
        self._join_deadline: Timer | None = None
        self._sync_deadline: Timer | None = None
        self._member_came = False  # True if a member joined during the initial delay
        self._persisted = Snapshot.of(self)

    # The rebalance

    def _rebalance(self) -> None:
        """Start a rebalance, or continue the current one."""
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
        """Wait for the first members of a group, for as long as more of them join."""

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
            and self._previous_state != EMPTY  # the initial delay must end first
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
        """Start the next generation with the members that have joined, and the static members."""
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

    def _joined(self, member: ClassicMember) -> JoinGroupResponse:
        """Return the JoinGroup response; only that of the leader lists the other members."""
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

    # Assignments

    def _share_out(self, assignments: dict[str, bytes], error_code: int = 0) -> None:
        """Set or clear every member's assignment, and answer waiting SyncGroup requests."""
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
        """Remove members that joined but did not send SyncGroup, and rebalance."""
        self._sync_deadline = None
        if self.pending_syncs:
            for member_id in list(self.pending_syncs):
                self.remove(member_id)
            self._prepare_rebalance()

    # Sessions

    def _expect(self, member: ClassicMember, timeout: float | None = None) -> None:
        """Restart a member's session timer."""
        if member.session is not None:
            member.session.cancel()
        member.session = self.environment.clock.call_later(
            member.session_timeout_ms / 1000 if timeout is None else timeout,
            lambda: self._on_silent(member),
        )

    def _on_silent(self, member: ClassicMember) -> None:
        if member.is_excused:
            return  # the response that it waits for restarts its session
        self._drop(member)
        if self._state in (STABLE, COMPLETING_REBALANCE):
            self._prepare_rebalance()
        elif self._state == PREPARING_REBALANCE and self.have_all_joined:
            self._complete_join()

    def _on_pending_expired(self, member_id: str) -> None:
        self.remove(member_id)
        if self._state == PREPARING_REBALANCE and self.have_all_joined:
            self._complete_join()

    # Answers

    def _drop(self, member: ClassicMember) -> None:
        """Remove a member, and answer its waiting JoinGroup."""
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

    # Persistence and end

    def _persist(self) -> None:
        self._persisted = Snapshot.of(self)
        self.note()

    def _end(self, error_code: int) -> None:
        """Cancel every timer, answer all waiting members, and remove all members."""
        self._cancel_join_deadline()
        self._forget_syncs()
        for member in list(self.members.values()):
            self._answer_join(member, refused_join(error_code, member.member_id))
            self._answer_sync(member, SyncGroupResponse(error_code=error_code))
        for member_id in [*self.members, *self.pending_members]:
            self.remove(member_id)
        self._member_came = False
