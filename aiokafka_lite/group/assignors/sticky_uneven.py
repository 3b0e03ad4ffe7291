"""Sticky assignment among members that subscribe to different topics.

It is not known in advance how even the result can be. Members keep the partitions they held; each
free partition goes to the subscriber with the fewest partitions; then partitions move from members
with more to members with fewer, as long as a single move improves the balance. If the moves did not
improve it after all, they are undone.

A partition costs one heap operation, not a walk over all members: see `_Poorest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappush, heapreplace

from aiokafka_lite.group.assignors.interface import (
    Assigned,
    Subscriptions,
    TopicLayouts,
    known_partitions,
)
from aiokafka_lite.group.assignors.racks import Racks
from aiokafka_lite.group.assignors.sticky_claims import Claims
from aiokafka_lite.group.assignors.sticky_moves import Moves
from aiokafka_lite.structs import TopicPartition

__all__ = ["UnevenDivision", "unevenness"]


class _Poorest:
    """Finds the member with the fewest partitions among some members; ties go to the lowest id.

    A heap of the members' wealth. An entry of a member that has grown since is corrected when it
    reaches the top; after a member shrinks, call `push`.

    Args:
        members: Their ranks.
        wealth: By rank, how many partitions each has now, times the number of members, plus its
            rank, so that the numbers compare like pairs.
    """

    def __init__(self, members: Iterable[int], wealth: Sequence[int]) -> None:
        self._wealth = wealth
        self._heap = [wealth[rank] for rank in members]
        heapify(self._heap)

    def push(self, rank: int) -> None:
        """A member has fewer partitions now."""
        heappush(self._heap, self._wealth[rank])

    def find(self) -> int | None:
        """The rank of the member with the fewest; None if there are no members."""
        heap, wealth = self._heap, self._wealth
        while heap:
            rank = heap[0] % len(wealth)
            if heap[0] == wealth[rank]:
                return rank
            heapreplace(heap, wealth[rank])
        return None


class UnevenDivision:
    """One assignment; `divide` once.

    A member is identified by its rank in the order of ids, which also breaks ties.

    Args:
        leave_held: True if a member keeps a partition that has no replica in its rack.
    """

    def __init__(
        self,
        members: Subscriptions,
        topics: TopicLayouts,
        claims: Claims,
        racks: Racks,
        *,
        leave_held: bool = False,
    ) -> None:
        self._leave_held = leave_held
        self._topics = topics
        self._claims = claims
        self._racks = racks
        self._ids = sorted(members)
        self._rank_of = {member_id: rank for rank, member_id in enumerate(self._ids)}
        self._topics_of = [
            frozenset(topics.keys() & set(members[member_id].topics)) for member_id in self._ids
        ]
        readers: dict[str, list[int]] = {name: [] for name in topics}
        for rank, names in enumerate(self._topics_of):
            for name in names:
                readers[name].append(rank)
        self._readers = readers
        first: dict[tuple[int, ...], str] = {}
        # By topic, the first topic with the same subscribers: such topics share their heaps.
        self._like = {name: first.setdefault(tuple(each), name) for name, each in readers.items()}
        self._wealth = list(range(len(self._ids)))  # see `_Poorest`
        # Ordered sets: they keep the order of assignment, as Java's lists do.
        self._held: list[dict[TopicPartition, None]] = [{} for _ in self._ids]
        self._owner: dict[TopicPartition, int] = {}
        self._moves = Moves()
        self._poorest: dict[str, _Poorest] = {}  # by topic, of those in `_like`
        self._poorest_in_racks: dict[tuple[str, frozenset[str]], _Poorest] = {}
        self._heaps_of: list[list[_Poorest]] = [[] for _ in self._ids]

    def divide(self) -> Assigned:
        """Divide all partitions."""
        # Topics with few subscribers come first: the other topics can balance them out.
        names = sorted(self._topics, key=lambda name: (len(self._readers[name]), name))
        everything = known_partitions(self._topics, names)
        somebody_loses = self._keep_what_was_held()
        free = [partition for partition in everything if partition not in self._owner]
        fresh = not self._owner
        self._deal(free)

        def shared(topic: str) -> bool:
            return len(self._readers[topic]) >= 2

        before = [dict(held) for held in self._held]
        # A member that shares no topic with another is not affected by the others.
        sharing = [rank for rank, names in enumerate(self._topics_of) if any(map(shared, names))]
        if not somebody_loses:  # moving partitions that had no owner may be enough
            self._even_out([partition for partition in free if shared(partition.topic)])
        moved = self._even_out([partition for partition in everything if shared(partition.topic)])
        if moved and not fresh:
            evened = unevenness(len(self._held[rank]) for rank in sharing)
            if evened >= unevenness(len(before[rank]) for rank in sharing):
                self._held = before
        return {
            member_id: list(held) for member_id, held in zip(self._ids, self._held, strict=True)
        }

    def _keep_what_was_held(self) -> bool:
        """Assign what members held and still may have; True if a member loses a partition."""
        somebody_loses = False
        for member_id, partitions in self._claims.held.items():
            rank = self._rank_of[member_id]
            for partition in partitions:
                if partition.topic not in self._topics_of[rank] or (
                    not self._leave_held and self._racks.mismatch(member_id, partition)
                ):
                    somebody_loses = True
                else:
                    self._book(partition, rank)
        return somebody_loses

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        """Give each free partition to the subscriber with the fewest, in its rack if possible."""
        left = free
        if self._racks.rack_of:
            left = [partition for partition in free if not self._deal_in_rack(partition)]
        for partition in left:
            taker = self._poorest_reader(partition.topic)
            if taker is not None:
                self._book(partition, taker)

    def _deal_in_rack(self, partition: TopicPartition) -> bool:
        key = (self._like[partition.topic], self._racks.of(partition))
        poorest = self._poorest_in_racks.get(key)
        if poorest is None:
            fitting = (
                rank
                for rank in self._readers[partition.topic]
                if not self._racks.mismatch(self._ids[rank], partition)
            )
            # Not among `_heaps_of`: no member shrinks while partitions are dealt.
            poorest = self._poorest_in_racks[key] = _Poorest(fitting, self._wealth)
        taker = poorest.find()
        if taker is None:
            return False
        self._book(partition, taker)
        return True

    def _even_out(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions while that improves the balance; True if any partition moved.

        Each move takes from a member and gives to one that has at least two fewer, so it ends.
        """
        moved = False
        again = True
        while again and self._is_uneven():
            again = False
            for partition in partitions:
                owner = self._owner[partition]
                taker = self._former_owner(partition)
                if taker is None or not self._far_richer(owner, taker):
                    taker = self._poorest_reader(partition.topic)
                if taker is not None and self._far_richer(owner, taker):
                    self._move(partition, taker)
                    moved = again = True
        return moved

    def _is_uneven(self) -> bool:
        sizes = [len(held) for held in self._held]
        return max(sizes) - min(sizes) > 1

    def _far_richer(self, one: int, other: int) -> bool:
        """True if `one` still has no fewer after it gives a partition to `other`."""
        return len(self._held[one]) > len(self._held[other]) + 1

    def _former_owner(self, partition: TopicPartition) -> int | None:
        """The owner in an earlier generation, if it still subscribes to the topic."""
        member_id = self._claims.before.get(partition)
        if member_id is None:
            return None
        rank = self._rank_of[member_id]
        return rank if partition.topic in self._topics_of[rank] else None

    def _move(self, partition: TopicPartition, taker: int) -> None:
        """Move one partition from the owner to the taker, without a swap within a topic.

        If a partition moved from the taker to this one's first owner before, both moves are undone.
        """
        owner = self._owner[partition]
        back = self._moves.instead_of(partition, owner, taker)
        at_first = self._owner[back]
        if at_first != owner:
            self._transfer(partition, at_first)
        self._transfer(back, taker)

    def _transfer(self, partition: TopicPartition, taker: int) -> None:
        owner = self._owner[partition]
        self._moves.record(partition, owner, taker)
        del self._held[owner][partition]
        self._wealth[owner] -= len(self._ids)
        for heap in self._heaps_of[owner]:
            heap.push(owner)
        self._book(partition, taker)

    def _book(self, partition: TopicPartition, rank: int) -> None:
        self._held[rank][partition] = None
        self._owner[partition] = rank
        self._wealth[rank] += len(self._ids)

    def _poorest_reader(self, topic: str) -> int | None:
        like = self._like[topic]
        poorest = self._poorest.get(like)
        if poorest is None:
            readers = self._readers[like]
            poorest = self._poorest[like] = _Poorest(readers, self._wealth)
            for rank in readers:
                self._heaps_of[rank].append(poorest)
        return poorest.find()


def unevenness(sizes: Iterable[int]) -> int:
    """Java's balance score: the differences of all pairs of members, summed; 0 is even."""
    ascending = sorted(sizes)
    last = len(ascending) - 1
    return sum(size * (2 * i - last) for i, size in enumerate(ascending))
