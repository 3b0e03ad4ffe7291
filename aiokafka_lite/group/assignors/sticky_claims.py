"""The partitions that the members of a sticky group held before, from their claims (KIP-341).

Claims may conflict: a member that missed a rebalance still claims partitions that others received
since. The later generation wins. Two claims of the same generation cannot both be right, so
neither counts. The outcome does not depend on the order of the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka_lite.group.assignors.interface import TopicLayouts
from aiokafka_lite.structs import TopicPartition

__all__ = ["Claim", "Claims", "settle_claims"]


class Claim(NamedTuple):
    """The partitions that a member claims to have held.

    Attributes:
        generation: The generation in which it received them; -1: unknown.
    """

    partitions: tuple[TopicPartition, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Claims:
    """All claims, with conflicts resolved.

    Attributes:
        held: The partitions that each member held last, by member id; no partition twice.
        contested: Partitions that several members claim for the same generation.
        before: The owner of a partition in an earlier generation than the group's last one.
    """

    held: dict[str, list[TopicPartition]]
    contested: frozenset[TopicPartition]
    before: dict[TopicPartition, str]


def settle_claims(claims: Mapping[str, Claim], topics: TopicLayouts) -> Claims:
    """Resolve conflicting claims; partitions that do not exist are omitted."""
    latest = max((claim.generation for claim in claims.values()), default=-1)
    holder: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    before: dict[TopicPartition, str] = {}
    for member_id in sorted(claims):
        partitions, generation = claims[member_id]
        for partition in dict.fromkeys(partitions):
            layout = topics.get(partition.topic)
            if layout is None or not 0 <= partition.partition < layout.partitions:
                continue
            if generation < latest:
                other = before.setdefault(partition, member_id)
                if generation > claims[other].generation:
                    before[partition] = member_id
            other = holder.setdefault(partition, member_id)
            if other == member_id:
                continue
            if generation > claims[other].generation:
                holder[partition] = member_id
                contested.discard(partition)
            elif generation == claims[other].generation:
                contested.add(partition)
    held = {
        member_id: [
            partition
            for partition in dict.fromkeys(claims[member_id].partitions)
            if holder.get(partition) == member_id and partition not in contested
        ]
        for member_id in sorted(claims)
    }
    return Claims(held, frozenset(contested), before)
