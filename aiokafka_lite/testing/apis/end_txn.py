"""EndTxn, v0-v5: commit or abort a transaction.

- v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588);
- v4: clients know TRANSACTION_ABORTABLE (KIP-890);
- v5: returns the new epoch in which the transaction ends, with a new producer id if the epochs
  are exhausted (KIP-890, part 2).
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidProducerEpoch, ProducerFenced
from aiokafka_lite.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity

_FENCED_SINCE: Final = 2
_EPOCH_BUMPS_SINCE: Final = 5


def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    transactional_id = request.transactional_id
    try:
        context.check()
        context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        if transactional_id:
            context.check_coordinator(CoordinatorType.TRANSACTION, transactional_id)
        producer = context.state.transactions.end(
            transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            committed=request.committed,
            bumps=context.version >= _EPOCH_BUMPS_SINCE,
        )
    except ProducerFenced as error:
        fenced = context.version >= _FENCED_SINCE
        return EndTxnResponse(error_code=error.errno if fenced else InvalidProducerEpoch.errno)
    except BrokerResponseError as error:
        return EndTxnResponse(error_code=error.errno)
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
