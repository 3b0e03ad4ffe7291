"""Describes consumer and classic groups, and finds coordinators.

Source: DescribeGroupsRequest.json v0-v6, ConsumerGroupDescribeRequest.json v0-v1,
FindCoordinatorRequest.json; KIP-430, 848, 1043.

Non-obvious:
- A group of the consumer protocol (KIP-848) is unknown to DescribeGroups, and a classic group to
  ConsumerGroupDescribe. As in Java, each group is first requested with the newer one, and with the
  other if the coordinator reports GROUP_ID_NOT_FOUND or is too old.
- Brokers before 4.1 describe a group that does not exist as "Dead", without an error.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite._arguments import INT32, flag, whole, wire_string
from aiokafka_lite.admin.core.authorized_operations import authorized_operations
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_calls import (
    group_label,
    names_of,
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
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import ToNode
from aiokafka_lite.cluster.retry import find_coordinator as look_up_coordinator
from aiokafka_lite.errors import (
    GroupIdNotFound,
    IllegalArgumentError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
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

_OPERATIONS_FROM: Final = 3
"""The version of DescribeGroups that returns authorized operations (KIP-430)."""

_CONSUMER_PROTOCOL: Final = "consumer"


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
    asked = names_of("group_ids", group_ids)
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
    asked = names_of("group_ids", group_ids)
    wanted = flag("include_authorized_operations", include_authorized_operations)
    found = await _describe_modern(dispatcher, asked, deadline, wanted)
    others = [group_id for group_id, outcome in found.items() if _may_be_classic(outcome)]
    if not others:
        return Results(found)
    try:
        described = await _describe_classic(dispatcher, others, deadline, wanted)
    except KafkaError as error:
        if len(others) == len(found):
            raise
        found.update(dict.fromkeys(others, error))
        return Results(found)
    for group_id, outcome in described.items():
        found[group_id] = outcome if isinstance(outcome, KafkaError) else _consuming(outcome)
    return Results(found)


def _may_be_classic(outcome: object) -> bool:
    return isinstance(outcome, GroupIdNotFound | UnsupportedVersionError)


async def members_of(
    dispatcher: Dispatcher, group_id: str, deadline: float
) -> list[tuple[str, str | None]]:
    """Return the member id and the group instance id of each member of a group of any protocol.

    Raises:
        KafkaError: The group could not be described.
    """
    found = (await _describe_modern(dispatcher, [group_id], deadline, False))[group_id]
    if isinstance(found, KafkaError):
        if not _may_be_classic(found):
            raise found
        described = (await _describe_classic(dispatcher, [group_id], deadline, False)).value(
            group_id
        )
        return [(each.member_id, each.group_instance_id) for each in described.members]
    return [(each.member_id, each.group_instance_id) for each in found.members]


async def _describe_modern(
    dispatcher: Dispatcher, asked: list[str], deadline: float, wanted: bool
) -> dict[str, ConsumerGroupDescription | KafkaError]:
    """Describe the groups of the consumer protocol; the others have `_may_be_classic` errors."""
    outcomes: Outcomes[str, ConsumerGroupDescription] = Outcomes(
        asked, group_label, retriable=of_coordinator
    )

    def build(version: int, groups: list[str]) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=wanted)

    def read(
        response: ConsumerGroupDescribeResponse, outcomes: Outcomes[str, ConsumerGroupDescription]
    ) -> None:
        for each in response.groups:
            if not outcomes.on_code(each.group_id, each.error_code, each.error_message):
                try:
                    outcomes.on_value(each.group_id, _of_consumer_protocol(each, dispatcher))
                except KafkaProtocolError as error:
                    outcomes.on_error(each.group_id, error)

    try:
        results: Results[str, ConsumerGroupDescription] = await dispatcher.settle_on_coordinators(
            CoordinatorKind.GROUP, outcomes, ConsumerGroupDescribeRequest, build, read, deadline
        )
    except UnsupportedVersionError as error:
        return dict.fromkeys(asked, error)
    return dict(results)


def _of_consumer_protocol(
    group: DescribedConsumerGroup, dispatcher: Dispatcher
) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        "consumer",
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
        _coordinator_of(dispatcher, group.group_id),
        False,
        group.group_epoch,
        group.assignment_epoch,
        authorized_operations(group.authorized_operations),
    )


def _consuming(group: ClassicGroupDescription) -> ConsumerGroupDescription | KafkaError:
    """A classic group as one that consumes, or the reason why it does not."""
    label = group_label(group.group_id)
    if group.protocol_type not in (_CONSUMER_PROTOCOL, ""):
        return IllegalArgumentError(
            f"{label} is no consumer group: its protocol type is {group.protocol_type!r} "
            "(describe_classic_groups describes it)"
        )
    try:
        members = tuple(
            GroupMemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.host,
                frozenset(read_assignment(each.assignment).partitions)
                if each.assignment
                else frozenset(),
                upgraded=False,
            )
            for each in group.members
        )
    except KafkaError as error:
        broken = KafkaProtocolError(f"{label}: the assignment of a member is unreadable: {error}")
        broken.__cause__ = error
        return broken
    return ConsumerGroupDescription(
        group.group_id,
        "classic",
        group.state,
        group.protocol,
        members,
        group.coordinator_id,
        group.is_simple,
        authorized_operations=group.authorized_operations,
    )


async def describe_classic_groups(
    dispatcher: Dispatcher,
    group_ids: object,
    timeout_ms: float | None,
    *,
    include_authorized_operations: bool,
) -> Results[str, ClassicGroupDescription]:
    """See `AIOKafkaAdminClient.describe_classic_groups`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = flag("include_authorized_operations", include_authorized_operations)
    return await _describe_classic(dispatcher, names_of("group_ids", group_ids), deadline, wanted)


async def _describe_classic(
    dispatcher: Dispatcher, asked: list[str], deadline: float, wanted: bool
) -> Results[str, ClassicGroupDescription]:
    outcomes: Outcomes[str, ClassicGroupDescription] = Outcomes(
        asked, group_label, retriable=of_coordinator
    )

    def build(version: int, groups: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=groups, include_authorized_operations=wanted)

    def read(
        response: DescribeGroupsResponse, outcomes: Outcomes[str, ClassicGroupDescription]
    ) -> None:
        for each in response.groups:
            if outcomes.on_code(each.group_id, each.error_code, each.error_message):
                continue
            outcomes.on_value(
                each.group_id,
                ClassicGroupDescription(
                    each.group_id,
                    each.protocol_type,
                    each.protocol_data,
                    each.group_state,
                    tuple(
                        ClassicMemberDescription(
                            member.member_id,
                            member.group_instance_id,
                            member.client_id,
                            member.client_host,
                            member.member_metadata,
                            member.member_assignment,
                        )
                        for member in each.members
                    ),
                    _coordinator_of(dispatcher, each.group_id),
                    authorized_operations(each.authorized_operations),
                ),
            )

    return await dispatcher.settle_on_coordinators(
        CoordinatorKind.GROUP,
        outcomes,
        DescribeGroupsRequest,
        build,
        read,
        deadline,
        oldest=_OPERATIONS_FROM if wanted else 0,
        feature="Describing the authorized operations of a group" if wanted else None,
    )


def _coordinator_of(dispatcher: Dispatcher, group_id: str) -> int | None:
    return dispatcher.cluster.coordinators.get(CoordinatorKind.GROUP, group_id)


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
