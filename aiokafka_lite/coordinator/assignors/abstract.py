"""The base of assignors in aiokafka's form: classes that are never instantiated."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping

from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(abc.ABC):
    """Decides which member of a group gets which partition; for the classic protocol.

    An application's own is a subclass with a `name` and the three class methods. All members of
    a group need one of the same name. It is told of its own member only what `on_assignment`
    gives it, so its groups rebalance eagerly.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What members and the coordinator call it: a plain `name = "..."` of the class."""

    @classmethod
    @abc.abstractmethod
    def assign(
        cls,
        cluster: ClusterMetadata,
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign partitions to members; called in the group's leader only.

        Args:
            cluster: What is known of all topics that one of them subscribes to.
            members: By member id, what `metadata` of each told.

        Returns:
            By member id, what `on_assignment` of each is told; who is left out gets nothing.
        """

    @classmethod
    @abc.abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What the leader is to know of this member.

        Args:
            topics: What it subscribes to.
        """

    @classmethod
    @abc.abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """This member was assigned partitions.

        Args:
            assignment: What `assign` in the leader gave it.
        """
