"""SyncGroup, v0-v5: a member requests its assignment; the leader sends all assignments.

- v3: static members (KIP-345);
- v5: the protocol type and name, which are required and must match the group's (KIP-559).
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InconsistentGroupProtocolError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.testing.context import Delayed, RequestContext
from aiokafka_lite.testing.groups.reply import Reply
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.waiting import when_answered

_PROTOCOL_SINCE: Final = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | Delayed:
    try:
        context.check()
        protocol = (request.protocol_type, request.protocol_name)
        if context.version >= _PROTOCOL_SINCE and None in protocol:
            raise InconsistentGroupProtocolError("the protocol type and name are required")
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        group = context.group(request.group_id)
        if group is None or group.is_empty:
            raise UnknownMemberIdError(f"group {request.group_id!r} does not exist")
    except BrokerResponseError as error:
        return SyncGroupResponse(error_code=error.errno)
    asked = group

    def sync(reply: Reply[SyncGroupResponse]) -> None:
        asked.on_sync(request, reply)

    return when_answered(sync)
