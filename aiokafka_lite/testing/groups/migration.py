"""Consumer groups that include members of the classic protocol (KIP-848's migration). No I/O.

A classic group of consumers becomes a consumer group when the first member of the new protocol
joins. Its members must rejoin and are then served here: their generation is their member epoch,
and REBALANCE_IN_PROGRESS in a heartbeat response makes them rejoin. When the last member of the new
protocol leaves, the rest becomes a classic group again and rebalances.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaProtocolError,
    MemberIdRequired,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.groups.base_group import NO_MEMBER, Joiner, refused_join
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.classic.classic_roster import ClassicMember, MemberProtocol
from aiokafka_lite.testing.groups.consumer_group_protocol import ConsumerGroup, successor
from aiokafka_lite.testing.groups.consumer_member import (
    ClassicMembership,
    ConsumerMember,
    MemberState,
)
from aiokafka_lite.testing.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    by_topic_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings
from aiokafka_lite.testing.groups.consumer_timers import Timeout
from aiokafka_lite.testing.groups.group_registry import Groups
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["MixedGroup", "recall", "upgrade"]


class MixedGroup(ConsumerGroup):
    """A consumer group with members of either protocol.

    Args:
        group_id: The group id.
        groups: The registry, in which a classic group may replace it.
        settings: Its settings.
    """

    def __init__(self, group_id: str, groups: Groups, settings: ConsumerSettings) -> None:
        super().__init__(group_id, groups.offsets_of(group_id), groups.environment, settings)
        self._groups = groups

    def watch_sessions(self) -> None:
        """Start the session timers of the members that were in the classic group."""
        for member in self.members.values():
            if member.classic is not None:
                self.keep_alive(member.member_id, member.classic.session_timeout_ms)

    # JoinGroup

    def on_join(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        try:
            answer = self._join(request, joiner)
        except BrokerResponseError as error:
            answer = refused_join(error.errno)
        reply.send(answer)

    def _join(self, request: JoinGroupRequest, joiner: Joiner) -> JoinGroupResponse:
        if not self.settings.may_mix:
            raise InconsistentGroupProtocolError(
                f"Cannot join the consumer group {self.group_id} with the classic protocol because"
                " the group migration is disabled."
            )
        is_new = request.member_id == NO_MEMBER
        member_id = self.new_member_id() if is_new else request.member_id
        self.check_room(member_id, request.group_instance_id)
        self._check_protocols(request)
        if is_new and request.group_instance_id is None and joiner.knows_member_id:
            return refused_join(MemberIdRequired.errno, member_id)
        goes_back = self._goes_back(request.group_instance_id)
        replaced, before = self._joining(member_id, request.group_instance_id, is_new=is_new)
        subscription = _subscription(request)
        updated = replace(
            before,
            instance_id=request.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topics=frozenset(subscription.topics),
            subscribed_regex="",
            client_id=joiner.client_id,
            client_host=joiner.client_host,
            classic=ClassicMembership(
                request.session_timeout_ms,
                tuple((each.name, each.metadata) for each in request.protocols),
            ),
        )
        owned = [(each.topic, each.partitions) for each in subscription.owned_partitions]
        reported = by_topic_id(owned, self._environment.topics)
        if goes_back:
            after = self._become_classic_by(before, updated, reported, replaced)
        else:
            after = self.advance(before, updated, reported, None, replaced=replaced)
            self._timers.cancel(after.member_id, Timeout.JOIN)
            self.keep_alive(after.member_id, request.session_timeout_ms)
            self._timers.set(
                after.member_id,
                Timeout.SYNC,
                request.rebalance_timeout_ms,
                lambda: self.fence(after.member_id),
            )
        return JoinGroupResponse(
            generation_id=after.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            member_id=after.member_id,
        )

    def _check_protocols(self, request: JoinGroupRequest) -> None:
        """Check that the member shares an assignor with the other classic members."""
        supported = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        names = {each.name for each in request.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not names.intersection(*supported):
            raise InconsistentGroupProtocolError(
                f"Member {request.member_id}'s protocols are not supported."
            )

    def _joining(
        self, member_id: str, instance_id: str | None, *, is_new: bool
    ) -> tuple[ConsumerMember | None, ConsumerMember]:
        """Check the member; return (the replaced static member, the joining member)."""
        if instance_id is None:
            return None, self.members.get(member_id) or ConsumerMember(member_id)
        if not is_new:
            return None, self.member_of_instance(instance_id, member_id)
        existing = self.static_member(instance_id)
        if existing is None:
            return None, ConsumerMember(member_id)
        return existing, successor(existing, member_id)

    # SyncGroup

    def on_sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        try:
            answer = self._sync(request)
        except BrokerResponseError as error:
            answer = SyncGroupResponse(error_code=error.errno)
        reply.send(answer)

    def _sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        member, classic = self._classic_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or (
            request.protocol_name not in (None, name)
        ):
            raise InconsistentGroupProtocolError(f"the member's protocol is {name!r}")
        if (
            self.target_epoch > member.epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            raise self._joins_again(member)
        self._timers.cancel(member.member_id, Timeout.SYNC)
        self.keep_alive(member.member_id, classic.session_timeout_ms)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, self.topic_names(), metadata),
        )

    # Heartbeat

    def on_heartbeat(self, request: HeartbeatRequest) -> None:
        member, classic = self._classic_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        self.keep_alive(member.member_id, classic.session_timeout_ms)
        if (
            member.epoch < self.target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not self.waits_for_release(member)
            )
        ):
            raise self._joins_again(member)

    def _classic_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, ClassicMembership]:
        """Return the requesting member and its classic protocol data.

        Raises:
            UnknownMemberIdError: It does not exist, or uses the new protocol.
            FencedInstanceIdError, IllegalGenerationError
        """
        if instance_id is None:
            member = self.member(member_id)
        else:
            member = self.member_of_instance(instance_id, member_id)
        if member.classic is None:
            raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise IllegalGenerationError(
                f"The request generation id {generation} is not equal to the member epoch"
                f" {member.epoch} of member {member_id}."
            )
        return member, member.classic

    def _joins_again(self, member: ConsumerMember) -> RebalanceInProgressError:
        """Start a member's rejoin timer; return the error that makes it rejoin."""
        if not self._timers.is_set(member.member_id, Timeout.JOIN):
            self._timers.set(
                member.member_id,
                Timeout.JOIN,
                member.rebalance_timeout_ms,
                lambda: self.fence(member.member_id),
            )
        return RebalanceInProgressError(
            f"A new rebalance is triggered in group {self.group_id} and member"
            f" {member.member_id} should rejoin to catch up."
        )

    # LeaveGroup

    def on_leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        leaving: list[ConsumerMember] = []
        answers = []
        for asked in request.members:
            answer = MemberResponse(asked.member_id, asked.group_instance_id)
            try:
                leaving.append(self._leaving(asked))
            except BrokerResponseError as error:
                answer.error_code = error.errno
            answers.append(answer)
        self.remove(leaving)
        return LeaveGroupResponse(members=answers)

    def _leaving(self, asked: MemberIdentity) -> ConsumerMember:
        """Return the leaving member; an administrator may send only an instance id."""
        if asked.group_instance_id is None:
            return self.member(asked.member_id)
        if asked.member_id:
            return self.member_of_instance(asked.group_instance_id, asked.member_id)
        member = self.static_member(asked.group_instance_id)
        if member is None:
            raise UnknownMemberIdError(f"Instance id {asked.group_instance_id} is unknown.")
        return member

    # Back to a classic group

    def remove(self, leaving: Iterable[ConsumerMember]) -> None:
        gone = list(leaving)
        if 0 < len(gone) < len(self.members) and self._may_be_classic(gone):
            self._become_classic(gone, rebalance=True)
        else:
            super().remove(gone)

    def _may_be_classic(self, gone: Iterable[ConsumerMember]) -> bool:
        """Return True if the group could become a classic one without some members."""
        left_out = {member.member_id for member in gone}
        left = [one for one in self.members.values() if one.member_id not in left_out]
        return (
            all(member.classic is not None for member in left)
            and self.settings.may_downgrade
            and len(left) <= self.settings.classic_max_size
        )

    def _goes_back(self, instance_id: str | None) -> bool:
        """Return True if a static member that joins with the classic protocol is the last member of
        the new one."""
        existing = self.static_member(instance_id)
        if existing is None or existing.classic is not None:
            return False
        return self._may_be_classic([existing])

    def _become_classic_by(
        self,
        before: ConsumerMember,
        updated: ConsumerMember,
        reported: Partitions | None,
        replaced: ConsumerMember | None,
    ) -> ConsumerMember:
        """Become a classic group after the last member switched to the classic protocol, without a
        rebalance if the assignments can stay."""
        is_stale = self.take_in(before, updated, replaced) or self.target_epoch < self.epoch
        after = updated if is_stale else self.reconciled(updated, reported, False)
        self.members[after.member_id] = after
        self._become_classic((), rebalance=is_stale)
        return after

    def _become_classic(self, gone: Iterable[ConsumerMember], *, rebalance: bool) -> None:
        left_out = {member.member_id for member in gone}
        names = self.topic_names()
        group = ClassicGroup(self.group_id, self.offsets, self._environment)
        group.begin_with(
            self.epoch,
            [
                _classic(member, member.classic, self.targets.get(member.member_id, {}), names)
                for member in self.members.values()
                if member.classic is not None and member.member_id not in left_out
            ],
        )
        self._groups.put(group)
        if rebalance:
            group.rebalance()


def upgrade(group: ClassicGroup, groups: Groups, settings: ConsumerSettings) -> MixedGroup:
    """Return the consumer group for a classic group with members, without replacing it yet.

    Raises:
        GroupIdNotFound: The group cannot be converted: its members are not consumers, are too many,
            use an unknown assignor, or `group.consumer.migration.policy` does not allow it.
    """

    def refusal(reason: str) -> GroupIdNotFound:
        return GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
        )

    if not settings.may_upgrade:
        raise refusal("online upgrade is disabled")
    if group.protocol_type != PROTOCOL_TYPE:
        raise refusal("the group does not use the consumer embedded protocol")
    if len(group.members) > settings.max_size:
        raise refusal("the group size exceeds the consumer group maximum size")
    made = MixedGroup(group.group_id, groups, settings)
    made.epoch = made.target_epoch = group.generation
    for old in group.members.values():
        try:
            subscription = read_subscription(old.metadata(group.protocol_name))
            assignment = read_assignment(old.assignment)
        except KafkaProtocolError as error:
            raise refusal("the embedded consumer protocol is malformed") from error
        if assignment.user_data:
            raise refusal("an unsupported custom assignor is in use")
        partitions = by_topic_id(
            [(each.topic, each.partitions) for each in assignment.assigned_partitions],
            groups.environment.topics,
        )
        made.targets[old.member_id] = partitions
        made.members[old.member_id] = ConsumerMember(
            old.member_id,
            epoch=group.generation,
            previous_epoch=group.generation,
            instance_id=old.instance_id,
            rack_id=subscription.rack_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            subscribed_topics=frozenset(subscription.topics),
            assigned={
                topic_id: dict.fromkeys(numbers, group.generation)
                for topic_id, numbers in partitions.items()
            },
            classic=ClassicMembership(
                old.session_timeout_ms, tuple((each.name, each.metadata) for each in old.protocols)
            ),
        )
    made.observe_topics()
    return made


def recall(groups: Groups, brokers: BrokerConfigs, configs: GroupConfigs) -> None:
    """Restore the consumer groups in the journal, without members."""
    for (group_id, *_), remembered in list(groups.environment.journal.entries("group")):
        if remembered["kind"] == MixedGroup.kind:
            name = str(group_id)
            group = MixedGroup(name, groups, ConsumerSettings(name, brokers, configs))
            group.recall(remembered)
            groups.put(group)


def _classic(
    member: ConsumerMember,
    classic: ClassicMembership,
    target: Partitions,
    names: dict[UUID, str],
) -> ClassicMember:
    """Convert a member for a classic group, with its target assignment."""
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        PROTOCOL_TYPE,
        [MemberProtocol(name, metadata) for name, metadata in classic.protocols],
        write_assignment(target, names, classic.protocols[0][1]),
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except KafkaProtocolError as error:
        raise UnknownError("Malformed embedded consumer protocol.") from error
