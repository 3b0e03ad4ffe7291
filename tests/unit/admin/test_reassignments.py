"""Changing the replicas of partitions, and electing their leaders."""

from typing import Any

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, ElectionType, PartitionReassignment
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    ElectionNotNeededError,
    IllegalArgumentError,
    InvalidReplicationFactorError,
    KafkaProtocolError,
    NoReassignmentInProgressError,
    NotControllerError,
    PreferredLeaderNotAvailableError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NONE = TopicPartition("none", 0)


def replicas(brokers: FakeCluster, tp: TopicPartition) -> list[int]:
    return list(brokers.state.topics[tp.topic].partitions[tp.partition].replicas)


def asked_for(brokers: FakeCluster, api_key: ApiKey) -> list[Any]:
    return [seen.body for seen in brokers.requests if seen.api_key == api_key]


async def test_replicas_are_changed(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    results = await admin.alter_partition_reassignments({FIRST: [2, 0], SECOND: (1,), NONE: [0]})
    assert results[FIRST] is results[SECOND] is None
    assert replicas(brokers, FIRST) == [2, 0]
    assert replicas(brokers, SECOND) == [1]
    assert brokers.count(ApiKey.ALTER_PARTITION_REASSIGNMENTS) == 1
    with pytest.raises(UnknownTopicOrPartitionError, match="partition none-0"):
        results.value(NONE)


async def test_none_cancels_a_reassignment(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    results = await admin.alter_partition_reassignments({FIRST: None})
    assert isinstance(results[FIRST], NoReassignmentInProgressError)
    [request] = asked_for(brokers, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert request.topics[0].partitions[0].replicas is None
    brokers.control(ApiKey.ALTER_PARTITION_REASSIGNMENTS, after_handling=True, disconnect=True)
    results = await admin.alter_partition_reassignments({FIRST: None})
    with pytest.raises(NoReassignmentInProgressError, match="may have cancelled it"):
        results.value(FIRST)


async def test_the_replication_factor_is_guarded(admin: AIOKafkaAdminClient) -> None:
    (await admin.alter_partition_reassignments({FIRST: [2, 0]})).raise_for_errors()
    results = await admin.alter_partition_reassignments(
        {FIRST: [1]}, allow_replication_factor_change=False
    )
    assert isinstance(results[FIRST], InvalidReplicationFactorError)


async def test_an_error_of_the_whole_request_is_raised(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def deny(response: Any) -> None:
        response.error_code = ClusterAuthorizationFailedError.errno

    brokers.control(ApiKey.ALTER_PARTITION_REASSIGNMENTS, after_handling=True, edit=deny)
    with pytest.raises(ClusterAuthorizationFailedError):
        await admin.alter_partition_reassignments({FIRST: [1]})


async def test_a_request_is_repeated_at_the_new_controller(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def moved(response: Any) -> None:
        response.error_code = NotControllerError.errno

    for api_key in (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
    ):
        brokers.control(api_key, after_handling=True, edit=moved)
    (await admin.alter_partition_reassignments({FIRST: [1]})).raise_for_errors()
    assert await admin.list_partition_reassignments() == {}
    await admin.elect_leaders(ElectionType.PREFERRED)
    assert brokers.count(ApiKey.ALTER_PARTITION_REASSIGNMENTS) == 2
    assert brokers.count(ApiKey.LIST_PARTITION_REASSIGNMENTS) == 2
    assert brokers.count(ApiKey.ELECT_LEADERS) == 2


async def test_only_the_partition_with_a_retriable_error_is_sent_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def moved(response: Any) -> None:
        response.responses[0].partitions[1].error_code = NotControllerError.errno

    brokers.control(ApiKey.ALTER_PARTITION_REASSIGNMENTS, after_handling=True, edit=moved)
    (await admin.alter_partition_reassignments({FIRST: [1], SECOND: [2]})).raise_for_errors()
    sent = asked_for(brokers, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert [
        [each.partition_index for each in request.topics[0].partitions] for request in sent
    ] == [
        [0, 1],
        [1],
    ]


async def test_partitions_that_a_response_leaves_out_fail(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def empty(response: Any) -> None:
        response.responses.clear()

    brokers.control(ApiKey.ALTER_PARTITION_REASSIGNMENTS, after_handling=True, edit=empty)
    results = await admin.alter_partition_reassignments({FIRST: [1]})
    assert isinstance(results[FIRST], KafkaProtocolError)
    brokers.control(ApiKey.ELECT_LEADERS, respond_with=ElectLeadersResponse())
    elected = await admin.elect_leaders(ElectionType.PREFERRED, [FIRST])
    assert isinstance(elected[FIRST], KafkaProtocolError)


@pytest.mark.parametrize("partitions", [None, [FIRST]])
async def test_an_election_that_may_be_over_is_not_repeated(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, partitions: list[TopicPartition] | None
) -> None:
    slow = ElectLeadersResponse(error_code=RequestTimedOutError.errno)
    brokers.control(ApiKey.ELECT_LEADERS, after_handling=True, respond_with=slow)
    with pytest.raises(RequestTimedOutError):
        await admin.elect_leaders(ElectionType.PREFERRED, partitions)
    assert brokers.count(ApiKey.ELECT_LEADERS) == 1
    moved = ElectLeadersResponse(error_code=NotControllerError.errno)
    brokers.control(ApiKey.ELECT_LEADERS, respond_with=moved)
    await admin.elect_leaders(ElectionType.PREFERRED, partitions)
    assert brokers.count(ApiKey.ELECT_LEADERS) == 3


async def test_reassignments_in_progress_are_listed(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    assert await admin.list_partition_reassignments() == {}
    under_way = OngoingPartitionReassignment(1, [0, 1, 2], [2], [0])
    response = ListPartitionReassignmentsResponse(
        error_message=None, topics=[OngoingTopicReassignment("orders", [under_way])]
    )
    brokers.control(ApiKey.LIST_PARTITION_REASSIGNMENTS, respond_with=response)
    listed = await admin.list_partition_reassignments([FIRST, SECOND, FIRST])
    assert listed == {SECOND: PartitionReassignment((0, 1, 2), (2,), (0,))}
    every, some = asked_for(brokers, ApiKey.LIST_PARTITION_REASSIGNMENTS)
    assert every.topics is None
    assert [(each.name, each.partition_indexes) for each in some.topics] == [("orders", [0, 1])]


async def test_preferred_leaders_are_elected(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    results = await admin.elect_leaders(ElectionType.PREFERRED, [FIRST, NONE])
    assert results[FIRST] is False
    with pytest.raises(UnknownTopicOrPartitionError, match="partition none-0"):
        results.value(NONE)
    brokers.control(
        ApiKey.ELECT_LEADERS,
        respond_with=ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(
                    "orders",
                    [
                        PartitionResult(0, 0, None),
                        PartitionResult(1, PreferredLeaderNotAvailableError.errno, "not in sync"),
                        PartitionResult(2, ElectionNotNeededError.errno, None),
                    ],
                )
            ]
        ),
        times=2,
    )
    for partitions in (None, [FIRST, SECOND]):
        results = await admin.elect_leaders(ElectionType.PREFERRED, partitions)
        assert set(results) == {FIRST, SECOND}
        assert results[FIRST] is True
        with pytest.raises(PreferredLeaderNotAvailableError, match=r"orders-1: not in sync"):
            results.value(SECOND)


async def test_unclean_elections_are_requested(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    assert (await admin.elect_leaders(ElectionType.UNCLEAN, [FIRST]))[FIRST] is False
    [request] = asked_for(brokers, ApiKey.ELECT_LEADERS)
    assert request.election_type == 1


@pytest.mark.parametrize(
    ("version", "needed"), [("2.1", "2.2"), ("2.3", "2.4")], ids=["no election", "no type"]
)
async def test_old_brokers_are_named(version: str, needed: str) -> None:
    async with (
        FakeCluster(1, ["orders"], version=version) as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        kind = ElectionType.PREFERRED if version == "2.1" else ElectionType.UNCLEAN
        for partitions in (None, [FIRST]):
            with pytest.raises(UnsupportedVersionError, match=rf"requires Kafka {needed} or newer"):
                await admin.elect_leaders(kind, partitions)
        for call in (
            admin.alter_partition_reassignments({FIRST: [0]}),
            admin.list_partition_reassignments(),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.4 or newer"):
                await call


async def test_old_brokers_cannot_guard_the_replication_factor() -> None:
    async with (
        FakeCluster(1, ["orders"], version="4.0") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 4\.1 or newer"):
            await admin.alter_partition_reassignments(
                {FIRST: [0]}, allow_replication_factor_change=False
            )
        (await admin.alter_partition_reassignments({FIRST: [0]})).raise_for_errors()


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    for bad in ([FIRST], None, {"orders": [0]}, {FIRST: "0"}, {FIRST: 0}, {FIRST: ["0"]}):
        with pytest.raises(TypeError):
            await call.alter_partition_reassignments(bad)
    for node_ids, match in (([], "None cancels"), ([1, 1], "twice"), ([-1], "node id")):
        with pytest.raises(IllegalArgumentError, match=match):
            await admin.alter_partition_reassignments({FIRST: node_ids})
    with pytest.raises(TypeError, match="`allow_replication_factor_change`"):
        await call.alter_partition_reassignments({FIRST: [1]}, allow_replication_factor_change=1)
    with pytest.raises(TypeError, match="partitions"):
        await call.list_partition_reassignments(["orders"])
    with pytest.raises(TypeError, match="`election_type`"):
        await call.elect_leaders(0, [FIRST])
    with pytest.raises(TypeError, match="partitions"):
        await call.elect_leaders(ElectionType.PREFERRED, "orders")
    asked = {seen.api_key for seen in brokers.requests}
    assert not asked & {
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
    }
