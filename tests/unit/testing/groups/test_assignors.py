"""The server-side assignors: complete, without duplicates, balanced, and with few moves."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.testing.groups.assignors import ASSIGNORS, Candidate, Partitions, assign

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def flat(target: dict[str, Partitions]) -> dict[str, list[tuple[int, int]]]:
    return {
        member_id: sorted(
            (topic_id.int, number) for topic_id in owned for number in owned[topic_id]
        )
        for member_id, owned in target.items()
    }


def test_no_members_or_no_topics_give_an_empty_assignment() -> None:
    assert assign("uniform", {}, {A: 3}) == {}
    assert assign("range", {"a": Candidate(frozenset())}, {}) == {"a": {}}
    assert assign("uniform", {"a": Candidate(frozenset())}, {}) == {"a": {}}


def test_ranges_are_the_same_for_topics_of_one_size() -> None:
    """Derived by hand from the contract of Kafka's RangeAssignor."""
    members = {name: Candidate(frozenset({A, B})) for name in ("c", "a", "b")}
    assert flat(assign("range", members, {A: 7, B: 7})) == {
        "a": [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)],
        "b": [(1, 3), (1, 4), (2, 3), (2, 4)],
        "c": [(1, 5), (1, 6), (2, 5), (2, 6)],
    }


def test_ranges_go_by_instance_ids_first() -> None:
    both = frozenset({A})
    members = {
        "a": Candidate(both),
        "y": Candidate(both, instance_id="2"),
        "z": Candidate(both, instance_id="1"),
    }
    assert flat(assign("range", members, {A: 3})) == {
        "z": [(1, 0)],
        "y": [(1, 1)],
        "a": [(1, 2)],
    }


def test_range_leaves_out_members_without_the_subscription() -> None:
    members = {"a": Candidate(frozenset({A})), "b": Candidate(frozenset({A, B}))}
    assert flat(assign("range", members, {A: 3, B: 2})) == {
        "a": [(1, 0), (1, 1)],
        "b": [(1, 2), (2, 0), (2, 1)],
    }


def test_uniform_moves_as_few_partitions_as_possible() -> None:
    topics = frozenset({A})
    before = {"a": {A: frozenset({0, 1, 2})}, "b": {A: frozenset({3, 4, 5})}}
    members = {name: Candidate(topics, owned) for name, owned in before.items()}
    members["c"] = Candidate(topics)
    after = assign("uniform", members, {A: 6})
    assert {name: len(owned[A]) for name, owned in after.items()} == {"a": 2, "b": 2, "c": 2}
    assert after["a"][A] < before["a"][A]
    assert after["b"][A] < before["b"][A]


def test_uniform_gives_the_topics_of_one_to_that_one() -> None:
    members = {
        "a": Candidate(frozenset({A, B})),
        "b": Candidate(frozenset({B})),
        "c": Candidate(frozenset({B, C})),
    }
    after = assign("uniform", members, {A: 4, B: 4, C: 1})
    sizes = Counter({name: sum(map(len, owned.values())) for name, owned in after.items()})
    assert sizes == {"a": 4, "b": 3, "c": 2} or sizes == {"a": 4, "b": 2, "c": 3}
    assert after["a"][A] == frozenset(range(4))


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Candidate], dict[UUID, int]]:
    topic_ids = [UUID(int=number) for number in range(1, draw(st.integers(1, 5)) + 1)]
    counts = {topic_id: draw(st.integers(1, 7)) for topic_id in topic_ids}
    names = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    alike = draw(st.booleans())
    same = frozenset(draw(st.sets(st.sampled_from(topic_ids), min_size=1)))
    wanted = {
        name: same if alike else frozenset(draw(st.sets(st.sampled_from(topic_ids))))
        for name in names
    }
    previous: dict[str, dict[UUID, set[int]]] = {name: {} for name in names}
    for topic_id, count in counts.items():
        for number in range(count):
            owner = draw(st.sampled_from([*names, ""]))
            if owner:
                previous[owner].setdefault(topic_id, set()).add(number)
    members = {name: Candidate(wanted[name], previous[name]) for name in names}
    read = frozenset[UUID]().union(*wanted.values())
    return members, {topic_id: count for topic_id, count in counts.items() if topic_id in read}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups())
@settings(max_examples=150, deadline=None)
def test_each_partition_is_assigned_once_and_to_a_subscriber(
    name: str, group: tuple[dict[str, Candidate], dict[UUID, int]]
) -> None:
    members, counts = group
    target = assign(name, members, counts)
    assert target.keys() == members.keys()
    given_out = Counter(each for owned in flat(target).values() for each in owned)
    assert given_out == Counter(
        (topic_id.int, number) for topic_id, count in counts.items() for number in range(count)
    )
    for member_id, owned in target.items():
        assert owned.keys() <= members[member_id].topic_ids


@given(group=groups())
@settings(max_examples=150, deadline=None)
def test_uniform_is_balanced_and_stays(group: tuple[dict[str, Candidate], dict[UUID, int]]) -> None:
    members, counts = group
    target = assign("uniform", members, counts)
    sizes = {member_id: sum(map(len, owned.values())) for member_id, owned in target.items()}
    for member_id, owned in target.items():  # no member could give another what it lacks
        for topic_id in owned:
            takers = [one for one in members if topic_id in members[one].topic_ids]
            assert sizes[member_id] - min(sizes[one] for one in takers) <= 1
    again = {
        member_id: Candidate(member.topic_ids, target[member_id])
        for member_id, member in members.items()
    }
    assert assign("uniform", again, counts) == target
