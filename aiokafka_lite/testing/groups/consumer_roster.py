"""The members of a consumer group (KIP-848): who is in, what each has and shall have. No I/O.

`ConsumerRoster` only keeps and checks; how members come, advance and go is in `consumer`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
)
from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.groups.base_group import NO_MEMBER, Group, GroupKind, PartitionCheck
from aiokafka_lite.testing.groups.consumer_epochs import (
    check_assignment_epoch,
    check_commit_epoch,
    check_fetch_epoch,
)
from aiokafka_lite.testing.groups.consumer_member import ConsumerMember
from aiokafka_lite.testing.groups.consumer_settings import ConsumerSettings
from aiokafka_lite.testing.groups.consumer_subscriptions import ConsumerSubscriptions
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.group_offsets import GroupOffsets

__all__ = ["ConsumerRoster"]

FIRST_EPOCH: Final = 1
LATEST_COMMIT: Final = 9  # the version since which it knows epochs


class ConsumerRoster(Group):
    """What a consumer group knows of itself.

    Args:
        group_id: Its name.
        offsets: What it committed.
        environment: The cluster's time and topics.
        settings: What it goes by.

    Attributes:
        epoch: Of who is subscribed to what.
        target_epoch: Of `targets`.
        members: By id, in the order in which they joined.
        targets: What each member shall have in the end.
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
        """The one that most members ask for, or the default."""
        asked = [one.server_assignor for one in self.members.values() if one.server_assignor]
        return max(asked, key=asked.count) if asked else self.settings.assignors[0]

    def subscribed_topics(self) -> frozenset[str]:
        return self._subscriptions.topics()

    # Epochs

    def begin_epoch(self) -> None:
        """Somebody came, went or changed what it reads, or the topics changed."""
        self.epoch += 1
        self.note()

    def note(self) -> None:
        """Have the journal remember what outlives the members."""
        remembered = {"kind": self.kind, "epoch": self.epoch}
        self._environment.journal.note("group", (self.group_id,), remembered)

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Take back what the journal remembers; who is not known any more has to join again."""
        self.epoch = self.target_epoch = remembered["epoch"]

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id."""
        for member in self.members.values():
            if instance_id is not None and member.instance_id == instance_id:
                return member
        return None

    def member(self, member_id: str) -> ConsumerMember:
        """The member of an id.

        Raises:
            UnknownMemberIdError: There is none.
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

    def member_of_instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The static member of an instance id.

        Raises:
            UnknownMemberIdError: There is none.
            FencedInstanceIdError: Another member has that instance id now.
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
        """Refuse a new member when the group is full.

        Raises:
            GroupMaxSizeReachedError: It is.
        """
        if self.static_member(instance_id) is not None or member_id in self.members:
            return
        if len(self.members) >= self.settings.max_size:
            raise GroupMaxSizeReachedError(
                "The consumer group has reached its maximum capacity of"
                f" {self.settings.max_size} members."
            )

    def observe_topics(self) -> None:
        """Take the topics as they are now, without beginning an epoch for it."""
        self._subscriptions.observe()
        self._subscriptions.watch()

    def owned(self) -> set[tuple[UUID, int]]:
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
