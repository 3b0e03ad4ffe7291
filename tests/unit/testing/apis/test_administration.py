"""The APIs that administer topics and the cluster, on three brokers, some of which may be down."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lite.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from aiokafka_lite.protocol.messages.describe_quorum import DescribeQuorumRequest
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from aiokafka_lite.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokafka_lite.protocol.messages.list_config_resources import ListConfigResourcesRequest
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from aiokafka_lite.protocol.messages.unregister_broker import UnregisterBrokerRequest
from aiokafka_lite.protocol.messages.unregister_controller import UnregisterControllerRequest
from aiokafka_lite.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.security.authorizer import Authorizer
from aiokafka_lite.testing.topics import NO_LEADER
from tests.unit.testing.raw import SocketlessBroker


@pytest.fixture
def three(three_brokers: SocketlessBroker) -> SocketlessBroker:
    three_brokers.state.create_topic("orders", 3)
    return three_brokers


def elect(broker: SocketlessBroker, kind: int, *indexes: int) -> list[int]:
    wanted = [TopicPartitions("orders", list(indexes))] if indexes else None
    results = broker.ask(ElectLeadersRequest(kind, wanted), 2).replica_election_results
    return [found.error_code for result in results for found in result.partition_result]


def test_the_preferred_replica_leads_again(three: SocketlessBroker) -> None:
    partition = three.state.topics["orders"].partitions[0]
    three.state.on_node_down(0)
    assert partition.leader == 1
    assert elect(three, 0, 0) == [80]
    three.state.on_node_up(0)
    assert (partition.leader, partition.isr) == (1, [0, 1, 2])
    epoch = partition.leader_epoch
    assert elect(three, 0, 0, 1) == [0, 84]
    assert (partition.leader, partition.leader_epoch) == (0, epoch + 1)
    assert elect(three, 0) == []  # only the partitions that needed it are listed


def test_version_0_returns_a_global_error_per_partition(three: SocketlessBroker) -> None:
    three.state.authorizer = Authorizer()
    answer = three.ask(ElectLeadersRequest(0, [TopicPartitions("orders", [1])]), 0)
    assert answer.replica_election_results[0].partition_result[0].error_code == 31
    assert three.ask(ElectLeadersRequest(0, None), 0).replica_election_results == []
    assert three.ask(ElectLeadersRequest(0, None), 1).error_code == 31


def test_an_unclean_election(three: SocketlessBroker) -> None:
    partition = three.state.topics["orders"].partitions[0]
    partition.isr = [0]
    three.state.on_node_down(0)
    assert partition.leader == NO_LEADER
    assert elect(three, 0, 0) == [80]
    assert elect(three, 1, 0, 1) == [0, 84]
    assert (partition.leader, partition.isr) == (1, [1, 2])
    for node in (1, 2):
        three.state.on_node_down(node)
    assert elect(three, 1, 0) == [83]


def reassign(
    broker: SocketlessBroker, index: int, replicas: list[int] | None, *, may_change: bool = True
) -> int:
    wanted = [ReassignableTopic("orders", [ReassignablePartition(index, replicas)])]
    request = AlterPartitionReassignmentsRequest(1000, may_change, wanted)
    (topic,) = broker.ask(request, 1).responses
    return int(topic.partitions[0].error_code)


def test_reassignments_are_done_at_once(three: SocketlessBroker) -> None:
    partition = three.state.topics["orders"].partitions[0]
    assert reassign(three, 0, [2, 0]) == 0
    assert (partition.replicas, partition.isr, partition.leader) == ([2, 0], [2, 0], 0)
    assert reassign(three, 0, [1, 2]) == 0
    assert (partition.replicas, partition.isr, partition.leader) == ([1, 2], [1, 2], 1)
    assert reassign(three, 0, [1], may_change=False) == 38
    assert reassign(three, 0, None) == 85
    assert reassign(three, 0, [7]) == 39
    assert reassign(three, 9, [1]) == 3


def test_reassignment_to_a_dead_broker(three: SocketlessBroker) -> None:
    partition = three.state.topics["orders"].partitions[0]
    three.state.on_node_down(2)
    assert reassign(three, 0, [2]) == 0
    assert partition.leader == NO_LEADER
    three.state.on_node_up(2)
    assert (partition.leader, partition.isr) == (2, [2])


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(three: SocketlessBroker, version: int) -> None:
    def grow(count: int, replicas: list[list[int]] | None, **fields: Any) -> int:
        assignments = replicas and [CreatePartitionsAssignment(nodes) for nodes in replicas]
        wanted = [CreatePartitionsTopic("orders", count, assignments)]
        (result,) = three.ask(CreatePartitionsRequest(wanted, 1000, **fields), version).results
        return int(result.error_code)

    topic = three.state.topics["orders"]
    assert grow(4, None, validate_only=True) == 0
    assert len(topic.partitions) == 3
    assert grow(5, None) == 0
    assert [partition.leader for partition in topic.partitions] == [0, 1, 2, 0, 1]
    assert grow(6, [[2, 1, 0]]) == 0
    assert topic.partitions[5].replicas == [2, 1, 0]
    assert (grow(6, None), grow(7, [[0]]), grow(7, [[0, 1, 5]])) == (37, 39, 39)


def test_all_topics_a_page_at_a_time(three: SocketlessBroker) -> None:
    three.state.create_topic("another", 2)
    cursor, pages = None, []
    while True:
        answer = three.ask(DescribeTopicPartitionsRequest([], 2, cursor), 0)
        pages.append(
            [
                (topic.name, part.partition_index)
                for topic in answer.topics
                for part in topic.partitions
            ]
        )
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert pages == [
        [("another", 0), ("another", 1)],
        [("orders", 0), ("orders", 1)],
        [("orders", 2)],
    ]


def test_brokers_that_are_down(three: SocketlessBroker) -> None:
    three.state.on_node_down(2)

    def told(version: int, *, fenced: bool = False) -> dict[int, bool]:
        answer = three.ask(DescribeClusterRequest(False, 1, fenced), version)
        return {broker.broker_id: broker.is_fenced for broker in answer.brokers}

    assert told(1) == {0: False, 1: False}
    assert told(2, fenced=True) == {0: False, 1: False, 2: True}
    assert three.ask(UnregisterBrokerRequest(2), 0).error_code == 0
    assert told(2, fenced=True) == {0: False, 1: False}
    assert three.ask(UnregisterBrokerRequest(2), 0).error_code == 102
    three.state.on_node_up(2)
    assert told(2) == {0: False, 1: False, 2: False}


def test_every_broker_is_a_controller(three: SocketlessBroker) -> None:
    assert three.ask(UnregisterControllerRequest(2), 0).error_code == 0
    answer = three.ask(UnregisterControllerRequest(3), 0)
    assert (answer.error_code, answer.error_message) == (
        136,
        "Controller ID 3 is not currently registered.",
    )


def test_log_dirs_hold_the_replicas_of_the_broker(three: SocketlessBroker) -> None:
    reassign(three, 0, [0])
    for node, indexes in ((0, [0, 1, 2]), (1, [1, 2])):
        (found,) = three.ask(DescribeLogDirsRequest(None), 4, node).results
        assert [part.partition_index for part in found.topics[0].partitions] == indexes
        assert 0 < found.usable_bytes <= found.total_bytes


def test_features_are_updated_all_or_none(three: SocketlessBroker) -> None:
    features = three.state.features
    epoch = features.epoch

    def update(*levels: tuple[str, int], kind: int = 2, version: int = 1) -> int:
        keys = [FeatureUpdateKey(name, level, upgrade_type=kind) for name, level in levels]
        return int(three.ask(UpdateFeaturesRequest(1000, keys), version).error_code)

    assert update(("group.version", 0), ("nope", 1)) == 95
    assert (features.level("group.version"), features.epoch) == (1, epoch)
    assert update(("group.version", 0), ("transaction.version", 1)) == 0
    assert (features.level("group.version"), features.level("transaction.version")) == (0, 1)
    assert "group.version" not in features.finalized
    assert features.epoch > epoch
    down = FeatureUpdateKey("transaction.version", 0, allow_downgrade=True)
    assert three.ask(UpdateFeaturesRequest(1000, [down]), 0).error_code == 0


def test_updated_features_outlive_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        for expected in (1, 0):
            async with FakeCluster(data_dir=tmp_path) as cluster:
                assert cluster.state.features.level("group.version") == expected
                cluster.state.features.update("group.version", 0)
        async with FakeCluster(data_dir=tmp_path, version="3.9") as cluster:
            assert cluster.state.features.finalized == {"metadata.version": 21}

    asyncio.run(run())


WHOLE = [
    (DescribeClusterRequest(), 2),
    (ElectLeadersRequest(0, []), 2),
    (AlterPartitionReassignmentsRequest(), 1),
    (ListPartitionReassignmentsRequest(), 0),
    (DescribeLogDirsRequest(None), 4),
    (DescribeQuorumRequest(), 2),
    (UpdateFeaturesRequest(), 2),
    (UnregisterBrokerRequest(0), 0),
    (UnregisterControllerRequest(0), 0),
    (ListConfigResourcesRequest(), 1),
]


@pytest.mark.parametrize(("request_", "version"), WHOLE, ids=lambda item: getattr(item, "name", ""))
def test_an_injected_error(three: SocketlessBroker, request_: Request, version: int) -> None:
    three.fail_next(ApiKey(request_.api_key), 41)
    assert three.ask(request_, version).error_code == 41
    assert three.ask(request_, version).error_code == 0


def test_an_injected_error_of_a_topic(three: SocketlessBroker) -> None:
    three.fail_next(ApiKey.CREATE_PARTITIONS, 41)
    wanted = [CreatePartitionsTopic("orders", 9, None)]
    (result,) = three.ask(CreatePartitionsRequest(wanted), 3).results
    assert result.error_code == 41
    assert len(three.state.topics["orders"].partitions) == 3
