"""DeleteGroups, v0-v3: delete groups without members, and their committed offsets.

v3 adds error messages.
"""

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound, NonEmptyGroup
from aiokafka_lite.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    once = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=[_delete(group_id, context) for group_id in once])


def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    groups = context.state.groups
    try:
        context.check()
        context.authorize(Operation.DELETE, Resource.GROUP, group_id)
        context.check_coordinator(CoordinatorType.GROUP, group_id)
        group = groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not group.is_empty:
            raise NonEmptyGroup(f"group {group_id} still has members")
    except BrokerResponseError as error:
        return DeletableGroupResult(group_id, error.errno, wording(error))
    groups.delete(group_id)
    if context.state.used_share is not None:
        context.state.used_share.on_group_deleted(group)
    return DeletableGroupResult(group_id, error_message=None)
