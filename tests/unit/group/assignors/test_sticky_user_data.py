"""The partitions that sticky members report, read from arbitrary bytes."""

from __future__ import annotations

import pytest

from aiokafka_lite.group.assignment_data import (
    Assignment,
    Subscription,
    read_subscription,
    write_assignment,
)
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import (
    CooperativeStickyAssignor,
    cooperative_sticky_assignment,
)
from aiokafka_lite.group.assignors.sticky_assignment import (
    StickyAssignor,
    read_user_data,
    write_user_data,
)
from aiokafka_lite.group.assignors.sticky_claims import Claim, settle_claims
from aiokafka_lite.group.membership import GroupMember, TopicLayout
from aiokafka_lite.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
NOTHING = Claim((), -1)


def test_it_is_read_as_it_was_written() -> None:
    assert read_user_data(write_user_data(Claim((A, B), 5))) == Claim((A, B), 5)


def test_version_0_has_no_generation() -> None:
    assert read_user_data(write_user_data(Claim((A, B), 5))[:-4]) == Claim((A, B), -1)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\x00"])
def test_unreadable_user_data_claims_no_partition(data: bytes | None) -> None:
    assert read_user_data(data) == NOTHING


def test_a_sticky_member_reports_its_last_assignment() -> None:
    assignor = StickyAssignor()
    topics = frozenset({"a"})
    assert read_subscription(assignor.subscription(topics, frozenset(), 3, None)).user_data is None
    assert set(assignor.on_assignment(write_assignment(Assignment((A, B))), 4)) == {A, B}
    told = read_subscription(assignor.subscription(topics, frozenset(), 4, "north"))
    assert read_user_data(told.user_data) == Claim((A, B), 4)
    assert (told.topics, told.owned, told.generation, told.rack) == (("a",), (), 4, "north")


def test_members_share_no_memory() -> None:
    one, other = StickyAssignor(), StickyAssignor()
    one.on_assignment(write_assignment(Assignment((A,))), 1)
    assert other.user_data() is None


def test_a_cooperative_member_sends_its_generation_in_the_user_data_too() -> None:
    """Leaders before Kafka 3.5 read it from the user data (KIP-792)."""
    assignor = CooperativeStickyAssignor()
    assert assignor.user_data() == b"\xff\xff\xff\xff"
    assignor.on_assignment(write_assignment(Assignment((A,))), 7)
    told = read_subscription(assignor.subscription(frozenset({"a"}), frozenset({A}), 7, None))
    assert (told.owned, told.generation, told.user_data) == ((A,), 7, b"\x00\x00\x00\x07")


@pytest.mark.parametrize(
    ("generation", "user_data", "keeps"),
    [
        (3, None, "new"),  # from the subscription
        (-1, b"\x00\x00\x00\x03", "new"),  # from the user data
        (3, b"\x00\x00\x00\x01", "new"),  # the subscription counts
        (-1, b"\x00", "old"),  # unreadable: as if it had never been a member
        (-1, None, "old"),
    ],
)
def test_the_owner_with_the_later_generation_keeps_a_partition(
    generation: int, user_data: bytes | None, keeps: str
) -> None:
    topics = {"a": TopicLayout(2)}
    both = (TopicPartition("a", 0),)
    members = {
        "new": Subscription(("a",), both, generation, None, user_data),
        "old": Subscription(("a",), both, 2),
    }
    assigned = cooperative_sticky_assignment(members, topics)
    assert assigned[keeps] == [TopicPartition("a", 0)]


def test_two_claims_of_one_generation_are_both_wrong() -> None:
    """Neither may keep it: both have to revoke it before any member gets it."""
    topics = {"a": TopicLayout(2)}
    both = (TopicPartition("a", 0),)
    members = {each: Subscription(("a",), both, 2) for each in ("m1", "m2")}
    claims = settle_claims({each: Claim(both, 2) for each in members}, topics)
    assert claims.contested == set(both)
    assert claims.held == {"m1": [], "m2": []}
    given = cooperative_sticky_assignment(members, topics)
    assert sorted(given.values()) == [[], [TopicPartition("a", 1)]]


def test_claims_of_deleted_partitions_are_ignored() -> None:
    """A topic recreated with fewer partitions, and a deleted one: Java would assign others
    twice."""
    gone = (TopicPartition("a", 5), TopicPartition("deleted", 0), TopicPartition("a", -1))
    claims = settle_claims({"m": Claim((*gone, TopicPartition("a", 1)), 1)}, {"a": TopicLayout(2)})
    assert claims.held == {"m": [TopicPartition("a", 1)]}


def test_a_former_owner_that_has_left_its_topic_does_not_get_it_back() -> None:
    topics = {"a": TopicLayout(4), "b": TopicLayout(1), "c": TopicLayout(1)}
    every = tuple(TopicPartition("a", number) for number in range(4))
    members = {
        "former": Subscription(("b",), every, 1),
        "now": Subscription(("a", "b"), every, 2),
        "third": Subscription(("a", "c"), (), 2),
    }
    given = cooperative_sticky_assignment(members, topics)
    assert all(partition.topic == "b" for partition in given["former"])


def test_a_member_without_topics_gets_no_partition() -> None:
    """A pattern that matches no topic yet is such a subscription."""
    members = {"idle": Subscription(()), "m": Subscription(("a",))}
    given = cooperative_sticky_assignment(members, {"a": TopicLayout(3)})
    assert given == {"idle": [], "m": [TopicPartition("a", number) for number in range(3)]}


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()])
def test_no_members_no_topics(assignor: StickyAssignor | CooperativeStickyAssignor) -> None:
    assert assignor.assign([], {}) == {}
    member = GroupMember("m", None, assignor.subscription(frozenset({"a"}), frozenset(), -1, None))
    assert assignor.assign([member], {}) == {"m": write_assignment(Assignment())}
