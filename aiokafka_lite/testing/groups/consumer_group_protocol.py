"""A group of the consumer protocol (KIP-848), after Kafka's `GroupMetadataManager`. No I/O.

Each change of subscriptions starts a group epoch. A heartbeat that finds an older target
assignment computes a new one. Each heartbeat moves its member towards its target as far as other
members have released partitions. Nothing waits: members send heartbeats again.

`migration` handles members of the classic protocol.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from aiokafka_lite.errors import UnreleasedInstanceIdError
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.testing.groups.assignment_step import reconcile
from aiokafka_lite.testing.groups.assignors import Candidate, Partitions, assign
from aiokafka_lite.testing.groups.base_group import Joiner
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.consumer_epochs import JOINING_EPOCH, check_heartbeat_epoch
from aiokafka_lite.testing.groups.consumer_member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from aiokafka_lite.testing.groups.consumer_roster import ConsumerRoster
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings
from aiokafka_lite.testing.groups.consumer_timers import MemberTimers, Timeout
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.regexes import compile_regex

__all__ = ["ConsumerGroup", "Sees"]

T = TypeVar("T")

NOT_TOLD: Final = -1
LONG_AGO: Final = 0  # ms: no recent assignment, so the next one need not wait

Sees: TypeAlias = Callable[[str], bool]
"""Returns True if the client may describe a topic; its regular expression matches no others."""


class ConsumerGroup(ConsumerRoster):
    """A consumer group that handles heartbeats; owns the timers of its members."""

    def __init__(
        self,
        group_id: str,
        offsets: GroupOffsets,
        environment: Environment,
        settings: ConsumerSettings,
    ) -> None:
        super().__init__(group_id, offsets, environment, settings)
        self._timers = MemberTimers(environment.clock)
        self._assigned_ms = LONG_AGO

    # Heartbeats

    def on_report(
        self, report: ConsumerGroupHeartbeatRequest, reporter: Joiner, sees: Sees
    ) -> ConsumerGroupHeartbeatResponse:
        """Handle the heartbeat of a member that joins, reports or leaves.

        Args:
            report: A valid ConsumerGroupHeartbeat request.
            reporter: The client that sent it.
            sees: The topics it may describe.

        Raises:
            BrokerResponseError: The error for the member; the group is unchanged.
        """
        if report.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._on_leaving(report)
        self.check_room(report.member_id, report.instance_id)
        member_id = report.member_id or self.new_member_id()
        reported = _partitions(report.topic_partitions)
        replaced, before = self._reporting(member_id, report, reported)
        updated = replace(
            before,
            instance_id=_reported_or(report.instance_id, before.instance_id),
            rack_id=_reported_or(report.rack_id, before.rack_id),
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
            subscribed_regex=_reported_or(report.subscribed_topic_regex, before.subscribed_regex),
            server_assignor=_reported_or(report.server_assignor, before.server_assignor),
            classic=None,
        )
        after = self.advance(before, updated, reported, sees, replaced=replaced)
        self.keep_alive(after.member_id, self.settings.session_timeout_ms)
        is_full = (
            report.rebalance_timeout_ms != NOT_TOLD
            and (report.subscribed_topic_names, report.subscribed_topic_regex) != (None, None)
            and reported is not None
        )
        has_assignment = (
            report.member_epoch == JOINING_EPOCH or is_full or before.assigned != after.assigned
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=_assignment(after.assigned) if has_assignment else None,
        )

    def new_member_id(self) -> str:
        """Return a new member id, formatted like Kafka's `Uuid`."""
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
        """Apply a member's report and move the member towards its target.

        Args:
            before: The member before the report, or a new one.
            updated: The member with its reported properties.
            reported: The partitions that it reports to own.
            sees: The topics it may describe; None does not resolve regular expressions.
            replaced: The static member that it replaces.

        Returns:
            The new state of the member.

        Raises:
            InvalidRegularExpressionError: Nothing has changed.
        """
        may_resolve = not self._subscriptions.were_just_resolved
        if self.take_in(before, updated, replaced):
            self.begin_epoch()
        self._assign_if_due()
        after = self.reconciled(updated, reported, _reads_otherwise(before, updated))
        self.members[updated.member_id] = after
        # Kafka also resolves after answering, so this response does not include the new topics.
        if may_resolve and sees is not None and self._subscriptions.need_resolving():
            other_topics = self._subscriptions.resolve(sees)
            if self._subscriptions.observe() or other_topics:
                self.begin_epoch()
        self._subscriptions.watch()
        return after

    def take_in(
        self, before: ConsumerMember, updated: ConsumerMember, replaced: ConsumerMember | None
    ) -> bool:
        """Store a member, perhaps in place of another; return True if a new epoch starts.

        Raises:
            InvalidRegularExpressionError: Nothing has changed.
        """
        regex_changed = updated.subscribed_regex != before.subscribed_regex
        regex_known = self._subscriptions.is_resolved(updated.subscribed_regex)
        if regex_changed and not regex_known:
            compile_regex(updated.subscribed_regex)
        assignor = self.assignor
        look_anew = self._subscriptions.have_topics_changed
        if replaced is not None:
            self._step_into_place(replaced, before)
        self.members[updated.member_id] = updated
        self._subscriptions.forget_unused()
        begins = (
            updated.subscribed_topics != before.subscribed_topics
            # An unresolved expression starts an epoch when it is resolved, which is soon.
            or (regex_changed and (regex_known or not updated.subscribed_regex))
            or self.assignor != assignor
        )
        if begins or look_anew:
            begins = self._subscriptions.observe() or begins
        return begins

    def keep_alive(self, member_id: str, session_timeout_ms: int) -> None:
        """Restart the session timer of a member."""
        self._timers.set(
            member_id, Timeout.SESSION, session_timeout_ms, lambda: self.fence(member_id)
        )

    def fence(self, member_id: str) -> None:
        """Remove a member whose timer expired."""
        member = self.members.get(member_id)
        if member is not None:
            self.remove([member])

    def remove(self, leaving: Iterable[ConsumerMember]) -> None:
        """Remove members and release their partitions."""
        gone = {member.member_id for member in leaving}
        if not gone:
            return
        for member_id in gone:
            del self.members[member_id]
            self.targets.pop(member_id, None)
            self._timers.cancel_member(member_id)
        self._subscriptions.forget_unused()
        self._subscriptions.observe()
        self._subscriptions.watch()
        self.begin_epoch()
        if not self.members:
            self.target_epoch = self.epoch
            self._assigned_ms = LONG_AGO

    def on_coordinator_lost(self) -> None:
        """Cancel all timers: without a coordinator, no member is fenced."""
        self._timers.close()

    def on_coordinator_moved(self) -> None:
        """Restart all timers in full: everything but the timers is persistent."""
        self._timers.close()
        for member in self.members.values():
            timeout = member.classic.session_timeout_ms if member.classic else None
            self.keep_alive(member.member_id, timeout or self.settings.session_timeout_ms)
            if member.classic is None:
                self._watch_revocation(member)

    def close(self) -> None:
        self._timers.close()

    # Internals: members

    def _reporting(
        self, member_id: str, report: ConsumerGroupHeartbeatRequest, reported: Partitions | None
    ) -> tuple[ConsumerMember | None, ConsumerMember]:
        """Check the member; return (the replaced static member, the reporting member)."""
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
            # It keeps its membership and partitions until it returns or its session expires.
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

    # Internals: assignments

    def _assign_if_due(self) -> None:
        """Compute the target assignment of a new epoch, unless the last one is too recent."""
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

    def reconciled(
        self, member: ConsumerMember, reported: Partitions | None, subscription_changed: bool
    ) -> ConsumerMember:
        """Return the member, moved towards its target as far as released partitions allow."""
        if not subscription_changed and member.is_reconciled_to(self.target_epoch):
            return member
        owned = self.owned()
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
        """Start the rebalance timeout of a member that must revoke partitions."""
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(member.member_id, Timeout.REBALANCE)
            return

        def fence() -> None:
            now = self.members.get(member.member_id)
            if now is not None and now.epoch == member.epoch:
                self.fence(member.member_id)

        self._timers.set(member.member_id, Timeout.REBALANCE, member.rebalance_timeout_ms, fence)


def successor(old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return a static member that rejoined under another id, with the old one's state."""
    return replace(old, member_id=member_id, epoch=0, previous_epoch=0)


def _reads_otherwise(before: ConsumerMember, updated: ConsumerMember) -> bool:
    return (before.subscribed_topics, before.subscribed_regex) != (
        updated.subscribed_topics,
        updated.subscribed_regex,
    )


def _reported_or(new: T | None, old: T) -> T:
    return old if new is None else new


def _partitions(reported: Iterable[TopicPartitions] | None) -> Partitions | None:
    if reported is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in reported}


def _assignment(assigned: Mapping[UUID, Iterable[int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
