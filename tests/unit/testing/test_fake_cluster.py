"""The effects of a cluster's methods on the state from which the brokers respond."""

import pytest

from aiokafka_lite.errors import InvalidPartitionsError, TopicAlreadyExistsError
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from tests.unit.testing.raw import make_batch


def leaders(cluster: FakeCluster, topic: str) -> list[int]:
    return [partition.leader for partition in cluster.state.topics[topic].partitions]


async def test_leaders_go_round_the_brokers() -> None:
    async with FakeCluster(brokers=3, topics={"a": 5, "b": 1}, racks=["x", None, "y"]) as cluster:
        assert leaders(cluster, "a") == [0, 1, 2, 0, 1]
        assert leaders(cluster, "b") == [0]
        assert cluster.bootstrap_servers.count(":") == 3
        assert [node.rack for node in cluster.state.nodes.values()] == ["x", None, "y"]
        cluster.add_partitions("b", 4)
        assert leaders(cluster, "b") == [0, 1, 2, 0]
        with pytest.raises(InvalidPartitionsError):
            cluster.add_partitions("b", 4)
        with pytest.raises(TopicAlreadyExistsError):
            cluster.create_topic("a")


async def test_topics_made_while_a_broker_is_down() -> None:
    async with FakeCluster(brokers=2) as cluster:
        cluster.kill(0)
        cluster.create_topic("a", 2)
        assert leaders(cluster, "a") == [1, 1]
        assert cluster.partition("a", 0).isr == [1]
        await cluster.restart(0)
        assert cluster.partition("a", 0).isr == [0, 1]


async def test_a_leader_that_was_no_replica() -> None:
    async with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("a", 1, replication_factor=1)
        cluster.move_leader("a", 0, 2)
        partition = cluster.partition("a", 0)
        assert (partition.leader, partition.leader_epoch) == (2, 1)
        assert partition.replicas == partition.isr == [0, 2]
        with pytest.raises(ValueError):
            cluster.move_leader("a", 0, 3)


async def test_ports_and_killing() -> None:
    async with FakeCluster(brokers=2, topics={"a": 1}) as cluster:
        addresses = cluster.bootstrap_servers
        for _ in range(3):
            cluster.kill(1)
            cluster.kill(1)
            await cluster.restart(1)
            await cluster.restart(1)
        assert cluster.bootstrap_servers == addresses
        cluster.kill(0)
        cluster.kill(1)
        assert leaders(cluster, "a") == [-1]
        await cluster.restart(0)  # it was not the last one in sync
        assert leaders(cluster, "a") == [-1]
        await cluster.restart(1)
        assert (leaders(cluster, "a"), cluster.partition("a", 0).isr) == ([1], [0, 1])


def test_records_can_be_deleted() -> None:
    cluster = FakeCluster()
    cluster.create_topic("a")
    partition = cluster.partition("a", 0)
    batch = memoryview(make_batch((1, None, b"x"), (2, None, b"y")))
    partition.append(batch, BatchHeader.read(batch), 1, 0)
    cluster.delete_records("a", 0, before=1)
    assert (partition.log.start_offset, partition.log.end_offset) == (1, 2)


async def test_unknown_topics_partitions_and_brokers_are_errors() -> None:
    async with FakeCluster(brokers=2, topics={"a": 2}) as cluster:
        for name_node in (
            cluster.kill,
            cluster.restart,
            cluster.disconnect,
            cluster.address,
            lambda node: cluster.move_leader("a", 0, node),
            lambda node: cluster.move_coordinator("group", node),
            lambda node: cluster.control(node=node, drop=True),
        ):
            with pytest.raises(
                ValueError, match="broker 2 does not exist; the cluster has 2 in total"
            ):
                name_node(2)
        for name_topic in (
            cluster.delete_topic,
            lambda topic: cluster.add_partitions(topic, 3),
            lambda topic: cluster.move_leader(topic, 0, 1),
            lambda topic: cluster.delete_records(topic, 0, 1),
            lambda topic: cluster.partition(topic, 0),
        ):
            with pytest.raises(ValueError, match="topic 'b' does not exist; existing topics: a"):
                name_topic("b")
        with pytest.raises(ValueError, match="topic 'a' has no partition -1; it has 2 in total"):
            cluster.partition("a", -1)
        cluster.kill(1)
        with pytest.raises(ValueError, match="broker 1 cannot coordinate 'group'"):
            cluster.move_coordinator("group", 1)


async def test_moving_a_coordinator() -> None:
    async with FakeCluster(brokers=3) as cluster:
        coordinators = cluster.state.coordinators
        for kind in CoordinatorType:
            before = coordinators.node_of(kind, "mine").node_id
            cluster.move_coordinator("mine", (before + 1) % 3, kind)
            assert coordinators.node_of(kind, "mine").node_id == (before + 1) % 3


def test_a_cluster_that_is_not_started() -> None:
    cluster = FakeCluster()
    levers = (cluster.kill, cluster.restart, cluster.pause, cluster.resume)
    for ask in levers:
        with pytest.raises(RuntimeError, match="is not running"):
            ask(0)
    cluster.disconnect()  # there is no client
    cluster.create_topic("a")
    assert cluster.produce("a", b"x") == 0
    with cluster:
        assert len(cluster.records("a")) == 1
    for ask in levers:
        with pytest.raises(RuntimeError, match="is not running"):
            ask(0)
    with pytest.raises(RuntimeError, match="started only once"), cluster:
        raise AssertionError("not again")


async def test_restart_after_stop_is_an_error() -> None:
    async with FakeCluster() as cluster:
        cluster.kill(0)
        late = cluster.restart(0)
    with pytest.raises(RuntimeError, match="is stopped"):
        await late
    assert not cluster.state.nodes[0].alive
