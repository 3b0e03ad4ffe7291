"""A broker that dies in the middle of a call about many items fails its own items at most."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    RecordsToDelete,
    TopicPartitionReplica,
)
from aiokafka_lite.errors import KafkaError, KafkaTimeoutError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

DYING = 1
PARTITIONS = [TopicPartition("solo", number) for number in range(6)]
"""Partition n has one replica, on broker n % 3."""
ITS_PARTITIONS = {tp for tp in PARTITIONS if tp.partition % 3 == DYING}
GROUPS = [f"group-{number}" for number in range(9)]
BROKERS = {ConfigResource("broker", str(number)): number for number in range(3)}
QUICK = 2_000  # milliseconds: for calls that cannot succeed

Call = Callable[[AIOKafkaAdminClient], Awaitable[Mapping[Any, Any]]]


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3, broker_configs={"offsets.topic.replication.factor": 3}) as cluster:
        yield cluster


@pytest.fixture
async def admin(brokers: FakeCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    servers = brokers.bootstrap_servers
    async with AIOKafkaAdminClient(bootstrap_servers=servers, retry_backoff_ms=10) as client:
        replicas = {number: [number % 3] for number in range(6)}
        await client.create_topics([NewTopic("solo", -1, -1, replicas)], raise_errors=True)
        await client.wait_for_topics({"solo": 6})
        for group in GROUPS:
            await client.alter_consumer_group_offsets(group, {PARTITIONS[0]: 1})
        yield client


async def with_a_death(
    brokers: FakeCluster, api: ApiKey, call: Awaitable[Mapping[Any, Any]]
) -> Mapping[Any, Any]:
    """The results of a call whose request to a broker is never answered, because the broker
    dies."""
    fault = brokers.control(api, node=DYING, drop=True, times=None)
    task = asyncio.ensure_future(call)
    async with asyncio.timeout(60):
        await fault.struck()
        brokers.kill(DYING)
        return await task


OF_LEADERS: dict[ApiKey, Call] = {
    ApiKey.LIST_OFFSETS: lambda admin: admin.list_offsets(
        dict.fromkeys(PARTITIONS, OffsetSpec.LATEST), timeout_ms=QUICK
    ),
    ApiKey.DELETE_RECORDS: lambda admin: admin.delete_records(
        dict.fromkeys(PARTITIONS, RecordsToDelete(0)), timeout_ms=QUICK, raise_errors=False
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda admin: admin.describe_producers(PARTITIONS, timeout_ms=QUICK),
}


@pytest.mark.parametrize("api", OF_LEADERS)
async def test_partitions_of_a_dead_leader_fail_alone(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: ApiKey
) -> None:
    results = await with_a_death(brokers, api, OF_LEADERS[api](admin))
    failed = {tp for tp, found in results.items() if isinstance(found, KafkaError)}
    assert set(results) == set(PARTITIONS)
    assert failed == ITS_PARTITIONS
    for tp in failed:
        assert f"partition {tp.topic}-{tp.partition}" in str(results[tp]), results[tp]


OF_COORDINATORS: dict[ApiKey, Call] = {
    ApiKey.DESCRIBE_GROUPS: lambda admin: admin.describe_classic_groups(GROUPS),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda admin: admin.describe_consumer_groups(
        GROUPS, typed=True
    ),
    ApiKey.OFFSET_FETCH: lambda admin: admin.list_consumer_groups_offsets(GROUPS),
    ApiKey.DELETE_GROUPS: lambda admin: admin.delete_consumer_groups(GROUPS),
}


@pytest.mark.parametrize("api", OF_COORDINATORS)
async def test_groups_of_a_dead_coordinator_are_requested_from_the_next_one(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: ApiKey
) -> None:
    results = await with_a_death(brokers, api, OF_COORDINATORS[api](admin))
    assert list(results) == GROUPS
    errors = {group: each for group, each in results.items() if isinstance(each, KafkaError)}
    assert errors == {}


OF_NODES: dict[ApiKey, Call] = {
    ApiKey.DESCRIBE_LOG_DIRS: lambda admin: admin.describe_log_dirs([0, 1, 2], timeout_ms=QUICK),
    ApiKey.DESCRIBE_CONFIGS: lambda admin: _by_number(
        admin.describe_configs(BROKERS, typed=True, timeout_ms=QUICK)
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin: _by_number(
        admin.incremental_alter_configs(
            {each: {"log.cleaner.threads": 2} for each in BROKERS}, timeout_ms=QUICK
        )
    ),
    ApiKey.LIST_GROUPS: lambda admin: _by_broker(admin),
}


async def _by_number(results: Awaitable[Mapping[ConfigResource, Any]]) -> Mapping[int, Any]:
    return {BROKERS[resource]: found for resource, found in (await results).items()}


async def _by_broker(admin: AIOKafkaAdminClient) -> Mapping[int, Any]:
    return (await admin.list_groups(broker_ids=[0, 1, 2], timeout_ms=QUICK)).by_broker


@pytest.mark.parametrize("api", OF_NODES)
async def test_a_dead_broker_is_the_error_of_what_only_it_knows(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: ApiKey
) -> None:
    results = await with_a_death(brokers, api, OF_NODES[api](admin))
    assert set(results) == {0, 1, 2}
    failed = {number for number, found in results.items() if isinstance(found, KafkaError)}
    assert failed == {DYING}


async def test_replicas_of_a_dead_broker_fail_alone(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    replicas = [TopicPartitionReplica(*tp, tp.partition % 3) for tp in PARTITIONS]
    call = admin.describe_replica_log_dirs(replicas, timeout_ms=QUICK)
    results = await with_a_death(brokers, ApiKey.DESCRIBE_LOG_DIRS, call)
    assert set(results) == set(replicas)
    failed = {each for each, found in results.items() if isinstance(found, KafkaError)}
    assert failed == {each for each in replicas if each.node_id == DYING}


@pytest.mark.parametrize("api", [ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS])
async def test_the_timeout_of_a_call_that_no_broker_answers_has_the_reason(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: ApiKey
) -> None:
    for node in range(3):
        brokers.kill(node)
    calls: dict[ApiKey, Call] = {
        ApiKey.LIST_OFFSETS: lambda admin: admin.list_offsets(
            dict.fromkeys(PARTITIONS, OffsetSpec.LATEST), timeout_ms=QUICK
        ),
        ApiKey.DESCRIBE_GROUPS: lambda admin: admin.describe_classic_groups(
            ["new"], timeout_ms=QUICK
        ),
        ApiKey.DELETE_GROUPS: lambda admin: admin.delete_consumer_groups(["new"], timeout_ms=QUICK),
    }
    with pytest.raises(KafkaTimeoutError, match="Connection refused") as caught:
        await calls[api](admin)
    assert isinstance(caught.value.__cause__, KafkaError)
