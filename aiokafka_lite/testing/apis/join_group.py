"""JoinGroup, v0-v9: join a group; the response is sent when the next generation starts.

- v0 has a single timeout for the session and the rebalance;
- v4: a new member receives its id and rejoins with it (KIP-394);
- v5: static members (KIP-345);
- v7: the protocol type in the response, and a nullable protocol name;
- v8: the reason for joining, which is only for logs (KIP-800);
- v9: a static leader that returns to a stable group skips the assignment (KIP-814).
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokafka_lite.testing.context import Delayed, RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import NO_MEMBER, Group, Joiner, refused_join
from aiokafka_lite.testing.groups.reply import Reply
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.waiting import when_answered

_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_NULL_PROTOCOL_SINCE: Final = 7
_SKIP_ASSIGNMENT_SINCE: Final = 9


def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | Delayed:
    if context.version < _REBALANCE_TIMEOUT_SINCE:
        request.rebalance_timeout_ms = request.session_timeout_ms
    try:
        context.check()
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        _check_request(request, context)
        context.check_coordinator(CoordinatorType.GROUP, request.group_id)
        group = _group(request, context)
    except (InvalidGroupIdError, InvalidSessionTimeoutError, UnknownMemberIdError) as error:
        return _in_version(refused_join(error.errno, request.member_id), context.version)
    except BrokerResponseError as error:
        return _in_version(refused_join(error.errno), context.version)
    joiner = Joiner(
        context.client_id or "",
        context.session.client_host,
        knows_member_id=context.version >= _MEMBER_ID_REQUIRED_SINCE,
        skips_assignment=context.version >= _SKIP_ASSIGNMENT_SINCE,
    )

    def join(reply: Reply[JoinGroupResponse]) -> None:
        group.on_join(request, joiner, reply)

    return when_answered(join, lambda response: _in_version(response, context.version))


def _in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < _NULL_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response


def _check_request(request: JoinGroupRequest, context: RequestContext) -> None:
    if not request.group_id:
        raise InvalidGroupIdError("the group id must not be empty")
    config = context.state.broker_config
    shortest = config.integer("group.min.session.timeout.ms")
    longest = config.integer("group.max.session.timeout.ms")
    if not shortest <= request.session_timeout_ms <= longest:
        raise InvalidSessionTimeoutError(
            f"the session timeout of {request.session_timeout_ms} ms is not between {shortest} ms"
            f" and {longest} ms"
        )


def _group(request: JoinGroupRequest, context: RequestContext) -> Group:
    """Return the group to join; a client without a member id may create it."""
    groups = context.state.groups
    group = groups.get(request.group_id)
    if group is not None and (group.kind == "classic" or not group.is_empty):
        return group
    if request.member_id != NO_MEMBER:
        raise UnknownMemberIdError(f"group {request.group_id!r} does not exist")
    return groups.classic(request.group_id)
