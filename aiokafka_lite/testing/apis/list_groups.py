"""ListGroups, v0-v5: the groups that this broker coordinates.

v4 returns and filters by their states (KIP-518), v5 by their types (KIP-848). States and types are
case-insensitive.
"""

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    try:
        context.check()
    except BrokerResponseError as error:
        return ListGroupsResponse(error_code=error.errno)
    sees_all = context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    coordinators = context.state.coordinators
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=_protocol_type(group),
                group_state=group.state,
                group_type=group.kind,
            )
            for group in context.state.groups.all()
            if (not states or group.state.lower() in states)
            and (not types or group.kind in types)
            and coordinators.node_of(CoordinatorType.GROUP, group.group_id).node_id
            == context.node_id
            and (sees_all or context.allows(Operation.DESCRIBE, Resource.GROUP, group.group_id))
        ]
    )


def _protocol_type(group: Group) -> str:
    """Return the protocol type; "" for a classic group that has only stored offsets."""
    if isinstance(group, ClassicGroup):
        return group.protocol_type or ""
    return group.kind
