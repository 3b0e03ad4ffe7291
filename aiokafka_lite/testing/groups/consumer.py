"""A group of the consumer protocol (KIP-848), as Kafka's ``GroupMetadataManager`` runs it. No I/O.

Each change of who is subscribed to what begins a group epoch; a heartbeat that comes when the
target assignment is older computes a new one; and each heartbeat of a member takes it as far
towards its target as other members have made way. Nothing waits: members ask again.

Members of the classic protocol are ``migration``'s.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, TypeAlias, TypeVar
from uuid import UUID

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.testing.groups.assignors import Candidate, Partitions, assign
from aiokafka_lite.testing.groups.consumer_epochs import (
    JOINING_EPOCH,
    check_assignment_epoch,
    check_commit_epoch,
    check_fetch_epoch,
    check_heartbeat_epoch,
)
from aiokafka_lite.testing.groups.consumer_member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings
from aiokafka_lite.testing.groups.consumer_subscriptions import ConsumerSubscriptions
from aiokafka_lite.testing.groups.consumer_timers import MemberTimers, Timeout
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.group import NO_MEMBER, Group, GroupKind, Joiner, PartitionCheck
from aiokafka_lite.testing.groups.offsets import GroupOffsets
from aiokafka_lite.testing.groups.reconciliation import reconcile
from aiokafka_lite.testing.groups.regexes import compile_regex

__all__ = ["ConsumerGroup", "Sees"]

T = TypeVar("T")

FIRST_EPOCH: Final = 1
NOT_TOLD: Final = -1
LONG_AGO: Final = 0  # ms: no assignment since, so that the next need not wait
LATEST_COMMIT: Final = 9  # the version since which it knows epochs

Sees: TypeAlias = Callable[[str], bool]
"""Whether the one who asks may describe a topic: nothing else matches its regular expression."""


class ConsumerGroup(Group):
    """One group.

    Args:
        group_id: its name.
        offsets: what it committed.
        environment: the cluster's time and topics.
        settings: what it goes by.

    Attributes:
        epoch: of who is subscribed to what.
        target_epoch: of ``targets``.
        members: by id, in the order in which they joined.
        targets: what each member shall have in the end.
    """

    kind: ClassVar[GroupKind] = "consumer"

    def __init__(
        self,
        group_id: str,
        offsets: GroupOffsets,
        environment: Environment,
        settings: ConsumerSettings,
    ) -> None:
        super().__init__(group_id, offsets)
        self.settings = settings
        self.epoch = FIRST_EPOCH
        self.target_epoch = FIRST_EPOCH
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self._environment = environment
        self._timers = MemberTimers(environment.clock)
        self._subscriptions = ConsumerSubscriptions(environment, self.members)
        self._assigned_ms = LONG_AGO

    # What it is

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def assignor(self) -> str:
        """The one that most members ask for, or the default."""
        asked = [one.server_assignor for one in self.members.values() if one.server_assignor]
        return max(asked, key=asked.count) if asked else self.settings.assignors[0]

    def subscribed_topics(self) -> frozenset[str]:
        return self._subscriptions.topics()

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id."""
        for member in self.members.values():
            if instance_id is not None and member.instance_id == instance_id:
                return member
        return None

    def member(self, member_id: str) -> ConsumerMember:
        """The member of an id.

        Raises:
            UnknownMemberIdError: there is none.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(
                f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def topic_names(self) -> dict[UUID, str]:
        """The names of the cluster's topics by their ids."""
        return {topic.topic_id: name for name, topic in self._environment.topics.items()}

    # Heartbeats

    def on_report(
        self, report: ConsumerGroupHeartbeatRequest, reporter: Joiner, sees: Sees
    ) -> ConsumerGroupHeartbeatResponse:
        """A member joins, reports, or leaves.

        Args:
            report: ConsumerGroupHeartbeat, checked for what cannot be.
            reporter: who sent it.
            sees: which topics it may describe.

        Raises:
            BrokerResponseError: what it is answered; nothing has changed.
        """
        if report.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._on_leaving(report)
        self.check_room(report.member_id, report.instance_id)
        member_id = report.member_id or self.new_member_id()
        reported = _partitions(report.topic_partitions)
        replaced, before = self._reporting(member_id, report, reported)
        updated = replace(
            before,
            instance_id=_told(report.instance_id, before.instance_id),
            rack_id=_told(report.rack_id, before.rack_id),
            client_id=reporter.client_id,
            client_host=reporter.client_host,
            rebalance_timeout_ms=(
                before.rebalance_timeout_ms
                if report.rebalance_timeout_ms == NOT_TOLD
                else report.rebalance_timeout_ms
            ),
            subscribed_topics=(
                before.subscribed_topics
                if report.subscribed_topic_names is None
                else frozenset(report.subscribed_topic_names)
            ),
            subscribed_regex=_told(report.subscribed_topic_regex, before.subscribed_regex),
            server_assignor=_told(report.server_assignor, before.server_assignor),
            classic=None,
        )
        after = self.advance(before, updated, reported, sees, replaced=replaced)
        self.keep_alive(after.member_id, self.settings.session_timeout_ms)
        is_full = (
            report.rebalance_timeout_ms != NOT_TOLD
            and (report.subscribed_topic_names, report.subscribed_topic_regex) != (None, None)
            and reported is not None
        )
        told = report.member_epoch == JOINING_EPOCH or is_full or before.assigned != after.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=_assignment(after.assigned) if told else None,
        )

    def check_room(self, member_id: str, instance_id: str | None) -> None:
        """Refuse a new member when the group is full.

        Raises:
            GroupMaxSizeReachedError: it is.
        """
        if self.static_member(instance_id) is not None or member_id in self.members:
            return
        if len(self.members) >= self.settings.max_size:
            raise GroupMaxSizeReachedError(
                "The consumer group has reached its maximum capacity of"
                f" {self.settings.max_size} members."
            )

    def new_member_id(self) -> str:
        """As Kafka's ``Uuid`` writes it."""
        encoded = base64.urlsafe_b64encode(self._environment.new_uuid().bytes)
        return encoded.rstrip(b"=").decode()

    def advance(
        self,
        before: ConsumerMember,
        updated: ConsumerMember,
        reported: Partitions | None,
        sees: Sees | None,
        *,
        replaced: ConsumerMember | None = None,
    ) -> ConsumerMember:
        """Take in what a member said of itself, and take it towards its target.

        Args:
            before: as it stood, or would have.
            updated: with what it said.
            reported: the partitions that it says it owns.
            sees: which topics it may describe; None to leave regular expressions as they are.
            replaced: the static member in whose place it steps.

        Returns:
            The member as it stands from now on.

        Raises:
            InvalidRegularExpressionError: nothing has changed.
        """
        regex_changed = updated.subscribed_regex != before.subscribed_regex
        regex_known = self._subscriptions.is_resolved(updated.subscribed_regex)
        if regex_changed and not regex_known:
            compile_regex(updated.subscribed_regex)
        assignor = self.assignor
        if replaced is not None:
            self._step_into_place(replaced, before)
        self.members[updated.member_id] = updated
        self._subscriptions.forget_unused()
        topics_changed = updated.subscribed_topics != before.subscribed_topics
        # An unresolved expression will begin an epoch when it is resolved, which is soon.
        resolved_now = regex_changed and (regex_known or not updated.subscribed_regex)
        if (
            self._subscriptions.observe()
            or topics_changed
            or resolved_now
            or (self.assignor != assignor)
        ):
            self.epoch += 1
        self._assign_if_due()
        after = self._reconciled(updated, reported, topics_changed or regex_changed)
        self.members[updated.member_id] = after
        # In Kafka too this is only done after the answer, whose member reads nothing by it yet.
        if sees is not None and self._subscriptions.resolve_if_due(sees):
            self._subscriptions.observe()
            self.epoch += 1
        return after

    def observe_topics(self) -> None:
        """Take the topics as they are now, without beginning an epoch for it."""
        self._subscriptions.observe()

    def keep_alive(self, member_id: str, session_timeout_ms: int) -> None:
        """A member showed that it lives."""
        self._timers.set(
            member_id, Timeout.SESSION, session_timeout_ms, lambda: self.fence(member_id)
        )

    def fence(self, member_id: str) -> None:
        """A member was late: it is a member no more."""
        member = self.members.get(member_id)
        if member is not None:
            self.remove([member])

    def remove(self, leaving: Iterable[ConsumerMember]) -> None:
        """Members are gone, and what they owned is free."""
        gone = {member.member_id for member in leaving}
        if not gone:
            return
        for member_id in gone:
            del self.members[member_id]
            self.targets.pop(member_id, None)
            self._timers.cancel_member(member_id)
        self._subscriptions.forget_unused()
        self._subscriptions.observe()
        self.epoch += 1
        if not self.members:
            self.target_epoch = self.epoch
            self._assigned_ms = LONG_AGO

    def close(self) -> None:
        self._timers.close()

    # Offsets

    def check_commit(
        self,
        member_id: str,
        generation_or_epoch: int,
        instance_id: str | None,
        *,
        transactional: bool,
        version: int = LATEST_COMMIT,
    ) -> PartitionCheck | None:
        outside = generation_or_epoch < 0
        if outside and not self.members:
            return None
        if transactional and outside and member_id == NO_MEMBER and instance_id is None:
            return None
        member = self.member(member_id)
        if not check_commit_epoch(
            member, generation_or_epoch, version, transactional=transactional
        ):
            return None

        def check(topic: str, partition: int) -> None:
            known = self._environment.topics.get(topic)
            topic_id = None if known is None else known.topic_id
            check_assignment_epoch(member, generation_or_epoch, topic_id, partition)

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None or member_epoch >= 0:
            check_fetch_epoch(self.member(member_id or NO_MEMBER), member_epoch)

    # Inside: members

    def _reporting(
        self, member_id: str, report: ConsumerGroupHeartbeatRequest, reported: Partitions | None
    ) -> tuple[ConsumerMember | None, ConsumerMember]:
        """(the static member that is replaced, the member that reports), if it may."""
        joining = report.member_epoch == JOINING_EPOCH
        if report.instance_id is None:
            member = (
                self.members.get(member_id) or ConsumerMember(member_id)
                if joining
                else self.member(member_id)
            )
            check_heartbeat_epoch(member, report.member_epoch, reported)
            return None, member
        if not joining:
            member = self.member_of_instance(report.instance_id, member_id)
            check_heartbeat_epoch(member, report.member_epoch, reported)
            return None, member
        existing = self.static_member(report.instance_id)
        if existing is None:
            return None, self.members.get(member_id) or ConsumerMember(member_id)
        if existing.classic is None and existing.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceIdError(
                f"Static member {member_id} with instance id {report.instance_id} cannot join the"
                f" group because the instance id is owned by {existing.member_id} member."
            )
        return existing, successor(existing, member_id)

    def member_of_instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The static member of an instance id.

        Raises:
            UnknownMemberIdError: there is none.
            FencedInstanceIdError: another member has that instance id now.
        """
        member = self.static_member(instance_id)
        if member is None:
            raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise FencedInstanceIdError(
                f"Static member {member_id} with instance id {instance_id} was fenced by member"
                f" {member.member_id}."
            )
        return member

    def _step_into_place(self, old: ConsumerMember, new: ConsumerMember) -> None:
        self._timers.cancel_member(old.member_id)
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self.targets[new.member_id] = self.targets.pop(old.member_id, {})

    def _on_leaving(self, report: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if report.instance_id is None:
            member = self.member(report.member_id)
        else:
            member = self.member_of_instance(report.instance_id, report.member_id)
        if report.instance_id is not None and report.member_epoch == STATIC_LEAVE_EPOCH:
            # It keeps its place, and its partitions, until it is back or its session ends.
            kept = {one: dict.fromkeys(owned, 0) for one, owned in member.assigned.items()}
            self.members[member.member_id] = replace(
                member,
                epoch=STATIC_LEAVE_EPOCH,
                assigned=kept,
                revoking={},
            )
        else:
            self.remove([member])
        return ConsumerGroupHeartbeatResponse(
            member_id=report.member_id, member_epoch=report.member_epoch, assignment=None
        )

    # Inside: assignments

    def _assign_if_due(self) -> None:
        """Compute the target assignment of a new epoch, unless the last was a moment ago."""
        now_ms = self._environment.clock.now_ms()
        if self.target_epoch >= self.epoch:
            return
        if self._assigned_ms and now_ms < self._assigned_ms + self.settings.assignment_interval_ms:
            return
        candidates = {
            member_id: Candidate(
                self._subscriptions.topic_ids_of(member),
                self.targets.get(member_id, {}),
                member.instance_id,
            )
            for member_id, member in self.members.items()
        }
        counts = self._subscriptions.partition_counts()
        self.targets = assign(self.assignor, candidates, counts)
        self.target_epoch = self.epoch
        self._assigned_ms = now_ms

    def _owned(self) -> set[tuple[UUID, int]]:
        """(topic id, partition) of all that any member owns, what it has to give up included."""
        return {
            (topic_id, partition)
            for member in self.members.values()
            for held in (member.assigned, member.revoking)
            for topic_id, partitions in held.items()
            for partition in partitions
        }

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Whether others still own what the member shall have."""
        owned = self._owned()
        return any(
            (topic_id, partition) in owned
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions - member.assigned.get(topic_id, {}).keys()
        )

    def _reconciled(
        self, member: ConsumerMember, reported: Partitions | None, subscription_changed: bool
    ) -> ConsumerMember:
        if not subscription_changed and member.is_reconciled_to(self.target_epoch):
            return member
        owned = self._owned()
        after = reconcile(
            member,
            self.target_epoch,
            self.targets.get(member.member_id, {}),
            subscribed_ids=self._subscriptions.topic_ids_of(member),
            reported=reported,
            is_owned=lambda topic_id, partition: (topic_id, partition) in owned,
            subscription_changed=subscription_changed,
        )
        if after != member and after.classic is None:
            self._watch_revocation(after)
        return after

    def _watch_revocation(self, member: ConsumerMember) -> None:
        """A member that has to give up partitions has its rebalance timeout for it."""
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(member.member_id, Timeout.REBALANCE)
            return

        def fence() -> None:
            now = self.members.get(member.member_id)
            if now is not None and now.epoch == member.epoch:
                self.fence(member.member_id)

        self._timers.set(member.member_id, Timeout.REBALANCE, member.rebalance_timeout_ms, fence)


def successor(old: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member come back under another id: it has what the old one had."""
    return replace(old, member_id=member_id, epoch=0, previous_epoch=0)


def _told(new: T | None, old: T) -> T:
    return old if new is None else new


def _partitions(told: Iterable[TopicPartitions] | None) -> Partitions | None:
    if told is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in told}


def _assignment(assigned: Mapping[UUID, Iterable[int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
