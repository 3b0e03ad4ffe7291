"""DescribeTransactions, v0: the transaction states of transactional ids (KIP-664)."""

from collections import defaultdict

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    TransactionalIdNotFoundError,
)
from aiokafka_lite.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import Operation, Resource


def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(name, context) for name in request.transactional_ids]
    )


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise InvalidRequestError("the transactional id must not be empty")
        context.check_coordinator(CoordinatorType.TRANSACTION, transactional_id)
        transaction = context.state.transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFoundError(
                f"transactional id {transactional_id!r} does not exist"
            )
    except BrokerResponseError as error:
        return TransactionState(error_code=error.errno, transactional_id=transactional_id)
    topics = defaultdict(list)
    for topic, index in sorted(transaction.partitions):
        if context.allows(Operation.DESCRIBE, Resource.TOPIC, topic):
            topics[topic].append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer.producer_id,
        producer_epoch=transaction.producer.epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )
