"""The cluster layer on a real Kafka: metadata of three nodes, moving leaders, restarts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.cluster.retry import ANY, CONTROLLER, CoordinatorOf, LeaderOf, ToNode, call
from aiokafka_lite.errors import InvalidTopicError, KafkaTimeoutError, for_code
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lite.protocol.messages.elect_leaders import ElectLeadersRequest
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tools.kafka import KafkaCluster, OwnCluster


def soon(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.fixture
async def client_of() -> AsyncIterator[Callable[..., Cluster]]:
    """Creates clients of a cluster and closes them after the test."""
    made: list[Cluster] = []

    def make(kafka: OwnCluster | KafkaCluster, **arguments: object) -> Cluster:
        options = ConnectionOptions(request_timeout=10.0, connect_timeout=5.0)
        made.append(Cluster(kafka.bootstrap_servers, options, **arguments))
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close(soon(5.0))


async def end_offset(cluster: Cluster, topic: str, partition: int) -> None:
    """A request that only the partition's leader answers."""

    def check(response: ListOffsetsResponse) -> None:
        code = response.topics[0].partitions[0].error_code
        if code:
            raise for_code(code)("ListOffsets")

    asked = ListOffsetsPartition(partition, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [asked])])
    await call(cluster, request, LeaderOf(topic, partition), soon(), check=check)


async def coordinated_by(cluster: Cluster, node: int) -> str:
    """A group whose coordinator is that node."""
    for n in range(100):
        if (await CoordinatorOf(f"group-{n}").find(cluster, -1, soon())).node_id == node:
            return f"group-{n}"
    raise AssertionError(f"none of 100 groups is coordinated by {node}")


async def create(cluster: Cluster, topic: str, partitions: int, replication: int) -> None:
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, replication)], 30_000)
    response = await call(cluster, request, CONTROLLER, soon())
    assert [(t.name, t.error_code) for t in response.topics] == [(topic, 0)]


async def told(cluster: Cluster, condition: Callable[[Metadata], object]) -> Metadata:
    """Refresh until the metadata satisfies the condition; return it."""
    deadline = soon()
    metadata = await cluster.refresh(deadline)
    while not condition(metadata):
        metadata = await cluster.refresh(deadline)  # paced by the backoff
    return metadata


def a_name() -> str:
    return f"cluster-{uuid.uuid4().hex[:10]}"


async def test_metadata_of_three_nodes_and_a_topic(kafka3, topic3, client_of):
    name = topic3(partitions=6)
    cluster = client_of(kafka3)
    await cluster.start()
    assert cluster.metadata.brokers.keys() == {0, 1, 2}
    assert cluster.metadata.controller_id in (0, 1, 2)
    assert cluster.metadata.cluster_id
    addresses = {f"{node.host}:{node.port}" for node in cluster.metadata.brokers.values()}
    assert addresses == set(kafka3.bootstrap_servers.split(","))
    partitions = await cluster.partitions_of(name, soon())
    assert sorted(partitions) == list(range(6))
    for partition in partitions.values():
        assert sorted(partition.replicas) == [0, 1, 2]
        assert partition.leader in (0, 1, 2)
        assert partition.leader_epoch >= 0
    topic = cluster.metadata.topics[name]
    assert topic.topic_id is not None
    assert cluster.metadata.topic_names == {topic.topic_id: name}
    await asyncio.gather(*(end_offset(cluster, name, p) for p in range(6)))
    await asyncio.gather(
        *(call(cluster, ListGroupsRequest(), ToNode(n), soon()) for n in (0, 1, 2))
    )


async def test_topic_is_usable_right_after_creation(kafka3, client_of):
    """KRaft responds before every broker knows the topic: errors 3, 5 and 6 are retried."""
    clusters = [client_of(kafka3) for _ in range(3)]
    await asyncio.gather(*(cluster.start() for cluster in clusters))
    for _ in range(5):
        name = a_name()
        await create(clusters[0], name, partitions=6, replication=3)
        await asyncio.gather(
            *(end_offset(cluster, name, p) for cluster in clusters for p in range(6))
        )


async def test_missing_and_invalid_topics(kafka3, client_of):
    cluster = client_of(kafka3, allow_auto_create_topics=False)
    await cluster.start()
    with pytest.raises(KafkaTimeoutError, match="UnknownTopicOrPartition"):
        await cluster.partitions_of(a_name(), soon(5.0))
    with pytest.raises(InvalidTopicError):
        await cluster.partitions_of("not a name", soon())


async def test_recreated_topic_has_new_metadata(kafka3, client_of):
    # Otherwise a request for the deleted topic could recreate it before this test does.
    cluster = client_of(kafka3, allow_auto_create_topics=False)
    await cluster.start()
    name = a_name()
    await create(cluster, name, partitions=3, replication=1)
    await cluster.partitions_of(name, soon())
    before = cluster.metadata.topics[name].topic_id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=30_000)
    await call(cluster, request, CONTROLLER, soon())
    await create(cluster, name, partitions=1, replication=1)

    def again(now: Metadata) -> bool:
        """A broker that has learned only of the deletion knows no id."""
        return now.topics[name].topic_id not in (None, before)

    known = (await told(cluster, again)).topics[name]
    assert known.error is None
    assert sorted(known.partitions) == [0]
    await end_offset(cluster, name, 0)


@pytest.mark.parametrize("kind", [CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION])
async def test_coordinators_of_groups_and_transactions(kind, kafka3, client_of):
    cluster = client_of(kafka3)
    await cluster.start()
    brokers = await asyncio.gather(
        *(CoordinatorOf(f"key-{n}", kind).find(cluster, -1, soon()) for n in range(12))
    )
    assert {broker.node_id for broker in brokers} <= {0, 1, 2}
    assert cluster.coordinators.get(kind, "key-0") == brokers[0].node_id


@pytest.mark.long
async def test_requests_survive_a_killed_leader_and_a_rolling_restart(kafka3, topic3, client_of):
    name = topic3(partitions=3)
    cluster = client_of(kafka3)
    await cluster.start()
    await asyncio.gather(*(end_offset(cluster, name, p) for p in range(3)))
    before = cluster.metadata.topics[name].partitions
    # Earlier tests may have restarted nodes, so that one of them coordinates nothing.
    await call(cluster, ElectLeadersRequest(topic_partitions=None), CONTROLLER, soon())
    for node, end in ((0, kafka3.kill), (1, kafka3.stop)):
        group = await coordinated_by(cluster, node)
        await asyncio.to_thread(end, node)
        try:
            await asyncio.gather(*(end_offset(cluster, name, p) for p in range(3)))
            for known in cluster.metadata.topics[name].partitions.values():
                assert known.leader != node
            # The group's coordinator died with it, and another broker takes over.
            await call(cluster, ListGroupsRequest(), CoordinatorOf(group), soon())
            assert cluster.coordinators.get(CoordinatorKind.GROUP, group) != node
        finally:
            await asyncio.to_thread(kafka3.start, node)
        await told(cluster, lambda metadata, node=node: node in metadata.brokers)
        await call(cluster, ListGroupsRequest(), ToNode(node), soon())
        # The next one may be killed only when this one's replicas are in sync again.
        await told(
            cluster,
            lambda now: all(len(p.isr) == 3 for p in now.topics[name].partitions.values()),
        )
    for p, known in cluster.metadata.topics[name].partitions.items():
        assert known.leader_epoch > before[p].leader_epoch or before[p].leader == 2


async def test_unresponsive_broker_is_bypassed(kafka3, client_of):
    """A suspended process keeps its sockets open and does not respond; other brokers are used."""
    cluster = client_of(kafka3)
    await cluster.start()
    for node in kafka3.node_ids:
        await cluster.broker(node).connection()
    await asyncio.to_thread(kafka3.pause, 1)
    try:
        for _ in range(
            12
        ):  # each request goes to a random broker until one goes to the suspended broker
            await cluster.refresh(soon(30.0))
    finally:
        await asyncio.to_thread(kafka3.resume, 1)
    await told(cluster, lambda metadata: len(metadata.brokers) == 3)


async def test_reconnects_after_all_nodes_restart(client_of):
    def restart(kafka: KafkaCluster) -> None:
        kafka.kill(0)
        kafka.start(0)

    with_kafka = await asyncio.to_thread(KafkaCluster().__enter__)
    try:
        cluster = client_of(with_kafka)
        await cluster.start()
        restarting = asyncio.create_task(asyncio.to_thread(restart, with_kafka))
        while not restarting.done():
            await call(cluster, ListGroupsRequest(), ANY, soon())
            await asyncio.sleep(0.01)
        await restarting
        await call(cluster, ListGroupsRequest(), ANY, soon())
    finally:
        await asyncio.to_thread(with_kafka.close)


@pytest.mark.parametrize(
    "release",
    [
        "0.8.2.2",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("0.9.0.1", "0.10.2.2", "2.8.2")),
    ],
)
async def test_metadata_of_old_brokers(release, client_of):
    """From Metadata v0 on: no controller, no topic ids, an empty list of topics means all."""
    kafka = await asyncio.to_thread(KafkaCluster(release).__enter__)
    try:
        cluster = client_of(kafka)
        await cluster.start()
        assert cluster.metadata.topics == {}
        v0 = release.startswith(("0.8", "0.9"))
        assert cluster.metadata.controller_id == (-1 if v0 else 0)
        name = a_name()
        await cluster.partitions_of(name, soon())  # the request creates it
        # (without topics 0.8.2 lists no broker)
        assert cluster.metadata.brokers[0][:3] == (0, *kafka.address(0))
        assert cluster.metadata.topics[name].topic_id is None or release == "2.8.2"
        assert (cluster.metadata.partition(name, 0).leader_epoch >= 0) == (release == "2.8.2")
        broker = await CoordinatorOf("g").find(cluster, -1, soon())
        assert broker is cluster.broker(0)
        everything = await cluster.wait_for_version(cluster.set_topics(None), soon())
        assert name in everything.topics
    finally:
        await asyncio.to_thread(kafka.close)
