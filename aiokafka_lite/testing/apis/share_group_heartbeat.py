"""ShareGroupHeartbeat, v1: a member joins, reports and leaves a share group (KIP-932)."""

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound, InvalidRequestError
from aiokafka_lite.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Joiner
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.share.embedded_share_group import JOINING_EPOCH, LEAVE_EPOCH, ShareGroup
from aiokafka_lite.testing.share.share_settings import check_share_enabled
from aiokafka_lite.testing.wording import wording


def handle(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    try:
        context.check()
        check_share_enabled(context.state.features)
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        for name in request.subscribed_topic_names or ():
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        _check(request)
        context.check_coordinator(CoordinatorType.GROUP, request.group_id)
        return _report(request, context)
    except BrokerResponseError as error:
        return ShareGroupHeartbeatResponse(
            error_code=error.errno, error_message=wording(error), assignment=None
        )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Check what does not depend on the group.

    Raises:
        InvalidRequestError
    """
    fields = {
        "MemberId": request.member_id,
        "GroupId": request.group_id,
        "RackId": request.rack_id,
    }
    for name, value in fields.items():
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")


def _report(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    groups = context.state.groups
    existing = groups.get(request.group_id)
    if isinstance(existing, ShareGroup):
        group = existing
    elif request.member_epoch != JOINING_EPOCH:
        found = "not found" if existing is None else "is not a share group"
        raise GroupIdNotFound(f"Group {request.group_id} {found}.")
    elif existing is not None and not (existing.kind == "classic" and existing.is_empty):
        raise GroupIdNotFound(f"Group {request.group_id} is not a share group.")
    else:
        group = context.state.share.new_group(request.group_id)
    response = group.on_report(
        request, Joiner(context.client_id or "", context.session.client_host)
    )
    if group is not existing:
        groups.put(group)
        group.note()
    return response
