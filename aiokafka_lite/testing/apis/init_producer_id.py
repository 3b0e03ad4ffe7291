"""InitProducerId, v0-v5: assign a producer id and epoch.

- without a transactional id, every request gets a new id in epoch 0, even a v3+ request with an
  old id (KIP-360), as on a real broker;
- with one, the previous producer is fenced and its open transaction is aborted;
- v3: a producer continues after an error, and sends its current id and epoch (KIP-360);
- v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588);
- v5: clients know TRANSACTION_ABORTABLE (KIP-890);
- v6 (two-phase commit) is unstable in Kafka 4.4: brokers do not offer it by default.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    InvalidProducerEpoch,
    InvalidRequestError,
    ProducerFenced,
)
from aiokafka_lite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity

_FENCED_SINCE: Final = 4


def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        producer = _init(request, context)
    except ProducerFenced as error:
        code = error.errno if context.version >= _FENCED_SINCE else InvalidProducerEpoch.errno
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    except BrokerResponseError as error:
        return InitProducerIdResponse(error_code=error.errno, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _init(request: InitProducerIdRequest, context: RequestContext) -> ProducerIdentity:
    context.check()
    transactional_id = request.transactional_id
    if transactional_id is not None:
        context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    elif not (
        context.allows(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME)
        or context.allows_any(Operation.WRITE, Resource.TOPIC)
    ):
        raise ClusterAuthorizationFailedError("no permission for IDEMPOTENT_WRITE")
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise InvalidRequestError("producer id and producer epoch must be set together")
    transactions = context.state.transactions
    if transactional_id is None:
        return ProducerIdentity(transactions.producer_ids.take(), 0)
    transactions.check_init(transactional_id, request.transaction_timeout_ms)
    context.check_coordinator(CoordinatorType.TRANSACTION, transactional_id)
    expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    return transactions.init_producer_id(transactional_id, request.transaction_timeout_ms, expected)
