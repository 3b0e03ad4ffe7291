"""The base class of assignors in aiokafka's form, which are never instantiated."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokafka_lite.client import ClusterMetadata
    from aiokafka_lite.coordinator.protocol import (
        ConsumerProtocolMemberAssignment,
        ConsumerProtocolMemberMetadata,
    )

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(abc.ABC):
    """Base class of assignors: decide which member of a classic group gets which partitions.

    An application's assignor is a subclass with a `name` and the three class methods. All members
    of a group must have one of the same name. The only state of its own member that it receives
    comes from `on_assignment`, so its groups rebalance eagerly.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The assignor's name in the group protocol; a plain class attribute `name = "..."`."""

    @classmethod
    @abc.abstractmethod
    def assign(
        cls,
        cluster: ClusterMetadata,
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign partitions to members. Only the group's leader calls it.

        Args:
            cluster: Metadata of all topics that the members subscribe to.
            members: By member id, what each member's `metadata` returned.

        Returns:
            By member id, what each member's `on_assignment` receives. A member left out gets no
            partitions.
        """

    @classmethod
    @abc.abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The subscription that this member sends to the leader.

        Args:
            topics: Names of the topics that it subscribes to.
        """

    @classmethod
    @abc.abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Called when this member receives an assignment.

        Args:
            assignment: What the leader's `assign` returned for this member.
        """
