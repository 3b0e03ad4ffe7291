"""An admin client that is connected to KRaft controllers (KIP-919)."""

from collections.abc import AsyncIterator

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, NewTopic, OffsetSpec
from aiokafka_lite.errors import (
    KafkaConfigurationError,
    MismatchedEndpointTypeError,
    NotControllerError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried


@pytest.fixture
def active(brokers: FakeCluster) -> list[int]:
    """Let the brokers present themselves as controllers; the node id in the list is active."""
    node_id = [2]

    def describe(request: DescribeClusterRequest) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            endpoint_type=request.endpoint_type,
            cluster_id=brokers.state.cluster_id,
            controller_id=node_id[0],
            brokers=[
                DescribeClusterBroker(each.node_id, each.host, each.port)
                for each in brokers.state.nodes.values()
            ],
        )

    brokers.control(
        ApiKey.DESCRIBE_CLUSTER,
        times=None,
        when=lambda request: bool(request.endpoint_type == 2),
        respond_with=describe,
    )
    return node_id


@pytest.fixture
async def controllers(
    brokers: FakeCluster, active: list[int]
) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(
        bootstrap_controllers=brokers.bootstrap_servers, retry_backoff_ms=10
    ) as admin:
        yield admin


def asked(brokers: FakeCluster, api_key: ApiKey) -> list[int]:
    return [seen.node_id for seen in brokers.requests if seen.api_key == api_key]


async def test_requests_go_to_the_active_controller(
    controllers: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    told = await controllers.describe_cluster(typed=True)
    assert told.controller_id == 2
    assert set(told.brokers) == {0, 1, 2}
    await controllers.create_topics([NewTopic("new", 1, 1)], raise_errors=True)
    assert asked(brokers, ApiKey.CREATE_TOPICS) == [2]
    assert brokers.count(ApiKey.METADATA) == 0


async def test_a_new_active_controller_is_found(
    controllers: AIOKafkaAdminClient, brokers: FakeCluster, active: list[int]
) -> None:
    brokers.control(ApiKey.CREATE_TOPICS, node=2, error=NotControllerError)
    active[0] = 1
    await controllers.create_topics([NewTopic("new", 1, 1)], raise_errors=True)
    assert asked(brokers, ApiKey.CREATE_TOPICS) == [2, 1]


async def test_calls_that_need_a_broker_are_refused(controllers: AIOKafkaAdminClient) -> None:
    with pytest.raises(UnsupportedVersionError, match="do not take Metadata requests"):
        await controllers.list_topics()
    with pytest.raises(UnsupportedVersionError, match="bootstrap_servers"):
        await controllers.list_offsets({TopicPartition("orders", 0): OffsetSpec.LATEST})


async def test_a_broker_is_no_controller(brokers: FakeCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_controllers=brokers.bootstrap_servers)
    with pytest.raises(MismatchedEndpointTypeError, match="addresses of KRaft controllers"):
        await admin.start()
    await admin.close()


async def test_old_controllers_are_refused() -> None:
    async with FakeCluster(1, version="3.6") as old:
        admin = AIOKafkaAdminClient(bootstrap_controllers=old.bootstrap_servers)
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 3\.7 or newer"):
            await admin.start()
        await admin.close()


async def test_brokers_and_controllers_exclude_each_other() -> None:
    with pytest.raises(KafkaConfigurationError, match="cannot be combined"):
        AIOKafkaAdminClient(bootstrap_servers="a:1", bootstrap_controllers="b:1")
