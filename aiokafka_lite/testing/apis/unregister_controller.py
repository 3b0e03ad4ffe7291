"""UnregisterController, v0: every broker is a controller, which registers again at once."""

from aiokafka_lite.errors import BrokerResponseError, ControllerIdNotRegisteredError
from aiokafka_lite.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(
    request: UnregisterControllerRequest, context: RequestContext
) -> UnregisterControllerResponse:
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if request.controller_id not in context.state.nodes:
            raise ControllerIdNotRegisteredError(
                f"Controller ID {request.controller_id} is not currently registered."
            )
    except BrokerResponseError as error:
        return UnregisterControllerResponse(error_code=error.errno, error_message=wording(error))
    return UnregisterControllerResponse(error_message=None)
