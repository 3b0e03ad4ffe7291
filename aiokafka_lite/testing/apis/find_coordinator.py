"""FindCoordinator, v0-v6: which broker coordinates a group, a transactional id or a share group.

v0-v3 ask for one key and are answered at the top; since v4 several are asked for (KIP-699).
Groups themselves are not served yet.
"""

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinators import CoordinatorType


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
        node = context.state.coordinators.node_of(_coordinator_type(key_type), key)
    except BrokerResponseError as error:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error.errno,
            error_message=str(error),
        )
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None
    )


def _coordinator_type(key_type: int) -> CoordinatorType:
    try:
        return CoordinatorType(key_type)
    except ValueError:
        raise InvalidRequestError(f"there is no coordinator of type {key_type}") from None
