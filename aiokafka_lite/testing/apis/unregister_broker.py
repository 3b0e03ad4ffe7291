"""UnregisterBroker, v0: remove a permanently stopped broker; a restart registers it again."""

from aiokafka_lite.errors import BrokerIdNotRegisteredError, BrokerResponseError
from aiokafka_lite.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    node = context.state.nodes.get(request.broker_id)
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if node is None or not node.registered:
            raise BrokerIdNotRegisteredError(
                f"Broker ID {request.broker_id} is not currently registered"
            )
    except BrokerResponseError as error:
        return UnregisterBrokerResponse(error_code=error.errno, error_message=wording(error))
    node.registered = node.alive  # a running broker would register again immediately
    return UnregisterBrokerResponse(error_message=None)
