"""Describes share groups (KIP-932), and lists, changes and deletes their start offsets.

Source: ShareGroupDescribeRequest.json v1, DescribeShareGroupOffsetsRequest.json v0-v1,
AlterShareGroupOffsetsRequest.json v0, DeleteShareGroupOffsetsRequest.json v0; KIP-1226.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import (
    INT64,
    as_partition,
    as_partitions,
    topic_names,
    whole,
    wire_string,
)
from aiokafka_lite.admin.core.authorized_operations import AclOperation, authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.describing import Question, describe
from aiokafka_lite.admin.groups.group_calls import (
    by_topic,
    group_label,
    may_settle,
    names_of,
    never,
    of_coordinator,
    partition_label,
    partitions_of,
    raise_of_group,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import IllegalArgumentError, KafkaError, KafkaProtocolError
from aiokafka_lite.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from aiokafka_lite.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from aiokafka_lite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from aiokafka_lite.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "ShareGroupDescription",
    "ShareGroupOffset",
    "ShareGroupOffsets",
    "ShareMemberDescription",
    "alter_share_group_offsets",
    "delete_share_group_offsets",
    "describe_share_groups",
    "list_share_group_offsets",
]

_FEATURE: Final = "Administering share groups"


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group. Several members can have the same partition."""

    member_id: str
    client_id: str
    host: str
    rack_id: str | None
    member_epoch: int
    subscribed_topics: frozenset[str]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group.

    Attributes:
        state: "Stable", "Empty" or "Dead".
        coordinator_id: Node id of the group's coordinator.
        authorized_operations: What the client may do with the group; None if not requested.
    """

    group_id: str
    state: str
    assignor: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[ShareMemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """Where a share group is in a partition.

    Attributes:
        start_offset: The first offset that the group has not finished; all before it are
            acknowledged or archived.
        leader_epoch: None if unknown.
        lag: Records that are not finished; None from brokers before 4.2, or if it is unknown.
    """

    start_offset: int
    leader_epoch: int | None
    lag: int | None


ShareGroupOffsets = Results[TopicPartition, "ShareGroupOffset | None"]
"""The offset of each partition of a share group; None if the group has none; or an error."""


async def describe_share_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str, ShareGroupDescription]:
    """See `AIOKafkaAdminClient.describe_share_groups`."""
    return await describe(
        dispatcher, group_ids, _QUESTION, timeout_ms, include_authorized_operations
    )


def _described(group: DescribedGroup, node_id: int) -> ShareGroupDescription:
    return ShareGroupDescription(
        group.group_id,
        group.group_state,
        group.assignor_name,
        group.group_epoch,
        group.assignment_epoch,
        tuple(
            ShareMemberDescription(
                each.member_id,
                each.client_id,
                each.client_host,
                each.rack_id,
                each.member_epoch,
                frozenset(each.subscribed_topic_names),
                partitions_of(each.assignment),
            )
            for each in group.members
        ),
        node_id,
        authorized_operations(group.authorized_operations),
    )


_QUESTION: Final[Question[ShareGroupDescribeResponse, DescribedGroup, ShareGroupDescription]] = (
    Question(
        ShareGroupDescribeRequest,
        ShareGroupDescribeRequest,
        lambda response: response.groups,
        _described,
        feature=_FEATURE,
    )
)


async def list_share_group_offsets(
    dispatcher: Dispatcher, groups: object, timeout_ms: float | None
) -> Results[str, ShareGroupOffsets]:
    """See `AIOKafkaAdminClient.list_share_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    asked: dict[str, list[TopicPartition] | None] = (
        {
            wire_string("group id", group): None if each is None else as_partitions(list(each))
            for group, each in groups.items()
        }
        if isinstance(groups, Mapping)
        else dict.fromkeys(names_of("groups", groups))
    )
    outcomes: Outcomes[str, ShareGroupOffsets] = Outcomes(
        asked, group_label, retriable=of_coordinator
    )

    def build(version: int, pending: list[str]) -> DescribeShareGroupOffsetsRequest:
        return DescribeShareGroupOffsetsRequest(
            [
                DescribeShareGroupOffsetsRequestGroup(
                    group,
                    None
                    if (partitions := asked[group]) is None
                    else [
                        DescribeShareGroupOffsetsRequestTopic(topic, numbers)
                        for topic, numbers in by_topic(partitions).items()
                    ],
                )
                for group in pending
            ]
        )

    def read(
        response: DescribeShareGroupOffsetsResponse, outcomes: Outcomes[str, ShareGroupOffsets]
    ) -> None:
        for group in response.groups:
            if not outcomes.is_pending(group.group_id):
                continue
            if outcomes.on_code(group.group_id, group.error_code, group.error_message):
                continue
            found: dict[TopicPartition, ShareGroupOffset | KafkaError | None] = {}
            for topic in group.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.topic_name, each.partition_index)
                    if each.error_code:
                        label = f"{group_label(group.group_id)}, {partition_label(tp)}"
                        found[tp] = item_error(each.error_code, label, each.error_message)
                    elif each.start_offset < 0:
                        found[tp] = None
                    else:
                        found[tp] = ShareGroupOffset(
                            each.start_offset,
                            None if each.leader_epoch < 0 else each.leader_epoch,
                            None if each.lag < 0 else each.lag,
                        )
            wanted = asked[group.group_id]
            for tp in wanted or ():
                missing = f"{group_label(group.group_id)}, {partition_label(tp)}"
                found.setdefault(tp, KafkaProtocolError(f"{missing}: the response omits it"))
            outcomes.on_value(group.group_id, Results(found))

    return await dispatcher.settle_on_coordinators(
        CoordinatorKind.GROUP,
        outcomes,
        DescribeShareGroupOffsetsRequest,
        build,
        read,
        deadline,
        feature=_FEATURE,
    )


async def alter_share_group_offsets(
    dispatcher: Dispatcher, group_id: object, offsets: object, timeout_ms: float | None
) -> Results[TopicPartition, None]:
    """See `AIOKafkaAdminClient.alter_share_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    if not isinstance(offsets, Mapping):
        raise IllegalArgumentError(
            f"`offsets` must be a mapping of partitions to start offsets, not {offsets!r}"
        )
    wanted = {
        as_partition(tp): whole("start offset", offset, most=INT64)
        for tp, offset in offsets.items()
    }
    outcomes: Outcomes[TopicPartition, None] = Outcomes(
        wanted,
        lambda tp: f"{group_label(group)}, {partition_label(tp)}",
        retriable=never,
        retries_refusal=may_settle,
    )

    def build(version: int, pending: list[TopicPartition]) -> AlterShareGroupOffsetsRequest:
        return AlterShareGroupOffsetsRequest(
            group,
            [
                AlterShareGroupOffsetsRequestTopic(
                    topic,
                    [
                        AlterShareGroupOffsetsRequestPartition(
                            number, wanted[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(pending).items()
            ],
        )

    def read(
        response: AlterShareGroupOffsetsResponse, outcomes: Outcomes[TopicPartition, None]
    ) -> None:
        raise_of_group(group, response.error_code, response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                tp = TopicPartition(topic.topic_name, each.partition_index)
                if not outcomes.on_code(tp, each.error_code, each.error_message):
                    outcomes.on_value(tp, None)

    return await dispatcher.settle(
        outcomes,
        AlterShareGroupOffsetsRequest,
        build,
        read,
        CoordinatorOf(group, CoordinatorKind.GROUP),
        deadline,
        feature=_FEATURE,
    )


async def delete_share_group_offsets(
    dispatcher: Dispatcher, group_id: object, topics: object, timeout_ms: float | None
) -> Results[str, None]:
    """See `AIOKafkaAdminClient.delete_share_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    wanted = sorted(topic_names(topics))
    outcomes: Outcomes[str, None] = Outcomes(
        wanted,
        lambda topic: f"{group_label(group)}, topic {topic!r}",
        retriable=never,
        retries_refusal=may_settle,
    )

    def build(version: int, pending: list[str]) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(
            group, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in pending]
        )

    def read(response: DeleteShareGroupOffsetsResponse, outcomes: Outcomes[str, None]) -> None:
        raise_of_group(group, response.error_code, response.error_message)
        for each in response.responses:
            if not outcomes.on_code(each.topic_name, each.error_code, each.error_message):
                outcomes.on_value(each.topic_name, None)

    return await dispatcher.settle(
        outcomes,
        DeleteShareGroupOffsetsRequest,
        build,
        read,
        CoordinatorOf(group, CoordinatorKind.GROUP),
        deadline,
        feature=_FEATURE,
    )
