"""Describing log directories, and moving replicas between them."""

from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    IllegalArgumentError,
    KafkaProtocolError,
    KafkaStorageError,
    LogDirNotFound,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ORDERS = TopicPartition("orders", 0)


def replicas_of(brokers: FakeCluster) -> dict[int, set[TopicPartition]]:
    """The partitions that each broker has replicas of."""
    return {
        node_id: {
            TopicPartition(topic.name, partition.index)
            for topic in brokers.state.topics.values()
            for partition in topic.partitions
            if node_id in partition.replicas
        }
        for node_id in range(3)
    }


def a_replica(brokers: FakeCluster, tp: TopicPartition = ORDERS) -> TopicPartitionReplica:
    node_id = brokers.state.topics[tp.topic].partitions[tp.partition].replicas[0]
    return TopicPartitionReplica(tp.topic, tp.partition, node_id)


async def test_the_directories_of_every_broker(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    described = (await admin.describe_log_dirs()).raise_for_errors()
    found = {}
    for node_id, directories in described.items():
        [(path, directory)] = directories.items()
        assert path.startswith("/")
        assert directory.error is None
        assert directory.total_bytes == 2**40
        assert not directory.is_cordoned
        found[node_id] = set(directory.replicas)
    assert found == replicas_of(brokers)
    described = (await admin.describe_log_dirs([1], partitions=[ORDERS])).raise_for_errors()
    [directory] = described[1].values()
    assert set(directory.replicas) == {ORDERS} & replicas_of(brokers)[1]


async def test_an_offline_directory_has_an_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def fail(response: Any) -> None:
        response.results[0].error_code = KafkaStorageError.errno
        response.results[0].topics = []

    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=1, after_handling=True, edit=fail)
    described = (await admin.describe_log_dirs()).raise_for_errors()
    [directory] = described[1].values()
    assert isinstance(directory.error, KafkaStorageError)
    assert "log directory '/" in str(directory.error)


async def test_the_error_of_one_broker_leaves_the_others(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    denied = DescribeLogDirsResponse(error_code=ClusterAuthorizationFailedError.errno)
    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=1, respond_with=denied)
    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=2, respond_with=DescribeLogDirsResponse())
    results = await admin.describe_log_dirs()
    assert set(results.valid()) == {0}
    for node_id in (1, 2):
        assert isinstance(results[node_id], ClusterAuthorizationFailedError)


async def test_unknown_sizes_are_none() -> None:
    async with (
        FakeCluster(1, ["orders"], version="3.2") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        [directory] = (await admin.describe_log_dirs()).value(0).values()
        assert directory.total_bytes is directory.usable_bytes is None


async def test_replicas_are_found_in_their_directories(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    here = a_replica(brokers)
    elsewhere = TopicPartitionReplica("none", 0, here.node_id)
    moving = DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=path,
                topics=[DescribeLogDirsTopic("orders", [DescribeLogDirsPartition(0, *rest)])],
            )
            for path, *rest in (("/a", 100, 3, False), ("/b", 50, 7, True))
        ]
    )
    found = await admin.describe_replica_log_dirs([here, elsewhere])
    path = found.value(here).current_dir
    assert path is not None
    assert found.value(here) == ReplicaLogDirInfo(path, 0)
    assert found.value(elsewhere) == ReplicaLogDirInfo()
    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=here.node_id, times=None, respond_with=moving)
    found = await admin.describe_replica_log_dirs([here])
    assert found.value(here) == ReplicaLogDirInfo("/a", 3, "/b", 7)
    described = (await admin.describe_log_dirs([here.node_id])).value(here.node_id)
    assert described["/b"].replicas == {ORDERS: ReplicaInfo(50, 7, True)}


async def test_each_replica_is_described_by_its_own_broker(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    replicas = [TopicPartitionReplica("orders", 0, node_id) for node_id in range(3)]
    for node_id in range(3):
        where = DescribeLogDirsResult(
            log_dir=f"/of-{node_id}",
            topics=[DescribeLogDirsTopic("orders", [DescribeLogDirsPartition(0, 1)])],
        )
        response = DescribeLogDirsResponse(results=[where])
        brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=node_id, respond_with=response)
    found = (await admin.describe_replica_log_dirs(replicas)).raise_for_errors()
    assert [found[each].current_dir for each in replicas] == ["/of-0", "/of-1", "/of-2"]


async def test_a_broker_that_fails_fails_its_own_replicas(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    denied = DescribeLogDirsResponse(error_code=ClusterAuthorizationFailedError.errno)
    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, node=1, respond_with=denied)
    replicas = [TopicPartitionReplica("orders", 0, node_id) for node_id in (0, 1)]
    found = await admin.describe_replica_log_dirs(replicas)
    assert set(found.valid()) == {replicas[0]}
    assert isinstance(found[replicas[1]], ClusterAuthorizationFailedError)


async def test_replicas_move_to_directories(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    here = a_replica(brokers)
    second = a_replica(brokers, TopicPartition("payments", 0))
    unknown = TopicPartitionReplica("none", 0, here.node_id)
    path = (await admin.describe_replica_log_dirs([here])).value(here).current_dir
    assert path is not None
    moved = await admin.alter_replica_log_dirs({here: path, second: "/none", unknown: path})
    assert moved[here] is None
    assert isinstance(moved[unknown], UnknownTopicOrPartitionError)
    with pytest.raises(LogDirNotFound, match=f"replica of payments-0 on broker {second.node_id}"):
        moved.value(second)


async def test_a_replica_that_the_broker_lacks_is_not_retried(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.ALTER_REPLICA_LOG_DIRS, times=None, error=ReplicaNotAvailableError.errno)
    here = a_replica(brokers)
    moved = await admin.alter_replica_log_dirs({here: "/a"})
    assert isinstance(moved[here], ReplicaNotAvailableError)
    assert brokers.count(ApiKey.ALTER_REPLICA_LOG_DIRS) == 1


async def test_a_request_without_a_response_is_repeated(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    here = a_replica(brokers)
    brokers.control(ApiKey.DESCRIBE_LOG_DIRS, disconnect=True)
    (await admin.describe_replica_log_dirs([here])).raise_for_errors()
    assert brokers.count(ApiKey.DESCRIBE_LOG_DIRS) == 2


async def test_a_replica_that_the_response_leaves_out_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def empty(response: Any) -> None:
        response.results.clear()

    here = a_replica(brokers)
    brokers.control(ApiKey.ALTER_REPLICA_LOG_DIRS, after_handling=True, edit=empty)
    moved = await admin.alter_replica_log_dirs({here: "/a"})
    assert isinstance(moved[here], KafkaProtocolError)


async def test_old_brokers_cannot_describe_log_directories() -> None:
    async with (
        FakeCluster(1, version="0.11") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        replica = TopicPartitionReplica("orders", 0, 0)
        for call in (
            admin.describe_log_dirs(),
            admin.describe_replica_log_dirs([replica]),
            admin.alter_replica_log_dirs({replica: "/a"}),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 1\.0 or newer"):
                await call


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    for bad in ("orders", 1, [("orders", 0, 0)], None):
        with pytest.raises(TypeError):
            await call.describe_replica_log_dirs(bad)
        with pytest.raises(TypeError):
            await call.alter_replica_log_dirs(bad)
    with pytest.raises(TypeError, match="path"):
        await call.alter_replica_log_dirs({a_replica(brokers): 1})
    with pytest.raises(IllegalArgumentError, match="node_id"):
        await call.describe_replica_log_dirs([TopicPartitionReplica("orders", 0, -1)])
    with pytest.raises(IllegalArgumentError, match="partition"):
        await call.describe_replica_log_dirs([TopicPartitionReplica("orders", -1, 0)])
    for nodes in (1, "1", ["1"]):
        with pytest.raises(TypeError):
            await call.describe_log_dirs(nodes)
    with pytest.raises(TypeError, match="partitions"):
        await call.describe_log_dirs(partitions=["orders"])
    asked = {seen.api_key for seen in brokers.requests}
    assert not asked & {ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS}
