"""LeaveGroup, v0-v5: members leave, and the group does not wait for them.

- v0-v2: one member, with a top-level error;
- v3: several members, each with its own response; an administrator may identify static members
  by instance id alone (KIP-345);
- v5: the reason for leaving, which is only for logs (KIP-800).
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, UnknownMemberIdError
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource

_BATCHES_SINCE: Final = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    if context.version < _BATCHES_SINCE:
        request.members = [MemberIdentity(request.member_id, None)]
    try:
        context.check()
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        group = context.group(request.group_id)
        response = _unknown(request) if group is None else group.on_leave(request)
    except BrokerResponseError as error:
        return LeaveGroupResponse(error_code=error.errno)
    if context.version < _BATCHES_SINCE:
        (member,) = response.members
        return LeaveGroupResponse(error_code=member.error_code)
    return response


def _unknown(request: LeaveGroupRequest) -> LeaveGroupResponse:
    code = UnknownMemberIdError.errno
    return LeaveGroupResponse(
        members=[
            MemberResponse(member.member_id, member.group_instance_id, code)
            for member in request.members
        ]
    )
