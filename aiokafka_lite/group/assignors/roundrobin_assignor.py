"""The round-robin assignor: deals all partitions out in turn, across topics."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from aiokafka_lite.group.assignors.interface import (
    Assigned,
    NativeAssignor,
    Subscriptions,
    TopicLayouts,
    member_order,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["RoundRobinAssignor", "round_robin_assignment"]


def round_robin_assignment(members: Subscriptions, topics: TopicLayouts) -> Assigned:
    """Deal the partitions out, topic by topic in the order of names.

    A member that does not subscribe to the topic is skipped and not compensated later, so with
    different subscriptions the result may be far from even.
    """
    order = member_order(members)
    assigned: Assigned = {member_id: [] for member_id in order}
    seats: dict[str, list[int]] = {}  # by topic, ascending: the turns of its subscribers
    for seat, member_id in enumerate(order):
        for topic in members[member_id].topics:
            seats.setdefault(topic, []).append(seat)
    turn = 0
    for topic in sorted(seats.keys() & topics.keys()):
        takers = seats[topic]
        for number in range(topics[topic].partitions):
            found = bisect_left(takers, turn)
            seat = takers[found if found < len(takers) else 0]
            assigned[order[seat]].append(TopicPartition(topic, number))
            turn = seat + 1
    return assigned


class RoundRobinAssignor(NativeAssignor):
    """Java's RoundRobinAssignor, aiokafka's default."""

    name: ClassVar[str] = "roundrobin"
    divide = staticmethod(round_robin_assignment)
