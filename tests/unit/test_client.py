"""`AIOKafkaClient` and `producer.client`, with aiokafka's names."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaProducer
from aiokafka_lite.errors import InvalidTopicError, KafkaConnectionError, NodeNotReadyError
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.structs import BrokerMetadata, TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

TOPICS = {"orders": 3, "payments": 1}


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3, TOPICS, racks=["a", "b", None]) as cluster:
        yield cluster


@pytest.fixture
async def client(brokers: FakeCluster) -> AsyncIterator[AIOKafkaClient]:
    async with AIOKafkaClient(bootstrap_servers=brokers.bootstrap_servers) as started:
        yield started


async def test_cluster_metadata(client: AIOKafkaClient, brokers: FakeCluster) -> None:
    known = client.cluster
    port = brokers.state.nodes[0].port
    assert known.broker_metadata(0) == BrokerMetadata(0, "127.0.0.1", port, "a")
    assert known.broker_metadata(7) is None
    assert {broker.nodeId for broker in known.brokers()} == {0, 1, 2}
    assert known.topics() == set(TOPICS)
    assert known.partitions_for_topic("orders") == {0, 1, 2}
    assert known.available_partitions_for_topic("orders") == {0, 1, 2}
    assert known.partitions_for_topic("none") is None
    assert known.available_partitions_for_topic("none") is None
    leader = brokers.partition("orders", 1).leader
    assert known.leader_for_partition(TopicPartition("orders", 1)) == leader
    assert known.leader_for_partition(TopicPartition("orders", 9)) is None
    assert TopicPartition("orders", 1) in (known.partitions_for_broker(leader) or ())
    assert known.partitions_for_broker(9) is None
    assert str(known) == "ClusterMetadata(brokers: 3, topics: 2)"
    assert len(client.hosts) == 3
    assert client.get_random_node() in (0, 1, 2)


async def test_cluster_metadata_is_a_live_view(
    client: AIOKafkaClient, brokers: FakeCluster
) -> None:
    known = client.cluster
    brokers.create_topic("later", 2)
    assert "later" not in known.topics()
    assert await client.force_metadata_update() is True
    assert known.partitions_for_topic("later") == {0, 1}


async def test_add_and_set_topics_choose_the_tracked_topics(
    client: AIOKafkaClient, brokers: FakeCluster
) -> None:
    assert await client.set_topics(["orders"]) is True
    await client.force_metadata_update()
    assert client.cluster.topics() == {"orders"}
    assert await client.add_topic("payments") is True
    assert client.cluster.topics() == {"orders", "payments"}
    everything = await client.fetch_all_metadata()
    brokers.create_topic("later")
    assert everything.topics() == {"orders", "payments"}
    assert (await client.fetch_all_metadata()).topics() == {"orders", "payments", "later"}
    assert client.cluster.topics() == {"orders", "payments"}
    assert await client.set_topics([]) is True
    assert "later" in client.cluster.topics()
    with pytest.raises(TypeError):
        client.set_topics("orders")
    with pytest.raises(InvalidTopicError):
        client.add_topic("\ud800")


async def test_added_topic_is_created_although_all_topics_are_requested(
    client: AIOKafkaClient, brokers: FakeCluster
) -> None:
    """A request for all topics does not create it, and each refresh requested all topics."""
    client.add_topic("new")
    async with asyncio.timeout(5):
        while "new" not in client.cluster.topics():
            await client.force_metadata_update()
    assert client.cluster.topics() == {"new"}
    await client.set_topics([])
    assert client.cluster.topics() == {"new", "orders", "payments"}


async def test_unawaited_and_failed_refreshes(brokers: FakeCluster) -> None:
    client = AIOKafkaClient(
        bootstrap_servers=brokers.bootstrap_servers, request_timeout_ms=200, retry_backoff_ms=10
    )
    async with client:
        client.force_metadata_update()
        brokers.control(ApiKey.METADATA, drop=True, times=None)
        assert await client.force_metadata_update() is False
        waiting = client.force_metadata_update()
    assert waiting.done()
    assert await waiting is False


async def test_close_does_not_cancel_a_task_that_awaits_a_refresh(brokers: FakeCluster) -> None:
    client = AIOKafkaClient(bootstrap_servers=brokers.bootstrap_servers)
    await client.bootstrap()
    brokers.control(ApiKey.METADATA, drop=True, times=None)

    async def refreshed() -> bool:
        return await client.force_metadata_update()

    task = asyncio.create_task(refreshed())
    await asyncio.sleep(0.02)
    await client.close()
    await asyncio.wait([task])
    assert not task.cancelled()
    assert task.result() is False


async def test_single_requests(client: AIOKafkaClient, brokers: FakeCluster) -> None:
    assert await client.ready(1)
    response = await client.send(1, ListGroupsRequest())
    assert response.error_code == 0
    assert brokers.requests[-1].api_key is ApiKey.LIST_GROUPS
    assert brokers.requests[-1].node_id == 1
    with pytest.raises(NodeNotReadyError):
        await client.send(9, ListGroupsRequest())
    brokers.kill(2)
    async with asyncio.timeout(5):
        while await client.ready(2):
            await asyncio.sleep(0.01)  # its connection may end a little later


async def test_coordinators(client: AIOKafkaClient, brokers: FakeCluster) -> None:
    for kind in (0, 1):
        found = await client.coordinator_lookup(kind, "billing")
        assert found in (0, 1, 2)
    with pytest.raises(ValueError, match="7"):
        await client.coordinator_lookup(7, "billing")


async def test_unreachable_cluster_raises() -> None:
    client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaConnectionError):
        await client.bootstrap()
    await client.close()
    await client.close()


@pytest.mark.parametrize("name", ["loop", "api_version"])
async def test_deprecated_arguments(name: str) -> None:
    value = asyncio.get_running_loop() if name == "loop" else "auto"
    with pytest.warns(DeprecationWarning, match=name):
        client = AIOKafkaClient(**{name: value})
    await client.close()


async def test_client_of_a_producer(brokers: FakeCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=brokers.bootstrap_servers) as producer:
        client = producer.client
        assert client is producer.client
        client.add_topic("orders")
        assert await client.force_metadata_update()
        assert "orders" in client.cluster.topics()
