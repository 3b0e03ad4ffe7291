"""InitProducerId, v0-v5: a producer id for an idempotent producer.

- without a transactional id every request gets a new id in epoch 0, also the v3+ one that names
  an old id (KIP-360), as on a real broker;
- with a transactional id: not served yet, as transactions are not; INVALID_REQUEST tells so;
- v6 (two-phase commit) is unstable in Kafka 4.4: no broker offers it by itself.
"""

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aiokafka_lite.testing.context import RequestContext


def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        context.check()
        if request.transactional_id is not None:
            raise InvalidRequestError("the embedded broker has no transactions yet")
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise InvalidRequestError("a producer id and its epoch belong together")
    except BrokerResponseError as error:
        return InitProducerIdResponse(error_code=error.errno, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=context.state.next_producer_id(), producer_epoch=0)
