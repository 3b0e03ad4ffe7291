"""Sticky assignment among members that all subscribe to the same topics.

Every member can own every partition, so the size of each share is known in advance: `least` or, for
as many members as the remainder of the division, one more. Members keep the partitions that they
held, up to that size; the rest goes to members with too few. There are three rounds:

1. each member keeps the partitions it held, up to its share (only those in its rack, if racks
   matter);
2. if racks matter, free partitions go to members in the racks of their replicas;
3. the remaining partitions are dealt in turn, first up to `least`, then one more each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain

from aiokafka_lite.group.assignors.interface import Assigned, TopicLayouts, known_partitions
from aiokafka_lite.group.assignors.racks import Racks
from aiokafka_lite.group.assignors.sticky_claims import Claims
from aiokafka_lite.structs import TopicPartition

__all__ = ["EvenDivision"]


class EvenDivision:
    """One assignment; `divide` once.

    Attributes:
        assigned: The result.
        moving: Assigned partitions that another member held: the cooperative protocol must revoke
            them first.
    """

    def __init__(self, topics: TopicLayouts, claims: Claims, racks: Racks) -> None:
        self._claims = claims
        self._racks = racks
        self._partitions = known_partitions(topics, sorted(topics))
        members = sorted(claims.held)
        self.assigned: Assigned = {member_id: [] for member_id in members}
        self.moving: dict[TopicPartition, str] = {}
        self._least, self._extras = divmod(len(self._partitions), len(members))
        self._most = self._least + 1 if self._extras else self._least
        self._given_up: dict[
            TopicPartition, str
        ] = {}  # partitions that lost their owner, and that owner
        self._hungry: list[str] = []  # members with less than `least`
        self._at_least: list[str] = []  # those with exactly `least` that may get one more

    def divide(self) -> Assigned:
        """Divide all partitions."""
        self._keep_what_was_held()
        kept = {partition for partitions in self.assigned.values() for partition in partitions}
        free = [partition for partition in self._partitions if partition not in kept]
        if self._racks.rack_of:
            free = self._deal_by_racks(self._racks.rarest_first(free))
        self._deal(free)
        return self.assigned

    def _keep_what_was_held(self) -> None:
        for member_id, held in self._claims.held.items():
            mine: list[TopicPartition] = []
            for partition in sorted(held, key=lambda each: (each.partition, each.topic)):
                if self._racks.mismatch(member_id, partition):
                    self._given_up[partition] = member_id
                else:
                    mine.append(partition)
            if len(mine) < self._least:
                share = len(mine)
                self._hungry.append(member_id)
            elif len(mine) >= self._most and self._extras:
                share = self._most
                self._take_extra()
            else:
                share = self._least
                if self._extras:
                    self._at_least.append(member_id)
            self.assigned[member_id] += mine[:share]
            for partition in mine[share:]:
                self._given_up[partition] = member_id

    def _deal_by_racks(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Deal out partitions that a member in their rack can take; leave the others."""
        left: list[TopicPartition] = []
        # Counts by rack show an empty rack at once, without a walk over all members.
        hungry_in = Counter(self._racks.rack_of.get(each) for each in self._hungry)
        turn = 0
        for partition in free:
            racks = self._racks.of(partition)
            if any(hungry_in[rack] for rack in racks):
                turn = self._next_in(racks, self._hungry, turn)
                member_id = self._hungry[turn]
                if len(self.assigned[member_id]) + 1 >= self._least:
                    del self._hungry[turn]
                    hungry_in[self._racks.rack_of[member_id]] -= 1
                    if self._extras:
                        self._at_least.append(member_id)
                else:
                    turn += 1
                turn = turn % len(self._hungry) if self._hungry else 0
                self._give(partition, member_id)
            elif self._at_least and (at := self._next_in(racks, self._at_least, 0)) >= 0:
                self._give(partition, self._at_least.pop(at))
                self._take_extra()
            else:
                left.append(partition)
        return left

    def _next_in(self, racks: frozenset[str], members: Sequence[str], begin: int) -> int:
        """The position of the next member in one of the racks, wrapping around; -1: none."""
        for i in chain(range(begin, len(members)), range(begin)):
            if self._racks.rack_of.get(members[i]) in racks:
                return i
        return -1

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        """Deal out the rest: in turn until all members have `least`, then one more to each."""
        hungry = deque(self._hungry)
        at_least = deque(self._at_least)
        for partition in free:
            if hungry:
                member_id = hungry.popleft()
                self._give(partition, member_id)
                if len(self.assigned[member_id]) < self._least:
                    hungry.append(member_id)
                else:
                    at_least.append(member_id)
            else:
                self._give(partition, at_least.popleft())

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.assigned[member_id].append(partition)
        held_by = self._given_up.get(partition, member_id)
        if held_by != member_id or partition in self._claims.contested:
            self.moving[partition] = member_id

    def _take_extra(self) -> None:
        self._extras -= 1
        if not self._extras:
            self._at_least.clear()
