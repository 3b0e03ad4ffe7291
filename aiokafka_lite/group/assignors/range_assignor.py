"""The range assignor: each subscriber of a topic gets a range of its partitions.

Members come in the same order for every topic, so topics with the same number of partitions and
the same members are divided in the same way: partition n of all of them goes to one member, which
can join them ("co-partitioning").

With racks (KIP-881), a first round gives members partitions with a replica in their rack, as long
as this preserves evenness and co-partitioning; then the rest is divided as without racks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from aiokafka_lite.group.assignor import TopicLayout
from aiokafka_lite.group.assignors.interface import (
    Assigned,
    NativeAssignor,
    Subscriptions,
    TopicLayouts,
    member_order,
)
from aiokafka_lite.group.assignors.racks import racks_matter
from aiokafka_lite.structs import TopicPartition

__all__ = ["RangeAssignor", "range_assignment"]

NOWHERE: frozenset[str] = frozenset()


class _Topic:
    """A topic while it is divided.

    Attributes:
        members: Its subscribers in their order.
        racks: By partition; () if none of the members has a rack.
        rack_aware: True if racks make a difference.
    """

    def __init__(
        self, name: str, layout: TopicLayout, members: Sequence[str], rack_of: Mapping[str, str]
    ) -> None:
        self.name = name
        self.partitions = layout.partitions
        self.members = tuple(members)
        wanted = {rack_of[each] for each in members if each in rack_of} if rack_of else set()
        self.racks = layout.racks if wanted else ()
        self.rack_aware = racks_matter(wanted, self.racks)
        self._share, self._extras = divmod(layout.partitions, len(members))
        self._given: dict[str, int] = {}
        self._left = layout.partitions
        self._taken = bytearray(layout.partitions)
        # By rack (None: all of them), ascending; taken partitions are dropped when they reach the
        # top.
        self._free: dict[str | None, deque[int]] = {}

    @property
    def exhausted(self) -> bool:
        """True if all partitions are assigned."""
        return not self._left

    def room(self, member_id: str) -> int:
        """The number of partitions that a member may still get; extras go to the first ones."""
        most = self._share + 1 if self._extras else self._share
        return max(0, most - self._given.get(member_id, 0))

    def take_free(self, member_id: str, rack: str | None) -> list[int]:
        """The first free partitions, as many as there is room; those of a rack, or any."""
        free = self._free.get(rack)
        if free is None:
            every = range(self.partitions)
            free = deque(each for each in every if rack is None or rack in self.racks_of(each))
            self._free[rack] = free
        numbers: list[int] = []
        room = self.room(member_id)
        while free and len(numbers) < room:
            number = free.popleft()
            if not self._taken[number]:
                numbers.append(number)
        self.give(member_id, numbers)
        return numbers

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        """Record partitions as assigned to a member."""
        if not numbers:
            return
        for number in numbers:
            self._taken[number] = True
        self._left -= len(numbers)
        self._given[member_id] = self._given.get(member_id, 0) + len(numbers)
        if self._given[member_id] > self._share:
            self._extras -= 1

    def racks_of(self, number: int) -> frozenset[str]:
        """Racks with a replica of a partition."""
        return self.racks[number] if self.racks else NOWHERE


def range_assignment(members: Subscriptions, topics: TopicLayouts) -> Assigned:
    """Divide each topic into ranges; the first members get one more if there is a remainder.

    Returns:
        Sorted by topic and partition.
    """
    order = member_order(members)
    rack_of = {each: rack for each in order if (rack := members[each].rack) is not None}
    subscribers: dict[str, list[str]] = {}
    for member_id in order:
        for name in members[member_id].topics:
            subscribers.setdefault(name, []).append(member_id)
    divided = [
        _Topic(name, topics[name], subscribers[name], rack_of)
        for name in sorted(subscribers.keys() & topics.keys())
        if topics[name].partitions
    ]
    assigned: Assigned = {member_id: [] for member_id in order}
    rack_aware = any(topic.rack_aware for topic in divided)
    if rack_aware:
        _match_racks(divided, rack_of, assigned)
    for topic in divided:
        for member_id in topic.members:
            if topic.exhausted:
                break
            _add(assigned, member_id, topic, topic.take_free(member_id, None))
    if rack_aware:
        for partitions in assigned.values():
            partitions.sort()
    return assigned


def _match_racks(topics: Sequence[_Topic], rack_of: Mapping[str, str], assigned: Assigned) -> None:
    """Give members partitions of their rack; members without a rack take any."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((topic.members, topic.partitions), []).append(topic)
    for together in alike.values():
        if len(together) > 1:
            _match_racks_together(together, rack_of, assigned)
        elif together[0].rack_aware:
            topic = together[0]
            for member_id in topic.members:
                if topic.exhausted:
                    break
                numbers = topic.take_free(member_id, rack_of.get(member_id))
                _add(assigned, member_id, topic, numbers)


def _match_racks_together(
    topics: Sequence[_Topic], rack_of: Mapping[str, str], assigned: Assigned
) -> None:
    """Give partition n of all these topics to a member whose rack has a replica of each.

    The topics have the same members and size, so a member has the same room in each of them. A
    member without room never gets room again, because the number of extras only decreases.
    """
    members = topics[0].members
    if not any(each in rack_of for each in members):
        return
    waiting: dict[str | None, deque[int]] = {}  # by rack, positions in `members`, ascending
    for position, member_id in enumerate(members):
        waiting.setdefault(rack_of.get(member_id), deque()).append(position)
    for number in range(topics[0].partitions):
        shared = frozenset.intersection(*(topic.racks_of(number) for topic in topics))
        first = min(_fronts(waiting, (*shared, None), topics[0]), default=None)
        if first is not None:
            for topic in topics:
                topic.give(members[first], [number])
                _add(assigned, members[first], topic, [number])


def _fronts(
    waiting: Mapping[str | None, deque[int]], racks: Iterable[str | None], topic: _Topic
) -> Iterable[int]:
    """The first member of each rack that has room."""
    for rack in racks:
        queue = waiting.get(rack)
        while queue and not topic.room(topic.members[queue[0]]):
            queue.popleft()
        if queue:
            yield queue[0]


def _add(assigned: Assigned, member_id: str, topic: _Topic, numbers: Iterable[int]) -> None:
    assigned[member_id] += [TopicPartition(topic.name, number) for number in numbers]


class RangeAssignor(NativeAssignor):
    """Java's RangeAssignor."""

    name: ClassVar[str] = "range"
    divide = staticmethod(range_assignment)
