"""Racks of members and replicas: when they matter, and which match (KIP-881)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from aiokafka_lite.group.assignors.interface import Assigned, Subscriptions, TopicLayouts
from aiokafka_lite.structs import TopicPartition

__all__ = ["Racks", "racks_matter"]

NOWHERE: frozenset[str] = frozenset()


def racks_matter(wanted: Collection[str], racks: Collection[frozenset[str]]) -> bool:
    """True if racks make a difference for an assignment.

    They do not if no member's rack has a replica, or if every partition is in all racks.

    Args:
        wanted: Racks of members.
        racks: By partition, the racks of its replicas.
    """
    everywhere = NOWHERE.union(*racks)
    return not everywhere.isdisjoint(wanted) and any(each != everywhere for each in racks)


class Racks:
    """The racks of a whole group and of all topics that it reads.

    Attributes:
        rack_of: Racks by member id, of those that have one; {} if racks make no difference.
    """

    def __init__(self, members: Subscriptions, topics: TopicLayouts) -> None:
        rack_of = {each: rack for each, found in members.items() if (rack := found.rack)}
        self._topics = topics
        self.rack_of: dict[str, str] = {}
        every: list[frozenset[str]] = []
        if rack_of:
            for layout in topics.values():
                every += layout.racks or [NOWHERE] * layout.partitions
            if racks_matter(set(rack_of.values()), every):
                self.rack_of = rack_of
        self._members_in = Counter(self.rack_of.values())

    def of(self, partition: TopicPartition) -> frozenset[str]:
        """The racks with a replica of a partition."""
        racks = self._topics[partition.topic].racks
        return racks[partition.partition] if racks else NOWHERE

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """True if the member has a rack without a replica of the partition."""
        rack = self.rack_of.get(member_id)
        return rack is not None and rack not in self.of(partition)

    def matches(self, assigned: Assigned) -> int:
        """The number of partitions whose owner has a replica in its rack, or has no rack."""
        return sum(
            not self.mismatch(member_id, partition)
            for member_id, partitions in assigned.items()
            for partition in partitions
        )

    def rarest_first(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Sort by the number of matching members, fewest first; stable."""
        if not self.rack_of:
            return list(partitions)
        return sorted(
            partitions, key=lambda each: sum(self._members_in[rack] for rack in self.of(each))
        )
