"""Heartbeat, v0-v4: a member reports that it is alive, and learns of rebalances.

- v3: static members (KIP-345).
"""

from aiokafka_lite.errors import BrokerResponseError, UnknownMemberIdError
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    try:
        context.check()
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        group = context.group(request.group_id)
        if group is None:
            raise UnknownMemberIdError(f"group {request.group_id!r} does not exist")
        group.on_heartbeat(request)
    except BrokerResponseError as error:
        return HeartbeatResponse(error_code=error.errno)
    return HeartbeatResponse()
