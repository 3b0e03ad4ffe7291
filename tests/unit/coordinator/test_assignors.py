"""Assignors with aiokafka's names and interface, including an application's own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from io import BytesIO

import pytest

from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.cluster.metadata import Metadata, Partition, Topic
from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.coordinator.assignors.range import RangePartitionAssignor
from aiokafka_lite.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka_lite.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka_lite.coordinator.protocol import (
    ConsumerProtocol,
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka_lite.coordinator.strategy import ClassAssignor, assignors_of
from aiokafka_lite.errors import KafkaConfigurationError, KafkaProtocolError
from aiokafka_lite.group.assignment_data import (
    Subscription,
    read_assignment,
    read_subscription,
    write_subscription,
)
from aiokafka_lite.group.assignors.interface import choose_rebalance_protocol
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.membership import GroupMember, RebalanceProtocol
from aiokafka_lite.structs import TopicPartition

# As in an application of aiokafka, except for the name of the package.
OF_AN_APPLICATION = """
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)


class FirstTakesAll(AbstractPartitionAssignor):
    name = "first-takes-all"
    version = 0
    seen = []

    @classmethod
    def assign(cls, cluster, members):
        first = min(members, key=lambda member_id: members[member_id].user_data)
        topics = sorted({topic for each in members.values() for topic in each.subscription})
        taken = [(topic, sorted(cluster.partitions_for_topic(topic) or ())) for topic in topics]
        return {
            member_id: ConsumerProtocolMemberAssignment(
                cls.version, taken if member_id == first else [], b"you"
            )
            for member_id in members
        }

    @classmethod
    def metadata(cls, topics):
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"me")

    @classmethod
    def on_assignment(cls, assignment):
        cls.seen.append((assignment.partitions(), assignment.user_data))
"""


def cluster_of(**sizes: int) -> ClusterMetadata:
    topics = {
        name: Topic(name, partitions={number: Partition(number, 0) for number in range(size)})
        for name, size in sizes.items()
    }
    metadata = Metadata(topics=topics)
    return ClusterMetadata(lambda: metadata)


def first_takes_all() -> type[AbstractPartitionAssignor]:
    scope: dict[str, object] = {}
    exec(OF_AN_APPLICATION.replace("aiokafka", "aiokafka_lite"), scope)
    found = scope["FirstTakesAll"]
    assert isinstance(found, type)
    assert issubclass(found, AbstractPartitionAssignor)
    return found


def test_an_application_s_own_works_as_in_aiokafka() -> None:
    custom = first_takes_all()
    (assignor,) = assignors_of([custom], cluster_of(a=2, b=1))
    assert assignor.name == "first-takes-all"
    assert assignor.rebalance_protocols == {RebalanceProtocol.EAGER}
    told = assignor.subscription(frozenset({"a"}), frozenset(), 3, "north")
    assert read_subscription(told) == Subscription(("a",), user_data=b"me")

    other = write_subscription(Subscription(("a", "b", "missing"), user_data=b"zz"))  # of Java, v3
    members = [GroupMember("m1", None, other), GroupMember("m2", None, told)]
    assigned = assignor.assign(members, {})
    assert read_assignment(assigned["m1"]).partitions == ()
    every = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    assert list(assignor.on_assignment(assigned["m2"], 4)) == every
    assert assignor.on_assignment(b"", 5) == []
    assert custom.seen == [(every, b"you"), ([], b"")]  # type: ignore[attr-defined]  # its own


def test_members_without_an_assignment_get_nothing_and_unknown_members_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Absent(RoundRobinPartitionAssignor):
        name = "absent"

        @classmethod
        def assign(
            cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
        ) -> dict[str, ConsumerProtocolMemberAssignment]:
            return {"stranger": ConsumerProtocolMemberAssignment(0, [("a", [0])], None)}

    (assignor,) = assignors_of([Absent], cluster_of(a=1))
    assert isinstance(assignor, ClassAssignor)
    told = assignor.subscription(frozenset({"a"}), frozenset(), -1, None)
    assigned = assignor.assign([GroupMember("m", None, told)], {})
    assert assigned.keys() == {"m"}
    assert read_assignment(assigned["m"]).partitions == ()
    assert "stranger" in caplog.text


def test_what_another_member_owns_is_withheld_until_it_is_revoked() -> None:
    """A subclass rebalances eagerly, but a member that uses this package's class cooperates."""

    class Mine(CooperativeStickyPartitionAssignor):
        pass

    (assignor,) = assignors_of([Mine], cluster_of(a=4))
    owned = tuple(TopicPartition("a", number) for number in range(4))
    cooperates = Subscription(("a",), owned, 5)
    eager = GroupMember("m1", None, assignor.subscription(frozenset({"a"}), frozenset(), 5, None))

    members = [eager, GroupMember("m2", None, write_subscription(cooperates))]
    assigned = assignor.assign(members, {})
    kept = read_assignment(assigned["m2"]).partitions
    assert len(kept) == 2
    assert read_assignment(assigned["m1"]).partitions == ()

    again = Subscription(("a",), kept, 6)
    members = [eager, GroupMember("m2", None, write_subscription(again))]
    assigned = assignor.assign(members, {})
    assert read_assignment(assigned["m2"]).partitions == kept
    assert set(read_assignment(assigned["m1"]).partitions) == set(owned).difference(kept)


@pytest.mark.parametrize("where", ["metadata", "assign", "on_assignment"])
def test_a_cancellation_that_a_class_raises_is_an_error(where: str) -> None:
    """It would silently end a task of the membership."""

    def raises(*args: object) -> None:
        raise asyncio.CancelledError

    class Mine(RoundRobinPartitionAssignor):
        name = "mine"

    (assignor,) = assignors_of([Mine], cluster_of(a=1))
    told = assignor.subscription(frozenset({"a"}), frozenset(), -1, None)
    setattr(Mine, where, raises)
    calls: dict[str, Callable[[], object]] = {
        "metadata": lambda: assignor.subscription(frozenset({"a"}), frozenset(), -1, None),
        "assign": lambda: assignor.assign([GroupMember("m", None, told)], {}),
        "on_assignment": lambda: assignor.on_assignment(b"", 5),
    }
    with pytest.raises(RuntimeError, match="CancelledError"):
        calls[where]()


def test_a_sticky_subclass_receives_its_generation() -> None:
    class Mine(StickyPartitionAssignor):
        name = "mine"

    (assignor,) = assignors_of([Mine], cluster_of(a=3))
    told = assignor.subscription(frozenset({"a"}), frozenset(), -1, None)
    members = [GroupMember("m", None, told)]
    assignor.on_assignment(assignor.assign(members, {})["m"], 6)
    assert Mine.generation == 6
    assert Mine.metadata(["a"]).user_data.endswith(b"\x00\x00\x00\x06")  # type: ignore[union-attr]  # set
    assert StickyPartitionAssignor.member_assignment is None


def test_ours_run_as_they_are() -> None:
    chosen = [RangePartitionAssignor, CooperativeStickyPartitionAssignor]
    first, second = assignors_of(chosen, cluster_of())
    assert isinstance(first, RangeAssignor)
    assert second.name == "cooperative-sticky"
    assert assignors_of(chosen, cluster_of())[1] is not second  # one per member


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([CooperativeStickyPartitionAssignor], RebalanceProtocol.COOPERATIVE),
        ([RangePartitionAssignor], RebalanceProtocol.EAGER),
        ([CooperativeStickyPartitionAssignor, RangePartitionAssignor], RebalanceProtocol.EAGER),
        ([RangePartitionAssignor, CooperativeStickyPartitionAssignor], RebalanceProtocol.EAGER),
    ],
)
def test_one_eager_assignor_makes_all_eager(
    chosen: list[type[AbstractPartitionAssignor]], expected: RebalanceProtocol
) -> None:
    assert choose_rebalance_protocol(assignors_of(chosen, cluster_of())) is expected


@pytest.mark.parametrize("chosen", [[], [RangePartitionAssignor, RangePartitionAssignor]])
def test_no_assignor_and_repeated_names_are_refused(
    chosen: list[type[AbstractPartitionAssignor]],
) -> None:
    with pytest.raises(KafkaConfigurationError):
        assignors_of(chosen, cluster_of())


def test_assignors_without_a_common_protocol_are_refused() -> None:
    class OnlyCooperative(RangeAssignor):
        name = "only-cooperative"
        rebalance_protocols = frozenset({RebalanceProtocol.COOPERATIVE})

    with pytest.raises(KafkaConfigurationError, match="in common"):
        choose_rebalance_protocol([OnlyCooperative(), RangeAssignor()])


@pytest.mark.parametrize("chosen", ["range", AbstractPartitionAssignor, object()])
def test_an_object_that_is_no_assignor_is_refused(chosen: object) -> None:
    with pytest.raises(TypeError):
        assignors_of([chosen], cluster_of())  # type: ignore[list-item]  # just that


NATIVE = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyPartitionAssignor,
]


@pytest.mark.parametrize("assignor", NATIVE)
def test_ours_in_aiokafka_s_form(assignor: type[AbstractPartitionAssignor]) -> None:
    cluster = cluster_of(a=3, b=2)
    members = {f"m{i}": assignor.metadata(["a", "b", "missing"]) for i in range(2)}
    assigned = assignor.assign(cluster, members)
    every = [partition for each in assigned.values() for partition in each.partitions()]
    assert len(every) == len(set(every)) == 5
    assert [len(each.partitions()) for each in assigned.values()] in ([3, 2], [2, 3])


@pytest.mark.parametrize(
    ("module", "name"),
    [("range", "RangePartitionAssignor"), ("roundrobin", "RoundRobinPartitionAssignor")],
)
def test_aiokafka_assigns_the_same(module: str, name: str) -> None:
    theirs_of = pytest.importorskip(f"aiokafka.coordinator.assignors.{module}")
    theirs = getattr(theirs_of, name)
    ours = {each.__name__: each for each in NATIVE}[name]
    chance = random.Random(20261121)
    for _ in range(100):
        cluster = cluster_of(**{topic: chance.randint(1, 9) for topic in "abc"})
        topics = {
            f"m{i}": chance.sample("abcx", chance.randint(1, 4))
            for i in range(chance.randint(1, 6))
        }
        their_members = {member_id: theirs.metadata(each) for member_id, each in topics.items()}
        our_members = {member_id: ours.metadata(each) for member_id, each in topics.items()}
        for member_id, metadata in our_members.items():
            assert metadata.encode() == their_members[member_id].encode()
        their_assigned = theirs.assign(cluster, their_members)
        assigned = ours.assign(cluster, our_members)
        for member_id, mine in assigned.items():
            assert mine.partitions() == sorted(their_assigned[member_id].partitions())


def test_the_data_is_read_as_it_was_written() -> None:
    metadata = ConsumerProtocolMemberMetadata(1, ["a", "b"], None)
    assert ConsumerProtocol.METADATA.decode(metadata.encode()) == metadata
    assignment = ConsumerProtocolMemberAssignment(0, [("a", [0, 2])], b"x")
    assert ConsumerProtocol.ASSIGNMENT.decode(BytesIO(assignment.encode())) == assignment
    assert assignment.partitions() == [TopicPartition("a", 0), TopicPartition("a", 2)]
    assert len({metadata, assignment}) == 2
    with pytest.raises(KafkaProtocolError):
        ConsumerProtocolMemberMetadata.decode(b"\x00")
