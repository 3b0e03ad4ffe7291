"""The server-side assignors of consumer groups (KIP-848): "uniform" and "range". No I/O.

An assignor computes a target assignment from each member's subscription and previous target. Where
Kafka depends on the order of its hash maps (which of two equal members gets the odd partition),
these use the order in which members joined.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Candidate", "Partitions", "assign"]

Partitions: TypeAlias = Mapping[UUID, Set[int]]
"""Partition numbers by topic id; topics without partitions are omitted."""

DEFAULT_ASSIGNOR: Final = "uniform"  # the first of group.consumer.assignors
BALANCING_ROUNDS: Final = 16  # overlapping subscriptions may need several

_Target: TypeAlias = dict[str, dict[UUID, set[int]]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member as input of an assignor.

    Attributes:
        topic_ids: Its subscribed, existing topics.
        previous: Its last target assignment.
        instance_id: Instance id of a static member; "range" sorts by it, so that a restart does
            not change the assignment.
    """

    topic_ids: Set[UUID]
    previous: Partitions = field(default_factory=dict)
    instance_id: str | None = None


def assign(
    name: str, members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Return a new target assignment.

    Args:
        name: One of `ASSIGNORS`.
        members: Members by id, in the order in which they joined.
        partition_counts: Number of partitions of each subscribed topic.

    Returns:
        The target of each member, by member id.
    """
    target = ASSIGNORS[name](members, partition_counts) if members else {}
    return {
        member_id: {topic_id: frozenset(owned) for topic_id, owned in topics.items() if owned}
        for member_id, topics in target.items()
    }


def _range(members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]) -> _Target:
    """Assign a contiguous range of each topic to each subscriber, static members first.

    Members have the same order in all topics, so topics with equal partition counts and the same
    subscribers are co-partitioned.
    """
    ordered = sorted(
        members,
        key=lambda member_id: (
            members[member_id].instance_id is None,
            members[member_id].instance_id or member_id,
        ),
    )
    target: _Target = {member_id: {} for member_id in members}
    for topic_id, count in partition_counts.items():
        subscribers = [one for one in ordered if topic_id in members[one].topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(count, len(subscribers))
        start = 0
        for position, member_id in enumerate(subscribers):
            end = start + quota + (position < extra)
            target[member_id][topic_id] = set(range(start, end))
            start = end
    return target


def _uniform(members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]) -> _Target:
    """Assign similar numbers of partitions, as far as subscriptions allow, with few moves."""
    subscriptions = [member.topic_ids for member in members.values()]
    if all(topic_ids == subscriptions[0] for topic_ids in subscriptions):
        return _uniform_alike(members, partition_counts)
    return _uniform_mixed(members, partition_counts)


def _uniform_alike(
    members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]
) -> _Target:
    """Assign a quota to each member, one more to the first ones; all subscriptions are equal."""
    subscribed = next(iter(members.values())).topic_ids
    topic_ids = [topic_id for topic_id in partition_counts if topic_id in subscribed]
    free = _Free(topic_ids, partition_counts)
    quota, extra = divmod(sum(partition_counts[one] for one in topic_ids), len(members))
    target: _Target = {}
    room: dict[str, int] = {}
    for position, (member_id, member) in enumerate(members.items()):
        room[member_id] = quota + (position < extra)
        kept = target[member_id] = {}
        for topic_id, partitions in member.previous.items():
            for partition in sorted(partitions):
                if room[member_id] and free.take(topic_id, partition):
                    kept.setdefault(topic_id, set()).add(partition)
                    room[member_id] -= 1
    rest = iter(free.partitions())
    for member_id, places in room.items():
        for _ in range(places):
            topic_id, partition = next(rest)
            target[member_id].setdefault(topic_id, set()).add(partition)
    return target


def _uniform_mixed(
    members: Mapping[str, Candidate], partition_counts: Mapping[UUID, int]
) -> _Target:
    """Assign to the least loaded, then move from most to least loaded; subscriptions differ."""
    subscribers = {
        topic_id: [one for one, member in members.items() if topic_id in member.topic_ids]
        for topic_id in partition_counts
    }
    # Start with the most partitions per subscriber, so that the other topics can balance them.
    topic_ids = sorted(
        (topic_id for topic_id, names in subscribers.items() if names),
        key=lambda one: (
            -partition_counts[one] / len(subscribers[one]),
            len(subscribers[one]),
            one,
        ),
    )
    free = _Free(topic_ids, partition_counts)
    loads = dict.fromkeys(members, 0)
    owners: dict[UUID, dict[int, str]] = {topic_id: {} for topic_id in topic_ids}
    for member_id, member in members.items():
        for topic_id, partitions in member.previous.items():
            if topic_id in member.topic_ids:
                for partition in sorted(partitions):
                    if free.take(topic_id, partition):
                        owners[topic_id][partition] = member_id
                        loads[member_id] += 1
    for topic_id, partition in free.partitions():
        least = min(subscribers[topic_id], key=loads.__getitem__)
        owners[topic_id][partition] = least
        loads[least] += 1
    for _ in range(BALANCING_ROUNDS):
        moved = [_even_out(subscribers[one], owners[one], loads) for one in topic_ids]
        if not any(moved):
            break
    target: _Target = {member_id: {} for member_id in members}
    for topic_id, by_partition in owners.items():
        for partition, member_id in by_partition.items():
            target[member_id].setdefault(topic_id, set()).add(partition)
    return target


def _even_out(subscribers: list[str], owners: dict[int, str], loads: dict[str, int]) -> int:
    """Move partitions of one topic from loaded subscribers to others; return their number."""
    moved = 0
    while owners:
        partition = max(owners, key=lambda one: (loads[owners[one]], one))
        most, least = owners[partition], min(subscribers, key=loads.__getitem__)
        if loads[most] - loads[least] <= 1:
            break
        owners[partition] = least
        loads[most] -= 1
        loads[least] += 1
        moved += 1
    return moved


class _Free:
    """The unassigned partitions, by topic in the given order."""

    def __init__(self, topic_ids: Iterable[UUID], counts: Mapping[UUID, int]) -> None:
        self._partitions = dict.fromkeys(
            (topic_id, partition) for topic_id in topic_ids for partition in range(counts[topic_id])
        )

    def take(self, topic_id: UUID, partition: int) -> bool:
        """Mark a partition as assigned; return False if it is not free."""
        taken = (topic_id, partition) in self._partitions
        self._partitions.pop((topic_id, partition), None)
        return taken

    def partitions(self) -> list[tuple[UUID, int]]:
        """Return the free partitions."""
        return list(self._partitions)


ASSIGNORS: Final[Mapping[str, Callable[[Mapping[str, Candidate], Mapping[UUID, int]], _Target]]] = {
    "uniform": _uniform,
    "range": _range,
}
"""Assignors by their name in `group.consumer.assignors`, in its default order."""
