"""Describes consumer and classic groups, and finds coordinators.

Source: DescribeGroupsRequest.json v0-v6, ConsumerGroupDescribeRequest.json v0-v1,
FindCoordinatorRequest.json; KIP-430, 848, 1043.

Non-obvious:
- A group of the consumer protocol (KIP-848) is unknown to DescribeGroups, and a classic group to
  ConsumerGroupDescribe. As in Java, each group is first requested with the newer one, and with the
  other if the coordinator reports GROUP_ID_NOT_FOUND, does not enable the consumer protocol, or is
  too old.
- Brokers before 4.1 describe a group that does not exist as "Dead", without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from aiokafka_lite._arguments import INT32, flag, whole, wire_string
from aiokafka_lite.admin.core.authorized_operations import authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.describing import Question, describe, describe_all
from aiokafka_lite.admin.groups.group_calls import (
    group_label,
    of_coordinator,
    partitions_of,
)
from aiokafka_lite.admin.groups.group_types import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    ConsumerGroupDescription,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsResult,
    GroupMemberDescription,
)
from aiokafka_lite.admin.groups.listing import GroupListing
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import ToNode
from aiokafka_lite.cluster.retry import find_coordinator as look_up_coordinator
from aiokafka_lite.errors import (
    IllegalArgumentError,
    KafkaError,
    KafkaProtocolError,
)
from aiokafka_lite.group.assignment_data import read_assignment
from aiokafka_lite.protocol.messages import describe_groups as classic
from aiokafka_lite.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from aiokafka_lite.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from aiokafka_lite.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

__all__ = [
    "describe_classic_groups",
    "describe_consumer_groups",
    "describe_groups",
    "find_coordinator",
    "members_of",
]

V = TypeVar("V")

_OPERATIONS_FROM: Final = 3
"""The version of DescribeGroups that returns authorized operations (KIP-430)."""

_CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of classic groups that consume."""

_CLASSIC_TYPE: Final = "classic"
_CONSUMER_TYPE: Final = "consumer"
"""Group types."""


# --- describing


async def describe_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    group_coordinator_id: int | None,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> list[DescribeGroupsResult]:
    """aiokafka's `describe_consumer_groups`: one result per coordinator, errors as codes."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = list(_types(group_ids))
    wanted = flag("include_authorized_operations", include_authorized_operations)
    described: list[DescribeGroupsResult] = []
    outcomes: Outcomes[str, None] = Outcomes(asked, group_label, retriable=of_coordinator)

    def build(version: int, groups: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=groups, include_authorized_operations=wanted)

    def read(response: DescribeGroupsResponse, outcomes: Outcomes[str, None]) -> None:
        found: list[DescribedGroup] = []
        for each in response.groups:
            if not outcomes.is_pending(each.group_id):
                continue
            if each.error_code and of_coordinator(item_error(each.error_code, "")):
                outcomes.on_code(each.group_id, each.error_code, each.error_message)
                continue
            outcomes.on_value(each.group_id, None)
            found.append(_as_aiokafka(each))
        if found:
            described.append(DescribeGroupsResult(response.throttle_time_ms, found))

    oldest = _OPERATIONS_FROM if wanted else 0
    feature = "Describing the authorized operations of a group" if wanted else None
    if group_coordinator_id is None:
        results = await dispatcher.settle_on_coordinators(
            CoordinatorKind.GROUP,
            outcomes,
            DescribeGroupsRequest,
            build,
            read,
            deadline,
            oldest=oldest,
            feature=feature,
        )
    else:
        results = await dispatcher.settle(
            outcomes,
            DescribeGroupsRequest,
            build,
            read,
            ToNode(whole("group_coordinator_id", group_coordinator_id, most=INT32)),
            deadline,
            oldest=oldest,
            feature=feature,
        )
    results.raise_for_errors()
    return described


def _as_aiokafka(group: classic.DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group.error_code,
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [
            DescribedMember(
                each.member_id,
                each.client_id,
                each.client_host,
                each.member_metadata,
                each.member_assignment,
            )
            for each in group.members
        ],
        group.authorized_operations,
    )


async def describe_consumer_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str, ConsumerGroupDescription]:
    """Java's `describeConsumerGroups`: groups of both protocols."""
    deadline = dispatcher.deadline(timeout_ms)
    types = _types(group_ids)
    return await describe_all(
        dispatcher,
        types,
        [_by_consumer_protocol(_of_consumer_protocol), _by_classic_protocol(_consuming)],
        deadline,
        flag("include_authorized_operations", include_authorized_operations),
        likely_second=[each for each, type_ in types.items() if type_ == _CLASSIC_TYPE],
    )


def _types(groups: object) -> dict[str, str | None]:
    """Check group ids and listings of groups; return the type of each group, if it is known."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise TypeError(f"`group_ids` must be an iterable of group ids or listings, not {groups!r}")
    return {
        wire_string("group_ids", each.group_id if isinstance(each, GroupListing) else each): (
            each.type if isinstance(each, GroupListing) else None
        )
        for each in groups
    }


async def members_of(
    dispatcher: Dispatcher, group_id: str, deadline: float
) -> list[tuple[str, str | None]]:
    """Return the member id and the group instance id of each member of a group of any protocol.

    Raises:
        KafkaError: The group could not be described.
    """
    questions: list[Question[Any, Any, list[tuple[str, str | None]]]] = [
        _by_consumer_protocol(_members_of_consumer_protocol),
        _by_classic_protocol(_members_of_classic_protocol),
    ]
    found = await describe_all(dispatcher, [group_id], questions, deadline, False)
    return found.value(group_id)


# --- groups of the consumer protocol


def _of_consumer_protocol(group: DescribedConsumerGroup, node_id: int) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        _CONSUMER_TYPE,
        group.group_state,
        group.assignor_name,
        tuple(
            GroupMemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                partitions_of(each.assignment),
                each.rack_id,
                partitions_of(each.target_assignment),
                each.member_epoch,
                None if each.member_type < 0 else bool(each.member_type),
                frozenset(each.subscribed_topic_names),
                each.subscribed_topic_regex or None,
            )
            for each in group.members
        ),
        node_id,
        False,
        group.group_epoch,
        group.assignment_epoch,
        authorized_operations(group.authorized_operations),
    )


def _members_of_consumer_protocol(
    group: DescribedConsumerGroup, node_id: int
) -> list[tuple[str, str | None]]:
    return [(each.member_id, each.instance_id) for each in group.members]


def _by_consumer_protocol(
    convert: Callable[[DescribedConsumerGroup, int], V],
) -> Question[ConsumerGroupDescribeResponse, DescribedConsumerGroup, V]:
    return Question(
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeRequest,
        lambda response: response.groups,
        convert,
    )


# --- classic groups


def _of_classic_protocol(group: classic.DescribedGroup, node_id: int) -> ClassicGroupDescription:
    return ClassicGroupDescription(
        group.group_id,
        group.protocol_type,
        group.protocol_data,
        group.group_state,
        tuple(
            ClassicMemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.member_metadata,
                each.member_assignment,
            )
            for each in group.members
        ),
        node_id,
        authorized_operations(group.authorized_operations),
    )


def _consuming(group: classic.DescribedGroup, node_id: int) -> ConsumerGroupDescription:
    """Describe a classic group as one that consumes, or raise the reason why it does not."""
    label = group_label(group.group_id)
    if group.protocol_type not in (_CONSUMER_PROTOCOL, ""):
        raise IllegalArgumentError(
            f"{label} is not a consumer group: its protocol type is {group.protocol_type!r} "
            "(describe_classic_groups describes it)"
        )
    try:
        members = tuple(
            GroupMemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                frozenset(read_assignment(each.member_assignment).partitions)
                if each.member_assignment
                else frozenset(),
                upgraded=False,
            )
            for each in group.members
        )
    except KafkaError as error:
        raise KafkaProtocolError(
            f"{label}: the assignment of a member is unreadable: {error}"
        ) from error
    return ConsumerGroupDescription(
        group.group_id,
        _CLASSIC_TYPE,
        group.group_state,
        group.protocol_data,
        members,
        node_id,
        not group.protocol_type,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _members_of_classic_protocol(
    group: classic.DescribedGroup, node_id: int
) -> list[tuple[str, str | None]]:
    return [(each.member_id, each.group_instance_id) for each in group.members]


def _by_classic_protocol(
    convert: Callable[[classic.DescribedGroup, int], V],
) -> Question[DescribeGroupsResponse, classic.DescribedGroup, V]:
    return Question(
        DescribeGroupsRequest,
        DescribeGroupsRequest,
        lambda response: response.groups,
        convert,
        operations_from=_OPERATIONS_FROM,
        dead_if_unknown=True,
    )


async def describe_classic_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str, ClassicGroupDescription]:
    """See `AIOKafkaAdminClient.describe_classic_groups`."""
    return await describe(
        dispatcher,
        group_ids,
        _by_classic_protocol(_of_classic_protocol),
        timeout_ms,
        include_authorized_operations,
    )


async def find_coordinator(
    dispatcher: Dispatcher, group_id: object, coordinator_type: object, timeout_ms: float | None
) -> int:
    """See `AIOKafkaAdminClient.find_coordinator`."""
    deadline = dispatcher.deadline(timeout_ms)
    key = wire_string("group_id", group_id)
    try:
        kind = CoordinatorKind(whole("coordinator_type", coordinator_type))
    except ValueError as error:
        raise IllegalArgumentError(
            f"`coordinator_type` must be 0 (group), 1 (transaction) or 2 (share), "
            f"not {coordinator_type!r}"
        ) from error
    cluster = dispatcher.cluster
    node = await look_up_coordinator(cluster, key, kind, deadline)  # not from the cache
    cluster.learn_node(node)
    cluster.coordinators.set(kind, key, node.node_id)
    return node.node_id
