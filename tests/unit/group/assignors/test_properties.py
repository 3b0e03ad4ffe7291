"""Invariants of every assignment of any group, and of consecutive sticky assignments."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.group.assignment_data import Subscription
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import cooperative_sticky_assignment
from aiokafka_lite.group.assignors.sticky_assignment import divide_by_claims
from aiokafka_lite.group.assignors.sticky_claims import Claim
from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.structs import TopicPartition
from tests.unit.group.assignors.cases import (
    ASSIGNORS,
    Case,
    histories,
    random_case,
    some_layout,
    some_of,
)

EAGER = ("range", "roundrobin", "sticky")
SEEDS = st.integers(0, 2**32)


def wanted(case: Case) -> set[TopicPartition]:
    topics = {topic for member in case.members.values() for topic in member.topics}
    return {
        TopicPartition(name, number)
        for name in topics & case.topics.keys()
        for number in range(case.topics[name].partitions)
    }


def check_valid(case: Case, assigned: dict[str, list[TopicPartition]], *, all_given: bool) -> None:
    assert assigned.keys() == case.members.keys()
    owners = Counter(partition for mine in assigned.values() for partition in mine)
    assert set(owners.values()) <= {1}
    if all_given:
        assert owners.keys() == wanted(case)
    else:
        assert owners.keys() <= wanted(case)
    for member_id, mine in assigned.items():
        assert {partition.topic for partition in mine} <= set(case.members[member_id].topics)


@pytest.mark.parametrize("assignor", EAGER)
@given(seed=SEEDS)
def test_each_partition_has_one_owner_that_subscribes_to_it(assignor: str, seed: int) -> None:
    case = random_case(assignor, random.Random(seed))
    check_valid(case, case.ours(), all_given=True)


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(seed=SEEDS)
def test_the_assignment_does_not_depend_on_the_order_of_members(assignor: str, seed: int) -> None:
    chance = random.Random(seed)
    case = random_case(assignor, chance)
    members = list(case.members.items())
    chance.shuffle(members)
    topics = list(case.topics.items())
    chance.shuffle(topics)
    assert replace(case, members=dict(members), topics=dict(topics)).ours() == case.ours()


@given(seed=SEEDS)
def test_range_is_even_in_each_topic(seed: int) -> None:
    case = random_case("range", random.Random(seed))
    assigned = case.ours()
    for topic in case.topics:
        counts = [
            sum(partition.topic == topic for partition in assigned[member_id])
            for member_id, member in case.members.items()
            if topic in member.topics
        ]
        assert not counts or max(counts) - min(counts) <= 1


@given(seed=SEEDS)
def test_range_gives_equal_numbers_of_like_topics_to_one_member(seed: int) -> None:
    chance = random.Random(seed)
    case = random_case("range", chance)
    names = sorted(case.topics)
    size = chance.randint(1, 12)
    layout = replace_layout(case.topics[names[0]], size)
    members = {
        member_id: replace(member, topics=tuple(names))
        for member_id, member in case.members.items()
    }
    assigned = Case("range", dict.fromkeys(names, layout), members, True).ours()
    for mine in assigned.values():
        numbers = [
            {partition.partition for partition in mine if partition.topic == name} for name in names
        ]
        assert all(each == numbers[0] for each in numbers)


def replace_layout(layout: TopicLayout, size: int) -> TopicLayout:
    racks = tuple(layout.racks[i % len(layout.racks)] for i in range(size)) if layout.racks else ()
    return TopicLayout(size, racks)


@given(seed=SEEDS)
def test_sticky_is_so_even_that_no_move_would_help(seed: int) -> None:
    case = random_case("sticky", random.Random(seed))
    assigned = case.ours()
    for poor, member in case.members.items():
        for rich, theirs in assigned.items():
            if len(theirs) > len(assigned[poor]) + 1:
                assert all(partition.topic not in member.topics for partition in theirs), (
                    f"{rich} could give to {poor}"
                )


def without_racks(case: Case) -> Case:
    """Racks cost stickiness: as in Java, partitions outside their owner's rack are reassigned."""
    members = {member_id: replace(member, rack=None) for member_id, member in case.members.items()}
    return replace(case, members=members)


@given(seed=SEEDS)
def test_sticky_moves_nothing_without_need(seed: int) -> None:
    for case in map(without_racks, histories("sticky", random.Random(seed), 3)):
        first = case.ours()
        claims = {member_id: Claim(tuple(mine), 7) for member_id, mine in first.items()}
        again, moving = divide_by_claims(case.members, case.topics, claims)
        assert {k: set(v) for k, v in again.items()} == {k: set(v) for k, v in first.items()}
        assert not moving


@settings(max_examples=50)
@given(seed=SEEDS)
def test_a_leaving_member_moves_no_partition_of_the_others(seed: int) -> None:
    """With equal subscriptions and no racks, all remaining members keep all their partitions."""
    chance = random.Random(seed)
    topics = {name: TopicLayout(chance.randint(1, 20)) for name in "abc"}
    members = {f"m{i}": Subscription(tuple("abc")) for i in range(chance.randint(2, 12))}
    first, _ = divide_by_claims(members, topics, dict.fromkeys(members, Claim((), -1)))
    gone = chance.choice(sorted(members))
    del members[gone]
    claims = {member_id: Claim(tuple(first[member_id]), 1) for member_id in members}
    second, _ = divide_by_claims(members, topics, claims)
    for member_id in members:
        assert set(first[member_id]) <= set(second[member_id])


@given(seed=SEEDS)
def test_a_new_member_moves_only_its_own_share(seed: int) -> None:
    chance = random.Random(seed)
    topics = {name: TopicLayout(chance.randint(1, 20)) for name in "abc"}
    members = {f"m{i}": Subscription(tuple("abc")) for i in range(chance.randint(1, 12))}
    first, _ = divide_by_claims(members, topics, dict.fromkeys(members, Claim((), -1)))
    claims = {member_id: Claim(tuple(mine), 1) for member_id, mine in first.items()}
    members["new"] = Subscription(tuple("abc"))
    claims["new"] = Claim((), -1)
    second, _ = divide_by_claims(members, topics, claims)
    moved = sum(
        len(set(second[member_id]).difference(first.get(member_id, ()))) for member_id in second
    )
    assert moved == len(second["new"])
    counts = [len(mine) for mine in second.values()]
    assert max(counts) - min(counts) <= 1


@given(seed=SEEDS)
def test_cooperative_never_moves_from_one_member_to_another_in_one_step(seed: int) -> None:
    for case in histories("cooperative-sticky", random.Random(seed), 6):
        assigned = case.ours()
        check_valid(case, assigned, all_given=False)
        for member_id, mine in assigned.items():
            for other, member in case.members.items():
                if other != member_id:
                    taken = set(mine).intersection(member.owned)
                    assert taken <= set(case.members[member_id].owned)


@given(seed=SEEDS)
def test_cooperative_settles_one_step_after_sticky(seed: int) -> None:
    """At most one more, if revoked partitions are assigned differently from the plan."""
    case = without_racks(random_case("cooperative-sticky", random.Random(seed)))
    even = len({frozenset(member.topics) for member in case.members.values()}) == 1
    members = dict(case.members)
    for generation in range(10, 12 if even else 14):
        assigned = cooperative_sticky_assignment(members, case.topics)
        members = {
            member_id: replace(member, owned=tuple(assigned[member_id]), generation=generation)
            for member_id, member in members.items()
        }
    check_valid(case, assigned, all_given=True)
    again = cooperative_sticky_assignment(members, case.topics)
    assert {k: set(v) for k, v in again.items()} == {k: set(v) for k, v in assigned.items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("rack", [None, "north"])
def test_a_thousand_members_share_ten_thousand_partitions(
    assignor: str, uneven: bool, rack: str | None
) -> None:
    """This many are assigned quickly; otherwise the test would take minutes."""
    chance = random.Random(20261121)
    topics = {f"t{i}": some_layout(chance, rack is not None, 500) for i in range(20)}
    members = {
        f"m{i}": Subscription(
            some_of(chance, sorted(topics)) if uneven else tuple(topics), rack=rack
        )
        for i in range(1000)
    }
    case = Case(assignor, topics, members, in_order=False)
    assigned = case.ours()
    check_valid(case, assigned, all_given=True)
    if not uneven:
        counts = [len(mine) for mine in assigned.values()]
        assert max(counts) - min(counts) <= (len(topics) if assignor == "range" else 1)


@given(seed=SEEDS)
def test_cooperative_settles_with_racks_too(seed: int) -> None:
    """Some groups never do in Java, which repeatedly moves partitions outside their owner's
    rack."""
    case = random_case("cooperative-sticky", random.Random(seed))
    members = dict(case.members)
    for generation in range(10, 20):
        assigned = cooperative_sticky_assignment(members, case.topics)
        if sum(map(len, assigned.values())) == len(wanted(case)):
            return
        members = {
            member_id: replace(member, owned=tuple(assigned[member_id]), generation=generation)
            for member_id, member in members.items()
        }
    raise AssertionError("it rebalances for ever")


@pytest.mark.parametrize("seed", [31, 382, 1124, 1125])
def test_groups_that_never_settle_in_java(seed: int) -> None:
    test_cooperative_settles_with_racks_too.hypothesis.inner_test(seed)  # type: ignore[attr-defined]  # Hypothesis adds it
