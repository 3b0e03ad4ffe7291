"""Listing groups: every broker is queried, and each responds for its own groups."""

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    GroupLoadInProgressError,
    UnsupportedVersionError,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

GROUPS = [f"group-{number}" for number in range(6)]
"""Enough groups for every broker to coordinate some."""


@pytest.fixture
async def with_groups(brokers: FakeCluster) -> None:
    for group in GROUPS:
        async with AIOKafkaConsumer(
            group_id=group, bootstrap_servers=brokers.bootstrap_servers
        ) as consumer:
            tp = TopicPartition("orders", 0)
            consumer.assign([tp])
            await consumer.commit({tp: 1})


@pytest.mark.usefixtures("with_groups")
async def test_every_broker_lists_its_groups(admin: AIOKafkaAdminClient) -> None:
    listings = await admin.list_groups()
    assert sorted(each.group_id for each in listings.valid()) == GROUPS
    assert {each.state for each in listings.valid()} == {"Empty"}
    assert {each.type for each in listings.valid()} == {"classic"}
    assert listings.errors() == {}
    assert set(listings.by_broker) == {0, 1, 2}
    assert sorted(await admin.list_consumer_groups()) == [(group, "") for group in GROUPS]


@pytest.mark.usefixtures("with_groups")
async def test_named_brokers_list_only_their_own(admin: AIOKafkaAdminClient) -> None:
    all_groups: list[str] = []
    for node_id in range(3):
        all_groups += [group for group, _ in await admin.list_consumer_groups([node_id])]
    assert sorted(all_groups) == GROUPS


@pytest.mark.usefixtures("with_groups")
async def test_one_brokers_error_leaves_the_others_groups(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.LIST_GROUPS, node=1, error=ClusterAuthorizationFailedError, times=None)
    listings = await admin.list_groups()
    assert {type(error) for error in listings.errors().values()} == {
        ClusterAuthorizationFailedError
    }
    assert set(listings.errors()) == {1}
    assert set(listings.by_broker.valid()) == {0, 2}
    with pytest.raises(ClusterAuthorizationFailedError):
        listings.raise_for_errors()
    with pytest.raises(ClusterAuthorizationFailedError):
        await admin.list_consumer_groups()


async def test_an_error_of_every_broker_is_raised(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.LIST_GROUPS, error=ClusterAuthorizationFailedError, times=None)
    with pytest.raises(ClusterAuthorizationFailedError):
        await admin.list_groups()


@pytest.mark.usefixtures("with_groups")
async def test_a_request_to_a_loading_coordinator_is_repeated(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(ApiKey.LIST_GROUPS, node=2, error=GroupLoadInProgressError, times=2)
    assert sorted(each.group_id for each in (await admin.list_groups()).valid()) == GROUPS
    assert fault.hits == 2


@pytest.mark.usefixtures("with_groups")
async def test_filters(admin: AIOKafkaAdminClient) -> None:
    assert len((await admin.list_groups(states=["Empty"])).valid()) == len(GROUPS)
    assert (await admin.list_groups(states=["Stable"])).valid() == []
    assert (await admin.list_groups(types=["consumer"])).valid() == []
    assert (await admin.list_groups(protocol_types=["connect"])).valid() == []
    with pytest.raises(TypeError, match="states"):
        await admin.list_groups(states="Empty")


async def test_filters_need_newer_brokers() -> None:
    async with (
        FakeCluster(1, version="2.5") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(
            UnsupportedVersionError, match=r"Listing groups by state requires Kafka 2\.6 or newer"
        ):
            await admin.list_groups(states=["Empty"])
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 3\.8 or newer"):
            await admin.list_groups(types=["classic"])
        assert (await admin.list_groups()).valid() == []
