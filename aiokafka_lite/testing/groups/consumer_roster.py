"""The members of a consumer group (KIP-848), their assignments and targets. No I/O.

`ConsumerRoster` only stores and checks; `consumer_group_protocol` adds, advances and removes
members.
"""

from typing import ClassVar, Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
)
from aiokafka_lite.testing.groups.base_group import NO_MEMBER, GroupKind, PartitionCheck
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.consumer_epochs import (
    check_assignment_epoch,
    check_commit_epoch,
    check_fetch_epoch,
)
from aiokafka_lite.testing.groups.consumer_member import ConsumerMember
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings
from aiokafka_lite.testing.groups.consumer_subscriptions import ConsumerSubscriptions
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.epoch_group import EpochGroup

__all__ = ["ConsumerRoster"]

LATEST_COMMIT: Final = 9  # the first version with member epochs


class ConsumerRoster(EpochGroup[ConsumerMember]):
    """The state of a consumer group.

    Args:
        group_id: The group id.
        offsets: Its committed offsets.
        environment: The cluster's time and topics.
        settings: Its configuration.
    """

    kind: ClassVar[GroupKind] = "consumer"

    def __init__(
        self,
        group_id: str,
        offsets: GroupOffsets,
        environment: Environment,
        settings: ConsumerSettings,
    ) -> None:
        super().__init__(group_id, offsets, environment)
        self.settings = settings
        self._subscriptions = ConsumerSubscriptions(environment, self.members)

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
        """The assignor that most members request, or the default."""
        asked = [one.server_assignor for one in self.members.values() if one.server_assignor]
        return max(asked, key=asked.count) if asked else self.settings.assignors[0]

    def subscribed_topics(self) -> frozenset[str]:
        return self._subscriptions.topics()

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with an instance id, if any."""
        for member in self.members.values():
            if instance_id is not None and member.instance_id == instance_id:
                return member
        return None

    def member_of_instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Return the static member with an instance id.

        Raises:
            UnknownMemberIdError: There is none.
            FencedInstanceIdError: Another member now has this instance id.
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

    def check_room(self, member_id: str, instance_id: str | None) -> None:
        """Check that the group has room for a new member.

        Raises:
            GroupMaxSizeReachedError: The group is full.
        """
        if self.static_member(instance_id) is not None or member_id in self.members:
            return
        if len(self.members) >= self.settings.max_size:
            raise GroupMaxSizeReachedError(
                "The consumer group has reached its maximum capacity of"
                f" {self.settings.max_size} members."
            )

    def observe_topics(self) -> None:
        """Accept the current topics without starting a new epoch."""
        self._subscriptions.observe()
        self._subscriptions.watch()

    def owned(self) -> set[tuple[UUID, int]]:
        """(topic id, partition) of all owned partitions, including those being revoked."""
        return {
            (topic_id, partition)
            for member in self.members.values()
            for held in (member.assigned, member.revoking)
            for topic_id, partitions in held.items()
            for partition in partitions
        }

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Return True if others still own partitions of the member's target."""
        owned = self.owned()
        return any(
            (topic_id, partition) in owned
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions - member.assigned.get(topic_id, {}).keys()
        )

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
