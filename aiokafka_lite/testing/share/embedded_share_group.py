"""A share group: its members, its epochs and their assignments (KIP-932). No I/O.

Source: Kafka's `GroupMetadataManager.shareGroupHeartbeat`. Members get their whole target at once,
because partitions are shared: nothing is revoked first.
"""

from collections.abc import Callable
from typing import ClassVar, Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedMemberEpochError,
    GroupIdNotFound,
    GroupMaxSizeReachedError,
)
from aiokafka_lite.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.testing.groups.assignors import Candidate, Partitions
from aiokafka_lite.testing.groups.base_group import GroupKind, Joiner, PartitionCheck
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.consumer_timers import MemberTimers, Timeout
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.epoch_group import EpochGroup
from aiokafka_lite.testing.share.share_settings import ShareSettings
from aiokafka_lite.testing.share.sharing_assignor import assign_shared

__all__ = ["JOINING_EPOCH", "LEAVE_EPOCH", "ShareGroup", "ShareMember"]

JOINING_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LATEST_COMMIT: Final = 9

Initialize = Callable[[str, UUID, int], None]
"""(group id, topic id, partition count): makes the state of a topic's partitions exist."""


class ShareMember:
    """A member of a share group.

    Attributes:
        member_id: Its id, which it generated.
        epoch: Its epoch.
        previous_epoch: The epoch before, with which it may send a request again.
        rack_id: Its rack.
        client_id: Its client id.
        client_host: Its address, as in descriptions.
        topics: The names of its subscribed topics.
        assigned: The partitions that it knows of.
    """

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "epoch",
        "member_id",
        "previous_epoch",
        "rack_id",
        "topics",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.previous_epoch = -1
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.topics: frozenset[str] = frozenset()
        self.assigned: Partitions = {}


class ShareGroup(EpochGroup[ShareMember]):
    """A share group; owns the session timers of its members.

    Args:
        group_id: The group id.
        offsets: Unused, but every group has them.
        environment: The cluster's time and topics.
        settings: The group's settings.
        initialize: Makes the state of assigned partitions exist.
    """

    kind: ClassVar[GroupKind] = "share"

    def __init__(
        self,
        group_id: str,
        offsets: GroupOffsets,
        environment: Environment,
        settings: ShareSettings,
        initialize: Initialize,
    ) -> None:
        super().__init__(group_id, offsets, environment)
        self.settings = settings
        self._initialize = initialize
        self._timers = MemberTimers(environment.clock)
        self._assigned_ms = 0
        self._seen: frozenset[tuple[UUID, int]] = frozenset()

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset[str]().union(*(member.topics for member in self.members.values()))

    # Offsets of the other kinds of groups

    def check_commit(
        self,
        member_id: str,
        generation_or_epoch: int,
        instance_id: str | None,
        *,
        transactional: bool,
        version: int = LATEST_COMMIT,
    ) -> PartitionCheck | None:
        raise GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def expire_offsets(self, now_ms: int, retention_ms: int) -> bool:
        return False  # a share group stays until it is deleted

    # Heartbeats

    def on_report(
        self, report: ShareGroupHeartbeatRequest, reporter: Joiner
    ) -> ShareGroupHeartbeatResponse:
        """Handle the heartbeat of a member that joins, reports or leaves.

        Raises:
            BrokerResponseError: The error for the member; the group is unchanged.
        """
        if report.member_epoch == LEAVE_EPOCH:
            self.remove(self.member(report.member_id).member_id)
            return ShareGroupHeartbeatResponse(
                member_id=report.member_id, member_epoch=LEAVE_EPOCH, assignment=None
            )
        member = self._reporting(report)
        before = member.topics
        if report.subscribed_topic_names is not None:
            member.topics = frozenset(report.subscribed_topic_names)
        if report.rack_id is not None:
            member.rack_id = report.rack_id
        member.client_id, member.client_host = reporter.client_id, reporter.client_host
        self.members[member.member_id] = member
        if self._observe() or member.topics != before:
            self.begin_epoch()
        self._assign_if_due()
        changed = self._advance(member)
        self.keep_alive(member.member_id)
        with_assignment = (
            changed
            or report.member_epoch == JOINING_EPOCH
            or report.subscribed_topic_names is not None
        )
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=_assignment(member.assigned) if with_assignment else None,
        )

    def keep_alive(self, member_id: str) -> None:
        """Restart the session timer of a member."""
        self._timers.set(
            member_id,
            Timeout.SESSION,
            self.settings.session_timeout_ms,
            lambda: self.remove(member_id),
        )

    def remove(self, member_id: str) -> None:
        """Remove a member that leaves or is silent; the records that it holds stay acquired."""
        if self.members.pop(member_id, None) is None:
            return
        self.targets.pop(member_id, None)
        self._timers.cancel_member(member_id)
        self._observe()
        self.begin_epoch()
        if not self.members:
            self.target_epoch = self.epoch
            self._assigned_ms = 0

    def on_coordinator_lost(self) -> None:
        """Cancel all timers: without a coordinator, no member is fenced."""
        self._timers.close()

    def on_coordinator_moved(self) -> None:
        """Restart all timers in full: everything but the timers is persistent."""
        self._timers.close()
        for member_id in self.members:
            self.keep_alive(member_id)

    def next_state_epoch(self) -> int:
        """Begin a group epoch for offsets that an administrator sets; return it."""
        self.begin_epoch()
        self.target_epoch = self.epoch
        return self.epoch

    def close(self) -> None:
        self._timers.close()

    # Internals

    def _reporting(self, report: ShareGroupHeartbeatRequest) -> ShareMember:
        known = self.members.get(report.member_id)
        if known is None and len(self.members) >= self.settings.max_size:
            raise GroupMaxSizeReachedError(
                "The share group has reached its maximum capacity of"
                f" {self.settings.max_size} members."
            )
        if report.member_epoch == JOINING_EPOCH:
            return known or ShareMember(report.member_id)
        member = self.member(report.member_id)
        if report.member_epoch not in (member.epoch, member.previous_epoch):
            raise FencedMemberEpochError(
                f"The share group member has epoch {member.epoch}, not {report.member_epoch}."
            )
        return member

    def _observe(self) -> bool:
        """Return True if the partitions to assign have changed; make their states exist."""
        topics = self._environment.topics
        found = [topics[name] for name in self.subscribed_topics() & topics.keys()]
        now = frozenset((topic.topic_id, len(topic.partitions)) for topic in found)
        changed = now != self._seen
        self._seen = now
        for topic_id, count in now:
            self._initialize(self.group_id, topic_id, count)
        return changed

    def _assign_if_due(self) -> None:
        """Compute the targets of a new epoch, unless the last ones are too recent."""
        now_ms = self._environment.clock.now_ms()
        if self.target_epoch >= self.epoch:
            return
        if self._assigned_ms and now_ms < self._assigned_ms + self.settings.assignment_interval_ms:
            return
        topics = self._environment.topics
        candidates = {
            member_id: Candidate(
                frozenset(topics[name].topic_id for name in member.topics & topics.keys()),
                self.targets.get(member_id, {}),
            )
            for member_id, member in self.members.items()
        }
        names = sorted(self.subscribed_topics() & topics.keys())
        counts = {topics[name].topic_id: len(topics[name].partitions) for name in names}
        self.targets = assign_shared(candidates, counts)
        self.target_epoch = self.epoch
        self._assigned_ms = now_ms

    def _advance(self, member: ShareMember) -> bool:
        """Move a member to its target; return True if its partitions have changed."""
        if member.epoch == self.target_epoch:
            return False
        before = member.assigned
        member.previous_epoch, member.epoch = member.epoch, self.target_epoch
        member.assigned = self.targets.get(member.member_id, {})
        return member.assigned != before


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
