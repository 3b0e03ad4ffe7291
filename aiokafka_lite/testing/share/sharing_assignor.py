"""The assignor of share groups, after Kafka's `SimpleAssignor`. No I/O.

Each partition has at least one member, and each member at least one partition. Current assignments
stay as far as the balance allows. Where Kafka depends on the order of its hash maps, this uses the
order in which members joined.
"""

from collections.abc import Mapping, Sequence, Set
from math import ceil
from typing import Final
from uuid import UUID

from aiokafka_lite.testing.groups.assignors import Candidate, Partitions

__all__ = ["ASSIGNOR_NAME", "assign_shared"]

ASSIGNOR_NAME: Final = "simple"

_Target = dict[str, dict[UUID, set[int]]]
_Place = tuple[UUID, int]


def assign_shared(
    members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Return the partitions of each member, by member id.

    Args:
        members: The members, in the order in which they joined.
        partition_counts: The number of assignable partitions of each topic.
    """
    target: _Target = {member_id: {} for member_id in members}
    subscribers: dict[frozenset[UUID], list[str]] = {}
    for member_id, member in members.items():
        subscribers.setdefault(frozenset(member.topic_ids & partition_counts.keys()), []).append(
            member_id
        )
    if len(subscribers) == 1:
        ((topics, names),) = subscribers.items()
        _balance(target, members, names, _places(topics, partition_counts))
    else:
        for topic_id, count in partition_counts.items():
            names = [one for one, member in members.items() if topic_id in member.topic_ids]
            _balance(target, members, names, [(topic_id, index) for index in range(count)])
    return {
        member_id: {topic_id: frozenset(held) for topic_id, held in topics_of.items() if held}
        for member_id, topics_of in target.items()
    }


def _places(topics: Set[UUID], counts: Mapping[UUID, int]) -> list[_Place]:
    return [
        (one, index) for one, count in counts.items() if one in topics for index in range(count)
    ]


def _balance(
    target: _Target,
    members: Mapping[str, Candidate],
    names: Sequence[str],
    places: Sequence[_Place],
) -> None:
    """Assign partitions to members with the same subscription."""
    if not names or not places:
        return
    per_partition = ceil(len(names) / len(places))  # the most members of a partition
    wanted = max(1, ceil(len(places) / len(names)))  # the most partitions of a member
    holders: dict[_Place, int] = dict.fromkeys(places, 0)
    held: dict[str, list[_Place]] = {name: [] for name in names}

    def give(name: str, place: _Place) -> None:
        held[name].append(place)
        holders[place] += 1

    for name in names:
        for topic_id, indexes in members[name].previous.items():
            for index in sorted(indexes):
                place = (topic_id, index)
                has_room = len(held[name]) < wanted and holders.get(place, 0) < per_partition
                if place in holders and has_room:
                    give(name, place)
    for place in places:
        if not holders[place]:
            free = [name for name in names if len(held[name]) < wanted]
            give(min(free or names, key=lambda name: len(held[name])), place)
    for name in names:
        if not held[name]:
            give(name, min(places, key=holders.__getitem__))
    for name, own in held.items():
        for topic_id, index in own:
            target[name].setdefault(topic_id, set()).add(index)
