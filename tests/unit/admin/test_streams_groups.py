"""Streams groups; the embedded broker has none, so the tests build the responses."""

import asyncio
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AclOperation,
    AIOKafkaAdminClient,
    StreamsNodeType,
    StreamsTasks,
    StreamsTopic,
    TopologyDescriptionStatus,
)
from aiokafka_lite.errors import (
    GroupIdNotFound,
    GroupLoadInProgressError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages import streams_group_describe as messages
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ONE = TopicPartition("orders", 0)


def described(request: Any) -> messages.StreamsGroupDescribeResponse:
    """One member and a topology of one part in each group."""
    changelog = messages.TopicInfo("log", 3, 2, [messages.KeyValue("cleanup.policy", "compact")])
    topology = messages.Topology(
        2,
        [
            messages.Subtopology(
                "0", ["orders"], ["sink"], [changelog], [messages.TopicInfo("again", 0, 0, [])]
            )
        ],
    )
    member = messages.Member(
        member_id="member-1",
        member_epoch=5,
        client_id="client",
        client_host="/host",
        topology_epoch=2,
        process_id="process",
        user_endpoint=messages.Endpoint("here", 8080),
        client_tags=[messages.KeyValue("zone", "a")],
        task_offsets=[messages.TaskOffset("0", 1, 7)],
        task_end_offsets=[messages.TaskOffset("0", 1, 9)],
        assignment=messages.Assignment(
            [messages.TaskIds("0", [0, 1])], [messages.TaskIds("0", [2])], []
        ),
        target_assignment=messages.Assignment([], [], [messages.TaskIds("0", [2])]),
        is_classic=False,
    )
    return messages.StreamsGroupDescribeResponse(
        groups=[
            messages.DescribedGroup(
                group_id=group,
                group_state="Stable",
                group_epoch=6,
                assignment_epoch=5,
                topology=topology if group != "bare" else None,
                members=[member] if group != "bare" else [],
                authorized_operations=1 << 8,
            )
            for group in request.group_ids
        ]
    )


async def test_streams_groups_are_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=described, times=None)
    results = await admin.describe_streams_groups(["g", "bare"], include_authorized_operations=True)
    found = results.value("g")
    assert (found.state, found.group_epoch, found.assignment_epoch) == ("Stable", 6, 5)
    assert found.authorized_operations == {AclOperation.DESCRIBE}
    assert found.coordinator_id == await admin.find_coordinator("g")
    assert found.topology is not None
    assert found.topology.epoch == 2
    [part] = found.topology.subtopologies or ()
    assert (part.subtopology_id, part.source_topics) == ("0", ("orders",))
    assert part.repartition_sink_topics == ("sink",)
    assert part.state_changelog_topics == (
        StreamsTopic("log", 3, 2, {"cleanup.policy": "compact"}),
    )
    assert part.repartition_source_topics == (StreamsTopic("again", None, None, {}),)
    [member] = found.members
    assert (member.member_id, member.process_id) == ("member-1", "process")
    assert member.user_endpoint == ("here", 8080)
    assert member.client_tags == {"zone": "a"}
    assert (member.task_offsets, member.task_end_offsets) == ({("0", 1): 7}, {("0", 1): 9})
    assert member.assignment == StreamsTasks(
        frozenset({("0", 0), ("0", 1)}), frozenset({("0", 2)}), frozenset()
    )
    assert member.target_assignment.warmup == {("0", 2)}
    assert not member.is_classic
    assert (results.value("bare").topology, results.value("bare").members) == (None, ())


def with_topology(request: Any) -> messages.StreamsGroupDescribeResponse:
    """A description of two nodes and a global store."""
    node = messages.TopologyDescriptionNode
    response = described(request)
    for group in response.groups:
        source = node("source", 1, ["orders"], successors=["sink"])
        sink = node("sink", 3, sink_topic="out")
        store = messages.TopologyDescriptionGlobalStore(
            node("prices", 1, ["prices"], successors=["fill"]), node("fill", 2, stores=["store"])
        )
        group.assignor_name = "sticky"
        group.topology_description_status = 3
        group.topology_description = messages.TopologyDescription(
            [messages.TopologyDescriptionSubtopology("0", [source, sink])], [store]
        )
    return response


async def test_the_topology_of_streams_groups_is_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=with_topology)
    results = await admin.describe_streams_groups(["g"], include_topology_description=True)
    found = results.value("g")
    assert found.assignor == "sticky"
    assert found.topology_description_status is TopologyDescriptionStatus.AVAILABLE
    assert found.topology_description is not None
    source, sink = found.topology_description.subtopologies["0"]
    assert (source.type, source.source_topics) == (StreamsNodeType.SOURCE, {"orders"})
    assert (source.successors, source.predecessors) == ({"sink"}, set())
    assert (sink.type, sink.sink_topic) == (StreamsNodeType.SINK, "out")
    assert (sink.successors, sink.predecessors) == (set(), {"source"})
    [(prices, fill)] = found.topology_description.global_stores
    assert (prices.name, fill.stores, fill.predecessors) == ("prices", {"store"}, {"prices"})

    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=described)
    found = (await admin.describe_streams_groups(["g"])).value("g")
    assert found.topology_description_status is TopologyDescriptionStatus.NOT_REQUESTED
    assert (found.topology_description, found.assignor) == (None, None)
    asked: list[Any] = [
        seen.body for seen in brokers.requests if seen.api_key == ApiKey.STREAMS_GROUP_DESCRIBE
    ]
    assert [body.include_topology_description for body in asked] == [True, False]


def unknown_node(group: Any) -> None:
    group.topology_description.subtopologies[0].nodes[0].node_type = 4


def unknown_status(group: Any) -> None:
    group.topology_description_status = 9


def status_without_description(group: Any) -> None:
    group.topology_description = None


def description_without_status(group: Any) -> None:
    group.topology_description_status = 1


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (unknown_node, "group 'g': node 'source' of its topology has an unknown type: 4"),
        (unknown_status, "group 'g': unknown status .*: 9"),
        (status_without_description, "AVAILABLE, with no description"),
        (description_without_status, "NOT_STORED, with a description"),
    ],
)
async def test_an_impossible_description_of_a_topology_fails_its_group(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, spoil: Any, problem: str
) -> None:
    def respond(request: Any) -> Any:
        response = with_topology(request)
        spoil(response.groups[0])
        return response

    for group in ("g", "h"):
        brokers.move_coordinator(group, 1)
    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=respond)
    results = await admin.describe_streams_groups(["g", "h"], include_topology_description=True)
    assert list(results.valid()) == ["h"]
    with pytest.raises(KafkaProtocolError, match=problem):
        results.value("g")


async def test_descriptions_of_topologies_need_a_newer_broker() -> None:
    offered = {ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0)}
    async with (
        FakeCluster(1, api_versions=offered) as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(
            UnsupportedVersionError, match=r"topology of streams groups requires Kafka 4\.4"
        ):
            await admin.describe_streams_groups(["g"], include_topology_description=True)


async def test_the_error_of_a_streams_group_leaves_the_others(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    for group in "abc":
        brokers.move_coordinator(group, 1)

    def mixed(request: Any) -> Any:
        response = described(request)
        for group in list(response.groups):
            if group.group_id == "b":
                group.error_code = GroupIdNotFound.errno
            if group.group_id == "c":
                response.groups.remove(group)
        return response

    def loading(request: Any) -> Any:
        response = mixed(request)
        response.groups[0].error_code = GroupLoadInProgressError.errno
        return response

    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=loading)
    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=mixed)
    results = await admin.describe_streams_groups(["a", "b", "c"])
    assert list(results.valid()) == ["a"]
    with pytest.raises(GroupIdNotFound, match="group 'b'"):
        results.value("b")
    assert isinstance(results["c"], KafkaProtocolError)
    asked: list[Any] = [
        seen.body for seen in brokers.requests if seen.api_key == ApiKey.STREAMS_GROUP_DESCRIBE
    ]
    assert [body.group_ids for body in asked] == [["a", "b", "c"], ["a"]]


async def test_offsets_of_a_streams_group(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    (await admin.alter_streams_group_offsets("g", {ONE: 4})).raise_for_errors()
    listed = await admin.list_streams_group_offsets({"g": [ONE]}, require_stable=True)
    assert listed.value("g").valid() == {ONE: OffsetAndMetadata(4, "")}
    (await admin.delete_streams_group_offsets("g", [ONE])).raise_for_errors()
    assert brokers.committed("g") == {}
    (await admin.alter_streams_group_offsets("g", {ONE: 4})).raise_for_errors()
    results = await admin.delete_streams_groups(["g", "none"])
    assert results["g"] is None
    assert isinstance(results["none"], GroupIdNotFound)


async def test_brokers_without_streams_groups(admin: AIOKafkaAdminClient) -> None:
    async with (
        FakeCluster(1, version="4.0") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as other,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"streams groups requires Kafka 4\.2"):
            await other.describe_streams_groups(["g"])
    results = await admin.describe_streams_groups(["g"])  # offered, but switched off
    assert isinstance(results["g"], UnsupportedVersionError)


async def test_bad_arguments_send_nothing(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    before = len(brokers.requests)
    calls: list[Any] = [
        lambda: admin.describe_streams_groups("g"),
        lambda: admin.describe_streams_groups(["g"], include_authorized_operations=1),  # type: ignore[arg-type]
        lambda: admin.describe_streams_groups(["g"], include_topology_description=1),  # type: ignore[arg-type]
        lambda: admin.list_streams_group_offsets("g"),
        lambda: admin.alter_streams_group_offsets("g", {"orders": 1}),  # type: ignore[dict-item]
        lambda: admin.delete_streams_group_offsets("g", ["orders"]),  # type: ignore[list-item]
        lambda: admin.delete_streams_groups("g"),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            await call()
    assert len(brokers.requests) == before


async def test_a_cancelled_call_leaves_the_client_usable(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    fault = brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, delay=60)
    call = asyncio.create_task(admin.describe_streams_groups(["g"]))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brokers.disconnect()
    brokers.control(ApiKey.STREAMS_GROUP_DESCRIBE, respond_with=described)
    (await admin.describe_streams_groups(["g"])).raise_for_errors()
