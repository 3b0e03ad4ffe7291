"""ListTransactions, v0-v2: the transactional ids that this broker coordinates (KIP-664).

- v1: filter by open transactions older than `duration_filter` (KIP-994);
- v2: filter by a pattern of the whole id (KIP-1152).
"""

import re

from aiokafka_lite.errors import BrokerResponseError, InvalidRegularExpressionError
from aiokafka_lite.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.transactions import transaction as states
from aiokafka_lite.testing.transactions.transaction import Transaction


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        context.check()
        pattern = _pattern(request.transactional_id_pattern)
    except BrokerResponseError as error:
        return ListTransactionsResponse(error_code=error.errno)
    known = {state.value for state in states.TransactionState}
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in known],
        transaction_states=[
            TransactionState(
                transaction.transactional_id,
                transaction.producer.producer_id,
                transaction.state,
            )
            for transaction in context.state.transactions.all()
            if _is_wanted(transaction, request, pattern, context)
        ],
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidRegularExpressionError(f"{text!r}: {error}") from error


def _is_wanted(
    transaction: Transaction,
    request: ListTransactionsRequest,
    pattern: re.Pattern[str] | None,
    context: RequestContext,
) -> bool:
    name, state = transaction.transactional_id, context.state
    coordinator = state.coordinators.node_of(CoordinatorType.TRANSACTION, name)
    age_ms = state.clock.now_ms() - transaction.start_ms
    return (
        coordinator.node_id == context.node_id
        and (
            not request.producer_id_filters
            or transaction.producer.producer_id in request.producer_id_filters
        )
        and (not request.state_filters or transaction.state in request.state_filters)
        and (request.duration_filter < 0 or age_ms > request.duration_filter)
        and (pattern is None or pattern.fullmatch(name) is not None)
        and context.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)
    )
