"""FindCoordinator, v0-v6: the coordinator of a group, a transactional id or a share group.

v0-v3 have one key and a top-level response; since v4 there are several keys (KIP-699); v6 adds
share groups (KIP-932).
"""

import re
from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording

_SHARE_KEY: Final = re.compile(r".+:[-\w]{22}:\d+", re.DOTALL)
_SHARE_GROUPS_SINCE: Final = 6


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[_find(key, request.key_type, context) for key in request.coordinator_keys]
        )
    found = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    try:
        context.check()
        kind = _coordinator_type(key_type, key, context)
        _authorize(kind, key, context)
        node = context.state.coordinators.node_of(kind, key)
    except BrokerResponseError as error:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error.errno,
            error_message=wording(error),
        )
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None
    )


def _coordinator_type(key_type: int, key: str, context: RequestContext) -> CoordinatorType:
    try:
        kind = CoordinatorType(key_type)
    except ValueError:
        raise InvalidRequestError(f"unknown coordinator type {key_type}") from None
    if kind is CoordinatorType.SHARE:
        if context.version < _SHARE_GROUPS_SINCE:
            raise InvalidRequestError("share groups require FindCoordinator v6")
        if not context.state.features.level("share.version"):
            raise InvalidRequestError("share groups are not enabled")
        if not _SHARE_KEY.fullmatch(key):
            raise InvalidRequestError(f"{key!r} is not group:topic id:partition")
    return kind


def _authorize(kind: CoordinatorType, key: str, context: RequestContext) -> None:
    """Check the client's permission to describe the key's resource."""
    if kind is CoordinatorType.GROUP:
        context.authorize(Operation.DESCRIBE, Resource.GROUP, key)
    elif kind is CoordinatorType.TRANSACTION:
        context.authorize(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, key)
    else:
        context.authorize(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
