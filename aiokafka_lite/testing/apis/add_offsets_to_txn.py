"""AddOffsetsToTxn, v0-v4: a group's offsets become part of a transaction, before TxnOffsetCommit.

- v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588);
- v4: clients know TRANSACTION_ABORTABLE (KIP-890). A client of transaction.version 2 does not
  need this API: TxnOffsetCommit v5 does the same.
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidProducerEpoch, ProducerFenced
from aiokafka_lite.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType, slot_of
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.transactions.offsets_topic import OFFSETS_TOPIC
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity

_FENCED_SINCE: Final = 2


def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    transactional_id = request.transactional_id
    try:
        context.check()
        context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        context.authorize(Operation.READ, Resource.GROUP, request.group_id)
        if transactional_id:
            context.check_coordinator(CoordinatorType.TRANSACTION, transactional_id)
        context.state.transactions.add_partitions(
            transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            [(OFFSETS_TOPIC, slot_of(request.group_id))],
        )
    except ProducerFenced as error:
        fenced = context.version >= _FENCED_SINCE
        return AddOffsetsToTxnResponse(
            error_code=error.errno if fenced else InvalidProducerEpoch.errno
        )
    except BrokerResponseError as error:
        return AddOffsetsToTxnResponse(error_code=error.errno)
    return AddOffsetsToTxnResponse()
