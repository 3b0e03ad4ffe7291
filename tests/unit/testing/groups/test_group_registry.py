"""The groups of a cluster are created, replaced, deleted, and notified of coordinator moves."""

import pytest

from aiokafka_lite.errors import GroupIdNotFound
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group, PartitionCheck
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from tests.unit.testing.groups.members import FakeMember, form
from tests.unit.testing.groups.test_group_offsets import WEEK, commit, committed, consumer
from tests.unit.testing.raw import SocketlessBroker


class OtherGroup(Group):
    """A kind of group without the classic protocol."""

    kind = "consumer"
    is_there = True

    @property
    def state(self) -> str:
        return "Stable" if self.is_there else "Empty"

    def subscribed_topics(self) -> frozenset[str] | None:
        return frozenset({"orders"})

    def check_commit(
        self,
        member_id: str,
        generation_or_epoch: int,
        instance_id: str | None,
        *,
        transactional: bool,
        version: int = 9,
    ) -> PartitionCheck | None:
        def check(topic: str, partition: int) -> None:
            if partition:
                raise GroupIdNotFound("only the first")

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_epoch > 0:
            raise GroupIdNotFound("nobody")


@pytest.fixture
def broker() -> SocketlessBroker:
    broker = SocketlessBroker(3)
    broker.state.create_topic("orders", 2)
    broker.state.create_topic("other", 1)
    return broker


@pytest.fixture
def node(broker: SocketlessBroker) -> int:
    """The coordinator of "g"."""
    return broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id


def test_a_group_that_replaces_another_has_its_offsets(broker: SocketlessBroker) -> None:
    groups = broker.state.groups
    classic = groups.classic("g")
    assert groups.classic("g") is classic
    classic.offsets.commit("orders", 0, CommittedOffset(5))
    other = OtherGroup("g", groups.offsets_of("g"))
    groups.put(other)
    groups.put(other)
    assert classic.state == "Dead"
    assert groups.get("g") is other
    assert other.offsets.find("orders", 0) is not None
    with pytest.raises(GroupIdNotFound):
        groups.classic("g")
    other.is_there = False
    assert isinstance(groups.classic("g"), ClassicGroup)
    assert groups.classic("g").offsets.find("orders", 0) is not None


def test_a_deleted_group_is_not_notified(broker: SocketlessBroker, node: int) -> None:
    groups = broker.state.groups
    groups.classic("g").offsets.commit("orders", 0, CommittedOffset(5))
    groups.delete("g")
    groups.delete("g")
    assert groups.get("g") is None
    assert list(groups.all()) == []
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", (node + 1) % 3)
    assert groups.classic("g").offsets.all() == {}


def test_a_group_outlives_the_death_of_all_brokers(broker: SocketlessBroker, node: int) -> None:
    member, newcomer = FakeMember(broker, node=node), FakeMember(broker, node=node)
    form(member)
    for _ in range(2):
        joining = newcomer.begin_join()
        assert joining.answer is None
        for node_id in range(3):
            broker.state.on_node_down(node_id)
        assert joining.code == 16
        newcomer.member_id = ""
        broker.state.on_node_up(node)
        assert member.beat() == 0
        broker.state.coordinators.move(CoordinatorType.GROUP, "another", node)
        assert member.join().generation_id == 2  # which is discarded, because it was never assigned
        member.generation = 1


def test_another_kind_of_group_has_no_classic_members(broker: SocketlessBroker, node: int) -> None:
    other = OtherGroup("g", broker.state.groups.offsets_of("g"))
    broker.state.groups.put(other)
    member = FakeMember(broker, node=node)
    assert member.begin_join().code == 23
    assert member.begin_sync().code == 25
    assert member.beat() == 25
    assert member.leave() == 25
    other.is_there = False
    assert member.begin_sync().code == 25
    member.member_id = "me"
    assert member.begin_join().code == 25
    member.member_id = ""
    assert member.begin_join().answer.generation_id == 1


def test_a_group_may_refuse_single_partitions(broker: SocketlessBroker, node: int) -> None:
    broker.state.groups.put(OtherGroup("g", broker.state.groups.offsets_of("g")))
    assert commit(broker, 5, 6, node=node) == [0, 69]
    assert committed(broker, node=node) == [5, -1]


def test_a_new_coordinator_has_the_subscriptions_of_members(
    broker: SocketlessBroker, node: int
) -> None:
    member = consumer(broker, "orders")
    member.node = node
    form(member)
    commit(broker, 1, member=member, node=node)
    commit(broker, 2, topic="other", member=member, node=node)
    member.node = (node + 1) % 3
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", member.node)
    for _ in range(360):
        broker.clock.advance(WEEK / 350)
        assert member.beat() == 0
    assert committed(broker, node=member.node) == [1, -1]
    assert committed(broker, topic="other", node=member.node) == [-1, -1]
