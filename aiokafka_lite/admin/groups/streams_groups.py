"""Describes groups of Kafka Streams (KIP-1071). Their offsets are those of any group.

Source: StreamsGroupDescribeRequest.json v0-v1, KIP-1331.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import flag
from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.describing import Question, describe
from aiokafka_lite.admin.groups.group_calls import group_label
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
)

__all__ = [
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsNodeType",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopic",
    "StreamsTopology",
    "StreamsTopologyDescription",
    "StreamsTopologyNode",
    "TopologyDescriptionStatus",
    "describe_streams_groups",
]

_DESCRIPTION_FROM: Final = 1
"""The version that returns the description of the topology (Kafka 4.4)."""

Task = tuple[str, int]
"""A task: its subtopology id and its partition."""


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """The tasks of a member, each a (subtopology id, partition)."""

    active: frozenset[Task]
    standby: frozenset[Task]
    warmup: frozenset[Task]


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member of a streams group.

    Attributes:
        process_id: Identifies the process; several members can have the same.
        user_endpoint: (host, port) for interactive queries, None if it has none.
        task_offsets, task_end_offsets: Offset of each task, and the end offset of its changelog.
        is_classic: True if it uses the classic protocol.
    """

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    task_offsets: Mapping[Task, int]
    task_end_offsets: Mapping[Task, int]
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    is_classic: bool


@dataclass(frozen=True, slots=True)
class StreamsTopic:
    """A topic that a subtopology writes or reads.

    Attributes:
        partitions: None if the number is not fixed.
        replication_factor: None: the broker's default.
    """

    name: str
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology, whose tasks run together."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopic, ...]
    repartition_source_topics: tuple[StreamsTopic, ...]


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The topology of a streams group.

    Attributes:
        subtopologies: None if the group has not been configured with its topics yet.
    """

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...] | None


class StreamsNodeType(enum.IntEnum):
    """What a node of a topology does; the values are Kafka's."""

    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


@dataclass(frozen=True, slots=True)
class StreamsTopologyNode:
    """A node of a topology.

    Attributes:
        source_topics: The topics that a source reads.
        sink_topic: The topic that a sink writes; None for other nodes, and if it is chosen per
            record.
        stores: The state stores that a processor uses.
        successors, predecessors: The names of the nodes after it and before it.
    """

    name: str
    type: StreamsNodeType
    source_topics: frozenset[str]
    sink_topic: str | None
    stores: frozenset[str]
    successors: frozenset[str]
    predecessors: frozenset[str]


@dataclass(frozen=True, slots=True)
class StreamsTopologyDescription:
    """How the nodes of a topology are connected.

    Attributes:
        subtopologies: The nodes of each subtopology by its id.
        global_stores: The source of each global store, and the processor that fills it.
    """

    subtopologies: Mapping[str, tuple[StreamsTopologyNode, ...]]
    global_stores: tuple[tuple[StreamsTopologyNode, StreamsTopologyNode], ...]


class TopologyDescriptionStatus(enum.IntEnum):
    """Why a description of a topology is there, or is not; the values are Kafka's."""

    NOT_REQUESTED = 0
    """It was not requested, or the broker is too old (before 4.4)."""
    NOT_STORED = 1
    """The members have sent none, or the brokers have no plugin that stores it."""
    ERROR = 2
    """The broker's plugin failed; the broker's log has the reason."""
    AVAILABLE = 3


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group.

    Attributes:
        state: "Stable", "Empty", "NotReady", "Assigning", "Reconciling" or "Dead".
        topology: None if the group has none yet.
        assignor: The task assignor of the next assignment; None from brokers before 4.4.
        topology_description: None unless its status is AVAILABLE.
        coordinator_id: Node id of the group's coordinator.
        authorized_operations: What the client may do with the group; None if not requested.
    """

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology: StreamsTopology | None
    members: tuple[StreamsMemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None
    assignor: str | None = None
    topology_description: StreamsTopologyDescription | None = None
    topology_description_status: TopologyDescriptionStatus = TopologyDescriptionStatus.NOT_REQUESTED


async def describe_streams_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
    include_topology_description: bool,
) -> Results[str, StreamsGroupDescription]:
    """See `AIOKafkaAdminClient.describe_streams_groups`."""
    described = flag("include_topology_description", include_topology_description)
    question: Question[StreamsGroupDescribeResponse, DescribedGroup, StreamsGroupDescription] = (
        Question(
            StreamsGroupDescribeRequest,
            lambda groups, wanted: StreamsGroupDescribeRequest(groups, wanted, described),
            lambda response: response.groups,
            _described,
            oldest=_DESCRIPTION_FROM if described else 0,
            feature="Describing the topology of streams groups"
            if described
            else "Describing streams groups",
        )
    )
    return await describe(
        dispatcher, group_ids, question, timeout_ms, include_authorized_operations
    )


def _described(group: DescribedGroup, node_id: int) -> StreamsGroupDescription:
    try:
        status = TopologyDescriptionStatus(group.topology_description_status)
    except ValueError as error:
        raise KafkaProtocolError(
            f"{group_label(group.group_id)}: unknown status of a topology's description: "
            f"{group.topology_description_status}"
        ) from error
    description = group.topology_description
    if (description is None) == (status is TopologyDescriptionStatus.AVAILABLE):
        there = "no description" if description is None else "a description"
        raise KafkaProtocolError(
            f"{group_label(group.group_id)}: the status of the topology's description is "
            f"{status.name}, with {there}"
        )
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        None if group.topology is None else _topology(group.topology),
        tuple(_member(each) for each in group.members),
        node_id,
        authorized_operations(group.authorized_operations),
        group.assignor_name,
        None if description is None else _description(description, group_label(group.group_id)),
        status,
    )


def _description(description: TopologyDescription, label: str) -> StreamsTopologyDescription:
    return StreamsTopologyDescription(
        {each.subtopology_id: _nodes(each.nodes, label) for each in description.subtopologies},
        tuple(_global_store(each, label) for each in description.global_stores),
    )


def _global_store(
    store: TopologyDescriptionGlobalStore, label: str
) -> tuple[StreamsTopologyNode, StreamsTopologyNode]:
    source, processor = _nodes([store.source, store.processor], label)
    return source, processor


def _nodes(nodes: Sequence[TopologyDescriptionNode], label: str) -> tuple[StreamsTopologyNode, ...]:
    predecessors: dict[str, set[str]] = {}
    for each in nodes:
        for successor in each.successors:
            predecessors.setdefault(successor, set()).add(each.name)
    return tuple(_node(each, predecessors.get(each.name, set()), label) for each in nodes)


def _node(
    node: TopologyDescriptionNode, predecessors: Iterable[str], label: str
) -> StreamsTopologyNode:
    try:
        type_ = StreamsNodeType(node.node_type)
    except ValueError as error:
        raise KafkaProtocolError(
            f"{label}: node {node.name!r} of its topology has an unknown type: {node.node_type}"
        ) from error
    return StreamsTopologyNode(
        node.name,
        type_,
        frozenset(node.source_topics),
        node.sink_topic,
        frozenset(node.stores),
        frozenset(node.successors),
        frozenset(predecessors),
    )


def _member(member: Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.member_epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {each.key: each.value for each in member.client_tags},
        _offsets(member.task_offsets),
        _offsets(member.task_end_offsets),
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.is_classic,
    )


def _offsets(offsets: Iterable[TaskOffset]) -> dict[Task, int]:
    return {(each.subtopology_id, each.partition): each.offset for each in offsets}


def _tasks(assignment: Assignment | None) -> StreamsTasks:
    def of(tasks: Iterable[TaskIds]) -> frozenset[Task]:
        return frozenset(
            (each.subtopology_id, partition) for each in tasks for partition in each.partitions
        )

    if assignment is None:
        return StreamsTasks(frozenset(), frozenset(), frozenset())
    return StreamsTasks(
        of(assignment.active_tasks), of(assignment.standby_tasks), of(assignment.warmup_tasks)
    )


def _topology(topology: Topology) -> StreamsTopology:
    parts = topology.subtopologies
    return StreamsTopology(
        topology.epoch,
        None
        if parts is None
        else tuple(
            StreamsSubtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.repartition_sink_topics),
                tuple(_topic(topic) for topic in each.state_changelog_topics),
                tuple(_topic(topic) for topic in each.repartition_source_topics),
            )
            for each in parts
        ),
    )


def _topic(topic: TopicInfo) -> StreamsTopic:
    return StreamsTopic(
        topic.name,
        topic.partitions or None,
        topic.replication_factor or None,
        {each.key: each.value for each in topic.topic_configs},
    )
