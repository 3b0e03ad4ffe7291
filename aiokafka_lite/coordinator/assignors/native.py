"""The built-in assignors in aiokafka's form.

A consumer given exactly one of these classes runs the native assignor, which uses data that this
form cannot carry: racks, static members, owned partitions and generations. The class methods are
for subclasses and direct callers, so they import what they use when they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.group.assignment_data import Subscription, by_topic
from aiokafka_lite.group.assignor import TopicLayout
from aiokafka_lite.group.assignors.interface import NativeAssignor

if TYPE_CHECKING:
    from aiokafka_lite.client import ClusterMetadata
    from aiokafka_lite.coordinator.protocol import (
        ConsumerProtocolMemberAssignment,
        ConsumerProtocolMemberMetadata,
    )

__all__ = ["NativePartitionAssignor"]


class NativePartitionAssignor(AbstractPartitionAssignor):
    """Base class of the built-in assignors under aiokafka's names.

    Attributes:
        native: The native assignor class.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 0
    native: ClassVar[type[NativeAssignor]]

    @classmethod
    def assign(
        cls,
        cluster: ClusterMetadata,
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign partitions to members."""
        from aiokafka_lite.coordinator.protocol import ConsumerProtocolMemberAssignment

        subscriptions = {
            member_id: Subscription(
                tuple(dict.fromkeys(member.subscription)), user_data=member.user_data
            )
            for member_id, member in members.items()
        }
        layouts = {
            topic: TopicLayout(len(partitions))
            for topic in {topic for each in subscriptions.values() for topic in each.topics}
            if (partitions := cluster.partitions_for_topic(topic))
        }
        return {
            member_id: ConsumerProtocolMemberAssignment(
                cls.version, sorted(by_topic(partitions).items()), b""
            )
            for member_id, partitions in cls.native.divide(subscriptions, layouts).items()
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The subscription that this member sends to the leader: its topics."""
        from aiokafka_lite.coordinator.protocol import ConsumerProtocolMemberMetadata

        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Called when this member receives an assignment; does nothing."""
