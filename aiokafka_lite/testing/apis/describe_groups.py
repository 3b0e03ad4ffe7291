"""DescribeGroups, v0-v6: classic groups and their members; groups of other kinds are not found.

- v3: authorized operations (KIP-430);
- v4: instance ids of static members (KIP-345);
- v6: GROUP_ID_NOT_FOUND instead of only "Dead" for a missing group (KIP-1043).
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound
from aiokafka_lite.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.classic.classic_roster import DEAD, STABLE
from aiokafka_lite.testing.security.acl_table import Operation, Resource

_NOT_FOUND_SINCE: Final = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    described = [_describe(group_id, context) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(
                    Resource.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=described)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id)
        context.check_coordinator(CoordinatorType.GROUP, group_id)
    except BrokerResponseError as error:
        return DescribedGroup(error_code=error.errno, error_message=None, group_id=group_id)
    group = context.state.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _described(group)
    if context.version < _NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state=DEAD)
    found = "not found" if group is None else "is not a classic group"
    return DescribedGroup(
        error_code=GroupIdNotFound.errno,
        error_message=f"Group {group_id} {found}.",
        group_id=group_id,
        group_state=DEAD,
    )


def _described(group: ClassicGroup) -> DescribedGroup:
    protocol = group.protocol_name if group.state == STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol),  # empty before a protocol is selected
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
