"""Groups to be assigned: seeded random ones, and the histories of groups through rebalances."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from aiokafka_lite.group.assignment_data import Subscription, write_subscription
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from aiokafka_lite.group.assignors.interface import NativeAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor
from aiokafka_lite.group.assignors.sticky_assignment import StickyAssignor, write_user_data
from aiokafka_lite.group.assignors.sticky_claims import Claim
from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.structs import TopicPartition

ASSIGNORS: dict[str, type[NativeAssignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
STICKY = ("sticky", "cooperative-sticky")

# Java iterates over its members in the order of a hash map. For up to twelve such names (or 24 with
# a map of twice the size) that is the alphabetical order that this package uses.
IN_ORDER = "abcdefghijklmno"
RACKS = ("north", "south", "west")


@dataclass(frozen=True)
class Case:
    """One input of an assignor.

    Attributes:
        in_order: True if Java, too, iterates over the members in the order of their names.
    """

    assignor: str
    topics: Mapping[str, TopicLayout]
    members: Mapping[str, Subscription]
    in_order: bool

    def ours(self) -> dict[str, list[TopicPartition]]:
        return ASSIGNORS[self.assignor].divide(self.members, self.topics)

    def to_json(self) -> dict[str, object]:
        """The input in the format of tools/kafka/java/Assign.java."""
        return {
            "assignor": self.assignor,
            "topics": {
                name: [sorted(racks) for racks in layout.racks] or [[]] * layout.partitions
                for name, layout in self.topics.items()
            },
            "members": {
                member_id: {
                    "subscription": write_subscription(member).hex(),
                    "instance": member.instance_id,
                }
                for member_id, member in self.members.items()
            },
        }


def random_case(assignor: str, chance: random.Random) -> Case:
    """A group without a history: its members' claims may contradict each other."""
    in_order = chance.random() < 0.7
    racks = chance.random() < 0.4
    topics = some_topics(chance, racks)
    members = some_members(chance, topics, in_order, racks)
    if assignor in STICKY and chance.random() < 0.8:
        members = with_claims(assignor, members, random_claims(members, topics, chance), chance)
    return Case(assignor, topics, members, in_order)


def histories(assignor: str, chance: random.Random, rebalances: int) -> Iterator[Case]:
    """The rebalances of one group: members join, leave and change subscriptions, topics grow."""
    in_order = chance.random() < 0.7
    racks = chance.random() < 0.3
    uneven = chance.random() < 0.6
    topics = some_topics(chance, racks)
    members = some_members(chance, topics, in_order, racks, uneven=uneven)
    held: dict[str, tuple[TopicPartition, ...]] = {}
    for generation in range(1, rebalances + 1):
        claims = {
            member_id: Claim(held.get(member_id, ()), generation - 1 if member_id in held else -1)
            for member_id in members
        }
        case = Case(assignor, topics, with_claims(assignor, members, claims), in_order)
        yield case
        held = {member_id: tuple(mine) for member_id, mine in case.ours().items()}
        members = dict(members)
        for _ in range(chance.randrange(3)):
            what = chance.random()
            if what < 0.4 and len(members) > 1:
                del members[chance.choice(sorted(members))]
            elif what < 0.8:
                newcomers = some_members(chance, topics, in_order, racks, uneven=uneven)
                for member_id in sorted(newcomers.keys() - members.keys())[:2]:
                    if len(members) < 12:
                        members[member_id] = newcomers[member_id]
            elif uneven:
                member_id = chance.choice(sorted(members))
                members[member_id] = replace(
                    members[member_id], topics=some_of(chance, sorted(topics))
                )
        if not uneven:
            same = tuple(sorted(topics))
            members = {member_id: replace(m, topics=same) for member_id, m in members.items()}
        if chance.random() < 0.2:
            name = chance.choice(sorted(topics))
            topics = {**topics, name: some_layout(chance, racks, topics[name].partitions + 2)}


def some_topics(chance: random.Random, racks: bool) -> dict[str, TopicLayout]:
    names = sorted(chance.sample("abcdefgh", chance.randint(1, 6)))
    size = chance.randint(1, 9)
    return {
        name: some_layout(chance, racks, size if chance.random() < 0.5 else chance.randint(1, 12))
        for name in names
    }


def some_layout(chance: random.Random, racks: bool, partitions: int) -> TopicLayout:
    if not racks:
        return TopicLayout(partitions)
    most = chance.choice((1, 2, 2, 3))
    return TopicLayout(
        partitions,
        tuple(
            frozenset(chance.sample(RACKS, chance.randint(min(1, most), most)))
            for _ in range(partitions)
        ),
    )


def some_members(
    chance: random.Random,
    topics: Mapping[str, TopicLayout],
    in_order: bool,
    racks: bool,
    *,
    uneven: bool | None = None,
) -> dict[str, Subscription]:
    count = chance.randint(1, 12)
    if in_order:
        ids = chance.sample(IN_ORDER, min(count, len(IN_ORDER)))
    else:
        ids = [f"consumer-{chance.randrange(10**6)}" for _ in range(count)]
    if uneven is None:
        uneven = chance.random() < 0.5
    static = chance.random() < 0.3
    names = sorted(topics)
    return {
        member_id: Subscription(
            topics=some_of(chance, [*names, "missing"]) if uneven else tuple(names),
            rack=chance.choice((*RACKS, "elsewhere", None)) if racks else None,
            instance_id=f"i{ids.index(member_id)}" if static and chance.random() < 0.6 else None,
        )
        for member_id in sorted(ids)
    }


def some_of(chance: random.Random, names: list[str]) -> tuple[str, ...]:
    return tuple(sorted(chance.sample(names, chance.randint(1, len(names)))))


def random_claims(
    members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout], chance: random.Random
) -> dict[str, Claim]:
    """Claims of a few generations; sometimes two members claim the same partition.

    Never three: with three, Java's result depends on the order of its hash map.
    """
    held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    contested = chance.choice((0.0, 0.0, 0.2))
    for name, layout in topics.items():
        for number in range(layout.partitions):
            for member_id in chance.sample(
                sorted(members), min(len(members), 2 if chance.random() < contested else 1)
            ):
                if chance.random() < 0.8 and name in members[member_id].topics:
                    held[member_id].append(TopicPartition(name, number))
    newest = chance.randint(1, 3)
    return {
        member_id: Claim(tuple(partitions), chance.randint(max(0, newest - 1), newest))
        for member_id, partitions in held.items()
    }


def with_claims(
    assignor: str,
    members: Mapping[str, Subscription],
    claims: Mapping[str, Claim],
    chance: random.Random | None = None,
) -> dict[str, Subscription]:
    """Members that report what they held in their assignor's format."""
    if assignor == "sticky":
        return {
            member_id: replace(
                member,
                # Java reads the other's generation here, not from the user data.
                generation=claims[member_id].generation,
                user_data=write_user_data(claims[member_id])
                if claims[member_id].generation >= 0
                else None,
            )
            for member_id, member in members.items()
        }
    if assignor == "cooperative-sticky":
        return {
            member_id: replace(
                member,
                owned=claims[member_id].partitions,
                generation=claims[member_id].generation,
                user_data=claims[member_id].generation.to_bytes(4, "big", signed=True),
            )
            for member_id, member in members.items()
        }
    return dict(members)
