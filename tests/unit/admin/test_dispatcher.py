"""Requests to the leaders of partitions and to the coordinators of groups."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    IllegalStateError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotCoordinatorForGroupError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

PARTITIONS = [TopicPartition("orders", number) for number in range(6)]
GROUPS = [f"group-{number}" for number in range(6)]


async def opened(brokers: FakeCluster) -> Dispatcher:
    cluster = Cluster(
        brokers.bootstrap_servers,
        ConnectionOptions(),
        retry_backoff=0.01,
        allow_auto_create_topics=False,
    )
    await cluster.start()
    return Dispatcher(cluster, asyncio.get_running_loop(), 30.0, 30.0)


@pytest.fixture
async def dispatcher(brokers: FakeCluster) -> AsyncIterator[Dispatcher]:
    made = await opened(brokers)
    yield made
    await made.cluster.close(asyncio.get_running_loop().time() + 1)


async def latest_offsets(
    dispatcher: Dispatcher, partitions: list[TopicPartition], timeout_ms: float | None = None
) -> Results[TopicPartition, int]:
    outcomes: Outcomes[TopicPartition, int] = Outcomes(partitions, lambda tp: f"partition {tp}")

    def build(version: int, asked: list[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="orders",
                    partitions=[
                        ListOffsetsPartition(partition_index=tp.partition, timestamp=-1)
                        for tp in asked
                    ],
                )
            ],
        )

    def read(response: ListOffsetsResponse, outcomes: Outcomes[TopicPartition, int]) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if not outcomes.on_code(tp, each.error_code):
                    outcomes.on_value(tp, each.offset)

    return await dispatcher.settle_on_leaders(
        outcomes, ListOffsetsRequest, build, read, dispatcher.deadline(timeout_ms), oldest=1
    )


async def states(
    dispatcher: Dispatcher,
    groups: list[str],
    timeout_ms: float | None = None,
    at_most: int | None = None,
) -> Results[str, str]:
    outcomes: Outcomes[str, str] = Outcomes(groups, lambda group: f"group {group!r}")

    def build(version: int, asked: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=asked)

    def read(response: DescribeGroupsResponse, outcomes: Outcomes[str, str]) -> None:
        for each in response.groups:
            if not outcomes.on_code(each.group_id, each.error_code, each.error_message):
                outcomes.on_value(each.group_id, each.group_state)

    return await dispatcher.settle_on_coordinators(
        CoordinatorKind.GROUP,
        outcomes,
        DescribeGroupsRequest,
        build,
        read,
        dispatcher.deadline(timeout_ms),
        at_most=at_most,
        latest=5,
    )


def bodies(brokers: FakeCluster, api_key: ApiKey) -> list[Any]:
    return [seen.body for seen in brokers.requests if seen.api_key == api_key]


async def test_each_leader_gets_one_request(dispatcher: Dispatcher, brokers: FakeCluster) -> None:
    results = await latest_offsets(dispatcher, PARTITIONS)
    assert results.raise_for_errors() == dict.fromkeys(PARTITIONS, 0)
    leaders = {brokers.partition("orders", number).leader for number in range(6)}
    assert len(leaders) == 3
    assert brokers.count(ApiKey.LIST_OFFSETS) == 3


async def test_only_partitions_that_moved_are_requested_again(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.LIST_OFFSETS,
        node=brokers.partition("orders", 3).leader,
        error=NotLeaderForPartitionError,
        partitions=[("orders", 3)],
    )
    (await latest_offsets(dispatcher, PARTITIONS)).raise_for_errors()
    asked = [
        [each.partition_index for each in body.topics[0].partitions]
        for body in bodies(brokers, ApiKey.LIST_OFFSETS)
    ]
    assert len(asked) == 4
    assert asked[-1] == [3]


async def test_one_partitions_lasting_error_leaves_the_others(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.LIST_OFFSETS,
        node=brokers.partition("orders", 3).leader,
        error=TopicAuthorizationFailedError,
        partitions=[("orders", 3)],
    )
    results = await latest_offsets(dispatcher, PARTITIONS)
    assert set(results.errors()) == {PARTITIONS[3]}
    assert isinstance(results[PARTITIONS[3]], TopicAuthorizationFailedError)


async def test_a_partition_that_does_not_exist_times_out_alone(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    none = TopicPartition("orders", 77)
    results = await latest_offsets(dispatcher, [none, *PARTITIONS], timeout_ms=300)
    error = results[none]
    assert isinstance(error, KafkaTimeoutError)
    assert isinstance(error.__cause__, UnknownTopicOrPartitionError)
    assert "the topic has 6 partitions" in str(error)
    assert set(results.valid()) == set(PARTITIONS)


async def test_looking_for_leaders_creates_no_topic(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    results = await latest_offsets(dispatcher, [TopicPartition("none", 0)], timeout_ms=100)
    assert "none" not in brokers.state.topics
    assert isinstance(results[TopicPartition("none", 0)], KafkaTimeoutError)


async def test_a_silent_leader_delays_only_its_own_partitions(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    leader = brokers.partition("orders", 0).leader
    silent = {tp for tp in PARTITIONS if brokers.partition(*tp).leader == leader}
    brokers.control(ApiKey.LIST_OFFSETS, node=leader, drop=True, times=None)
    results = await latest_offsets(dispatcher, PARTITIONS, timeout_ms=300)
    assert set(results.errors()) == silent
    assert set(results.valid()) == set(PARTITIONS) - silent


async def test_a_request_is_repeated_after_its_leader_disconnects(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    fault = brokers.control(ApiKey.LIST_OFFSETS, disconnect=True)
    (await latest_offsets(dispatcher, PARTITIONS)).raise_for_errors()
    assert fault.hits == 1


async def test_a_closed_client_raises(dispatcher: Dispatcher) -> None:
    await dispatcher.cluster.close(dispatcher.deadline(1000))
    with pytest.raises(IllegalStateError):
        await latest_offsets(dispatcher, PARTITIONS)
    with pytest.raises(IllegalStateError):
        await states(dispatcher, GROUPS)


async def test_cancelling_a_call_leaves_nothing_running(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    fault = brokers.control(ApiKey.LIST_OFFSETS, drop=True)
    call = asyncio.create_task(latest_offsets(dispatcher, PARTITIONS))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if "ListOffsets" in name]


async def test_coordinators_are_looked_up_together(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    assert set((await states(dispatcher, GROUPS)).raise_for_errors()) == set(GROUPS)
    assert [body.coordinator_keys for body in bodies(brokers, ApiKey.FIND_COORDINATOR)] == [GROUPS]
    assert 1 < brokers.count(ApiKey.DESCRIBE_GROUPS) <= 3
    await states(dispatcher, GROUPS)
    assert brokers.count(ApiKey.FIND_COORDINATOR) == 1  # cached


async def test_old_brokers_receive_one_coordinator_lookup_per_group() -> None:
    async with FakeCluster(3, version="2.8") as old:
        dispatcher = await opened(old)
        assert set((await states(dispatcher, GROUPS)).raise_for_errors()) == set(GROUPS)
        assert old.count(ApiKey.FIND_COORDINATOR) == len(GROUPS)
        await dispatcher.cluster.close(asyncio.get_running_loop().time() + 1)


async def test_a_request_has_at_most_so_many_keys(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    (await states(dispatcher, GROUPS, at_most=1)).raise_for_errors()
    assert brokers.count(ApiKey.DESCRIBE_GROUPS) == len(GROUPS)


async def test_only_the_group_that_moved_is_looked_up_again(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    def moved(response: DescribeGroupsResponse) -> None:
        for each in response.groups:
            if each.group_id == "group-2":
                each.error_code = NotCoordinatorForGroupError.errno

    brokers.control(
        ApiKey.DESCRIBE_GROUPS,
        after_handling=True,
        edit=moved,
        when=lambda seen: "group-2" in seen.groups,
    )
    (await states(dispatcher, GROUPS)).raise_for_errors()
    looked_up = [body.coordinator_keys for body in bodies(brokers, ApiKey.FIND_COORDINATOR)]
    assert looked_up == [GROUPS, ["group-2"]]
    assert bodies(brokers, ApiKey.DESCRIBE_GROUPS)[-1].groups == ["group-2"]


async def test_a_lookup_error_concerns_its_group_only(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    errors = {
        "group-1": GroupAuthorizationFailedError,
        "group-2": GroupCoordinatorNotAvailableError,
    }

    def edit(response: Any) -> None:
        for each in response.coordinators:
            if each.key in errors:
                each.error_code = errors[each.key].errno
        response.coordinators = [each for each in response.coordinators if each.key != "group-3"]

    brokers.control(ApiKey.FIND_COORDINATOR, after_handling=True, edit=edit)
    results = await states(dispatcher, GROUPS)
    assert set(results.errors()) == {"group-1", "group-3"}
    assert isinstance(results["group-1"], GroupAuthorizationFailedError)
    assert isinstance(results["group-3"], KafkaProtocolError)


async def test_a_coordinator_that_stops_is_replaced(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    (await states(dispatcher, GROUPS)).raise_for_errors()
    coordinator = dispatcher.cluster.coordinators.get(CoordinatorKind.GROUP, "group-0")
    assert coordinator is not None
    brokers.kill(coordinator)
    (await states(dispatcher, GROUPS)).raise_for_errors()


async def test_a_coordinator_that_disconnects_is_looked_up_again_at_once(
    dispatcher: Dispatcher, brokers: FakeCluster
) -> None:
    (await states(dispatcher, ["group-0"])).raise_for_errors()
    brokers.control(ApiKey.DESCRIBE_GROUPS, disconnect=True)
    (await states(dispatcher, ["group-0"])).raise_for_errors()
    assert brokers.count(ApiKey.DESCRIBE_GROUPS) == 3
    assert brokers.count(ApiKey.FIND_COORDINATOR) == 2
