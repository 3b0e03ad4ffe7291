"""Describes groups of Kafka Streams (KIP-1071). Their offsets are those of any group.

Source: StreamsGroupDescribeRequest.json v0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.describing import Question, describe
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
)

__all__ = [
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopic",
    "StreamsTopology",
    "describe_streams_groups",
]

_LATEST: Final = 0
"""Version 1 adds the description of the topology, which is not read."""

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


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group.

    Attributes:
        state: "Stable", "Empty", "NotReady", "Assigning", "Reconciling" or "Dead".
        topology: None if the group has none yet.
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


async def describe_streams_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str, StreamsGroupDescription]:
    """See `AIOKafkaAdminClient.describe_streams_groups`."""
    return await describe(
        dispatcher, group_ids, _QUESTION, timeout_ms, include_authorized_operations
    )


def _described(group: DescribedGroup, node_id: int) -> StreamsGroupDescription:
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        None if group.topology is None else _topology(group.topology),
        tuple(_member(each) for each in group.members),
        node_id,
        authorized_operations(group.authorized_operations),
    )


_QUESTION: Final[
    Question[StreamsGroupDescribeResponse, DescribedGroup, StreamsGroupDescription]
] = Question(
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeRequest,
    lambda response: response.groups,
    _described,
    latest=_LATEST,
    feature="Describing streams groups",
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
