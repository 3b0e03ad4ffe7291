"""What groups with a group epoch have in common: consumer groups (KIP-848), share groups (KIP-932).

No I/O.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from aiokafka_lite.errors import UnknownMemberIdError
from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.environment import Environment

__all__ = ["EpochGroup"]

FIRST_EPOCH: Final = 1

M = TypeVar("M")
"""A member."""


class EpochGroup(Group, Generic[M]):
    """A group whose members get their targets from the coordinator.

    Args:
        group_id: The group id.
        offsets: Its committed offsets.
        environment: The cluster's time and topics.

    Attributes:
        epoch: The group epoch, which changes with subscriptions and topics.
        target_epoch: The epoch of `targets`.
        members: Members by id, in the order in which they joined.
        targets: The target assignment of each member.
    """

    def __init__(self, group_id: str, offsets: GroupOffsets, environment: Environment) -> None:
        super().__init__(group_id, offsets)
        self.epoch = FIRST_EPOCH
        self.target_epoch = FIRST_EPOCH
        self.members: dict[str, M] = {}
        self.targets: dict[str, Partitions] = {}
        self._environment = environment

    def begin_epoch(self) -> None:
        """Start a new group epoch after a change of members, subscriptions or topics."""
        self.epoch += 1
        self.note()

    def note(self) -> None:
        """Store the state that outlives the members in the journal."""
        remembered = {"kind": self.kind, "epoch": self.epoch}
        self._environment.journal.note("group", (self.group_id,), remembered)

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Restore the state from the journal; unknown members must rejoin."""
        self.epoch = self.target_epoch = remembered["epoch"]

    def member(self, member_id: str) -> M:
        """Return the member with an id.

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
        """The names of the cluster's topics by topic id."""
        return {topic.topic_id: name for name, topic in self._environment.topics.items()}
