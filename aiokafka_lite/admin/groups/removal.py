"""Deletes groups of any type, and removes members from groups.

Source: DeleteGroupsRequest.json v0-v3, LeaveGroupRequest.json v3-v5; KIP-229, 345, 800.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiokafka_lite._arguments import wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import perhaps_ours
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.consumer_groups import members_of
from aiokafka_lite.admin.groups.group_calls import (
    group_label,
    names_of,
    never,
    of_coordinator,
    raise_of_group,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import (
    GroupIdNotFound,
    IllegalArgumentError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

__all__ = ["delete_groups", "remove_members"]

_MANY_MEMBERS_FROM: Final = 3
"""The version of LeaveGroup that names several members (KIP-345)."""
_REASON_FROM: Final = 5
"""The version of LeaveGroup that carries a reason (KIP-800)."""


async def delete_groups(
    dispatcher: Dispatcher, group_ids: object, timeout_ms: float | None
) -> Results[str, None]:
    """Delete groups of any type. See `AIOKafkaAdminClient.delete_consumer_groups`."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = names_of("group_ids", group_ids)
    outcomes: Outcomes[str, None] = Outcomes(asked, group_label, retriable=of_coordinator)

    def build(version: int, groups: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=groups)

    def read(response: DeleteGroupsResponse, outcomes: Outcomes[str, None]) -> None:
        for each in response.results:
            message = each.error_message
            if each.error_code == GroupIdNotFound.errno:
                message = perhaps_ours(outcomes, each.group_id, "deleted", message)
            if not outcomes.on_code(each.group_id, each.error_code, message):
                outcomes.on_value(each.group_id, None)

    return await dispatcher.settle_on_coordinators(
        CoordinatorKind.GROUP, outcomes, DeleteGroupsRequest, build, read, deadline
    )


async def remove_members(
    dispatcher: Dispatcher,
    group_id: object,
    members: Collection[str] | None,
    reason: str | None,
    timeout_ms: float | None,
) -> Results[str, None]:
    """See `AIOKafkaAdminClient.remove_members_from_consumer_group`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    if reason is not None:
        wire_string("reason", reason)
    if members is not None and not (named := names_of("members", members)):
        raise IllegalArgumentError(
            "`members` is empty: name the members to remove by their group instance ids, or pass "
            "None to remove all members"
        )
    if members is None:
        identities = {
            instance_id or member_id: MemberIdentity("" if instance_id else member_id, instance_id)
            for member_id, instance_id in await members_of(dispatcher, group, deadline)
        }
        if not identities:
            return Results({})
    else:
        identities = {each: MemberIdentity("", each) for each in named}
    outcomes: Outcomes[str, None] = Outcomes(
        identities,
        lambda member: f"member {member!r} of {group_label(group)}",
        retriable=never,
        retries_refusal=of_coordinator,
    )

    def build(version: int, asked: list[str]) -> LeaveGroupRequest:
        leaving = [identities[each] for each in asked]
        for each in leaving:
            each.reason = reason if version >= _REASON_FROM else None
        return LeaveGroupRequest(group_id=group, members=leaving)

    def read(response: LeaveGroupResponse, outcomes: Outcomes[str, None]) -> None:
        raise_of_group(group, response.error_code)
        for each in response.members:
            member = each.group_instance_id or each.member_id
            message = None
            if each.error_code == UnknownMemberIdError.errno:
                message = perhaps_ours(outcomes, member, "removed", None)
            if not outcomes.on_code(member, each.error_code, message):
                outcomes.on_value(member, None)

    return await dispatcher.settle(
        outcomes,
        LeaveGroupRequest,
        build,
        read,
        CoordinatorOf(group, CoordinatorKind.GROUP),
        deadline,
        oldest=_MANY_MEMBERS_FROM,
        feature="Removing members from a group",
    )
