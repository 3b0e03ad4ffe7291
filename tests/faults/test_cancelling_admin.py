"""Cancels every admin call at every step: no task, request or connection is leaked, and the client
continues to work.

A call is cancelled before its first loop pass, after one, after two, and so on, until it ends
before it is cancelled, and so at each of its awaits.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.admin import (
    AbortTransactionSpec,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AIOKafkaAdminClient,
    ClientQuotaEntity,
    ConfigResource,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    RaftVoterEndpoint,
    RecordsToDelete,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    TopicPartitionReplica,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

LONGEST = 2_000  # loop passes: far more than any of these takes
TOPIC = ConfigResource("topic", "orders")
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 3)
GROUPS = ["a", "b", "c"]
"""Enough for several coordinators."""
DIRECTORY = UUID(int=5)
ACL = AclBinding(ResourcePattern(ResourceType.TOPIC, "orders"), "User:cook", AclOperation.READ)

Call = Callable[[AIOKafkaAdminClient, int], Awaitable[object]]

CALLS: dict[str, Call] = {
    # The number makes names of things that a cancelled call may have created already.
    "create_topics": lambda admin, n: admin.create_topics([NewTopic(f"new-{n}")]),
    "delete_topics": lambda admin, n: admin.delete_topics([f"new-{n}"]),
    "list_topics": lambda admin, n: admin.list_topics(typed=True),
    "describe_topics": lambda admin, n: admin.describe_topics(["orders", "none"], typed=True),
    "wait_for_topics": lambda admin, n: admin.wait_for_topics(["orders", "payments"]),
    "ensure_topics": lambda admin, n: admin.ensure_topics([NewTopic(f"more-{n}", 2)]),
    "create_partitions": lambda admin, n: admin.create_partitions(
        {"payments": NewPartitions(10 + n)}
    ),
    "delete_records": lambda admin, n: admin.delete_records({ONE: RecordsToDelete(0)}),
    "list_offsets": lambda admin, n: admin.list_offsets(
        {ONE: OffsetSpec.LATEST, TWO: OffsetSpec.EARLIEST}
    ),
    "describe_log_dirs": lambda admin, n: admin.describe_log_dirs(),
    "describe_replica_log_dirs": lambda admin, n: admin.describe_replica_log_dirs(
        [TopicPartitionReplica("orders", 0, 0)]
    ),
    "alter_replica_log_dirs": lambda admin, n: admin.alter_replica_log_dirs(
        {TopicPartitionReplica("orders", 0, 0): "/none"}
    ),
    "alter_partition_reassignments": lambda admin, n: admin.alter_partition_reassignments(
        {ONE: [n % 3]}
    ),
    "list_partition_reassignments": lambda admin, n: admin.list_partition_reassignments(),
    "elect_leaders": lambda admin, n: admin.elect_leaders(ElectionType.PREFERRED, [ONE]),
    "describe_configs": lambda admin, n: admin.describe_configs(
        [TOPIC, ConfigResource("broker", "1")], typed=True
    ),
    "incremental_alter_configs": lambda admin, n: admin.incremental_alter_configs(
        {TOPIC: {"retention.ms": 1000 + n}}
    ),
    "alter_configs": lambda admin, n: admin.alter_configs(
        [ConfigResource("topic", "orders", {"retention.ms": 1000 + n})]
    ),
    "list_config_resources": lambda admin, n: admin.list_config_resources(),
    "describe_client_quotas": lambda admin, n: admin.describe_client_quotas(),
    "alter_client_quotas": lambda admin, n: admin.alter_client_quotas(
        {ClientQuotaEntity({"user": "cook"}): {"consumer_byte_rate": 1000 + n}}
    ),
    "describe_cluster": lambda admin, n: admin.describe_cluster(typed=True),
    "describe_features": lambda admin, n: admin.describe_features(),
    "update_features": lambda admin, n: admin.update_features(
        {"group.version": FeatureUpdate(1)}, validate_only=True
    ),
    "describe_metadata_quorum": lambda admin, n: admin.describe_metadata_quorum(),
    "add_raft_voter": lambda admin, n: admin.add_raft_voter(
        9, DIRECTORY, [RaftVoterEndpoint("CONTROLLER", "localhost", 9)]
    ),
    "remove_raft_voter": lambda admin, n: admin.remove_raft_voter(9, DIRECTORY),
    "unregister_broker": lambda admin, n: admin.unregister_broker(9),
    "unregister_controller": lambda admin, n: admin.unregister_controller(9),
    "list_groups": lambda admin, n: admin.list_groups(),
    "list_consumer_groups": lambda admin, n: admin.list_consumer_groups(),
    "lag": lambda admin, n: admin.lag("a"),
    "describe_consumer_groups": lambda admin, n: admin.describe_consumer_groups(GROUPS, typed=True),
    "describe_classic_groups": lambda admin, n: admin.describe_classic_groups(GROUPS),
    "find_coordinator": lambda admin, n: admin.find_coordinator("a"),
    "delete_consumer_groups": lambda admin, n: admin.delete_consumer_groups(["none"]),
    "remove_members_from_consumer_group": lambda admin, n: admin.remove_members_from_consumer_group(
        "a", ["none"]
    ),
    "list_consumer_group_offsets": lambda admin, n: admin.list_consumer_group_offsets("a"),
    "list_consumer_groups_offsets": lambda admin, n: admin.list_consumer_groups_offsets(GROUPS),
    "alter_consumer_group_offsets": lambda admin, n: admin.alter_consumer_group_offsets(
        "a", {ONE: n}
    ),
    "delete_consumer_group_offsets": lambda admin, n: admin.delete_consumer_group_offsets(
        "b", [ONE]
    ),
    "describe_share_groups": lambda admin, n: admin.describe_share_groups(GROUPS),
    "delete_share_groups": lambda admin, n: admin.delete_share_groups(["none"]),
    "list_share_group_offsets": lambda admin, n: admin.list_share_group_offsets(["s"]),
    "alter_share_group_offsets": lambda admin, n: admin.alter_share_group_offsets("s", {ONE: 0}),
    "delete_share_group_offsets": lambda admin, n: admin.delete_share_group_offsets(
        "s", ["orders"]
    ),
    "describe_streams_groups": lambda admin, n: admin.describe_streams_groups(GROUPS),
    "delete_streams_groups": lambda admin, n: admin.delete_streams_groups(["none"]),
    "list_streams_group_offsets": lambda admin, n: admin.list_streams_group_offsets(GROUPS),
    "alter_streams_group_offsets": lambda admin, n: admin.alter_streams_group_offsets(
        "t", {ONE: n}
    ),
    "delete_streams_group_offsets": lambda admin, n: admin.delete_streams_group_offsets("t", [ONE]),
    "list_transactions": lambda admin, n: admin.list_transactions(),
    "describe_transactions": lambda admin, n: admin.describe_transactions(["till", "none"]),
    "describe_producers": lambda admin, n: admin.describe_producers([ONE, TWO]),
    "abort_transaction": lambda admin, n: admin.abort_transaction(
        AbortTransactionSpec(ONE, 1, 0, 0)
    ),
    "fence_producers": lambda admin, n: admin.fence_producers(["till", "desk"]),
    "force_terminate_transaction": lambda admin, n: admin.force_terminate_transaction("till"),
    "describe_acls": lambda admin, n: admin.describe_acls(AclBindingFilter()),
    "create_acls": lambda admin, n: admin.create_acls([ACL]),
    "delete_acls": lambda admin, n: admin.delete_acls([AclBindingFilter()]),
    "describe_user_scram_credentials": lambda admin, n: admin.describe_user_scram_credentials(),
    "alter_user_scram_credentials": lambda admin, n: admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("cook", ScramMechanism.SCRAM_SHA_256, "secret", 4096)]
    ),
    "create_delegation_token": lambda admin, n: admin.create_delegation_token(),
    "renew_delegation_token": lambda admin, n: admin.renew_delegation_token(b"none"),
    "expire_delegation_token": lambda admin, n: admin.expire_delegation_token(b"none"),
    "describe_delegation_token": lambda admin, n: admin.describe_delegation_token(),
}


def test_every_call_is_cancelled_here() -> None:
    coroutines = {
        name
        for name, method in inspect.getmembers(AIOKafkaAdminClient, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    # client_instance_id only waits for the task that pushes metrics.
    assert coroutines - CALLS.keys() == {"start", "close", "client_instance_id"}
    assert not CALLS.keys() - coroutines


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    topics = {"orders": 6, "payments": 1}
    async with FakeCluster(3, topics, super_users=["User:ANONYMOUS"]) as running:
        async with AIOKafkaAdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            for group in GROUPS:
                await admin.alter_consumer_group_offsets(group, {ONE: 1, TWO: 2})
        yield running


def client_of(cluster: FakeCluster) -> AIOKafkaAdminClient:
    return AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=1)


async def cancelled_after(passes: int, awaitable: Awaitable[object]) -> bool:
    """Cancel after a number of loop passes; True if it had already ended.

    One pass in 20, a different one each time, gives the broker's thread a millisecond: on a busy
    machine it might otherwise not run at all.
    """
    task = asyncio.ensure_future(awaitable)
    for number in range(passes):
        if task.done():
            break
        await asyncio.sleep(0 if (number + passes) % 20 else 0.001)
    ended = task.done()
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert not isinstance(result, Exception) or isinstance(result, KafkaError), repr(result)
    assert ended or task.cancelled(), "a cancelled call goes on"
    return ended


async def assert_no_task_is_left(before: "set[asyncio.Task[Any]]") -> None:
    for _ in range(20):  # cancelled tasks end within some passes of the loop
        left = [task.get_name() for task in asyncio.all_tasks() - before]
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left running: {left}")


@pytest.mark.parametrize("name", CALLS)
async def test_call_is_cancelled_at_each_step(cluster: FakeCluster, name: str) -> None:
    async with client_of(cluster) as admin:
        await admin.describe_cluster()
        await admin.list_groups()  # all connections are open
        before = asyncio.all_tasks()
        for passes in range(LONGEST):
            ended = await cancelled_after(passes, CALLS[name](admin, passes))
            await assert_no_task_is_left(before)
            if ended:
                break
        assert ended
        assert passes > 0
        async with asyncio.timeout(30):
            await admin.describe_consumer_groups(GROUPS, typed=True)  # it works as before


@pytest.mark.parametrize("name", CALLS)
async def test_first_call_is_cancelled_at_each_step(cluster: FakeCluster, name: str) -> None:
    """The client has one connection, so the call opens others."""
    before = asyncio.all_tasks()
    for passes in range(LONGEST):
        async with client_of(cluster) as admin:
            ended = await cancelled_after(passes, CALLS[name](admin, passes))
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > len(before):  # the embedded brokers' own end, too
                await asyncio.sleep(0)
        if ended:
            break
    assert ended
    assert passes > 0


async def test_start_and_close_are_cancelled_at_each_step(cluster: FakeCluster) -> None:
    before = asyncio.all_tasks()
    for closing in (False, True):
        for passes in range(LONGEST):
            admin = client_of(cluster)
            if closing:
                await admin.start()
            ended = await cancelled_after(passes, admin.close() if closing else admin.start())
            await admin.close()
            async with asyncio.timeout(30):
                while len(asyncio.all_tasks()) > len(before):
                    await asyncio.sleep(0)
            if ended:
                break
        assert ended
        assert passes > 0


@pytest.mark.parametrize("name", ["describe_consumer_groups", "list_offsets", "list_topics"])
async def test_retries_are_cancelled_at_each_step(cluster: FakeCluster, name: str) -> None:
    """Every request is lost: the call is cancelled in its backoff, or as it reconnects."""
    before = asyncio.all_tasks()
    for passes in range(0, 300, 7):
        async with client_of(cluster) as admin:
            await admin.list_groups()
            fault = cluster.control(None, disconnect=True, times=None)
            assert not await cancelled_after(passes, CALLS[name](admin, passes))
            fault.remove()
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > len(before):
                await asyncio.sleep(0)
