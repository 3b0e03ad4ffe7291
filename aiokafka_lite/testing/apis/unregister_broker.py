"""UnregisterBroker, v0: forget a broker that is down for good; one that starts registers again."""

from aiokafka_lite.errors import BrokerIdNotRegisteredError, BrokerResponseError
from aiokafka_lite.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acls import CLUSTER_NAME, Operation, Resource
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
    node.registered = node.alive  # one that is up would register again at once
    return UnregisterBrokerResponse(error_message=None)
