"""AddPartitionsToTxn, v0-v5: partitions become part of a transaction before they are written.

- v0-v3 are for clients: one transaction; if one of its partitions is rejected, none is added;
- v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588);
- v4+ are for brokers: several transactions, which may also be only verified (KIP-890); a client
  needs the permissions of a broker;
- v5: clients know TRANSACTION_ABORTABLE.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidProducerEpoch,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.topics import INTERNAL_TOPICS
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity, TopicPartitionKey

_BATCHED_SINCE: Final = 4
_FENCED_SINCE: Final = 2

_Errors: TypeAlias = Mapping[TopicPartitionKey, int]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.version < _BATCHED_SINCE:
        asked = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_by_topic(_add(asked, context))
        )
    try:
        context.check()
        context.authorize(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return AddPartitionsToTxnResponse(error_code=error.errno)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(asked.transactional_id, _by_topic(_add(asked, context)))
            for asked in request.transactions
        ]
    )


def _add(asked: AddPartitionsToTxnTransaction, context: RequestContext) -> _Errors:
    """Add or verify the partitions; return the error code of each."""
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    from_client = context.version < _BATCHED_SINCE
    try:
        context.check()
        if from_client:
            context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, asked.transactional_id)
        refused = _refused(partitions, context, from_client=from_client)
        if refused:
            untried = OperationNotAttempted.errno
            return {partition: refused.get(partition, untried) for partition in partitions}
        if asked.transactional_id:
            context.check_coordinator(CoordinatorType.TRANSACTION, asked.transactional_id)
        producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            return {
                partition: _verify(asked.transactional_id, producer, partition, context)
                for partition in partitions
            }
        context.state.transactions.add_partitions(asked.transactional_id, producer, partitions)
    except ProducerFenced as error:
        code = error.errno if context.version >= _FENCED_SINCE else InvalidProducerEpoch.errno
        return dict.fromkeys(partitions, code)
    except BrokerResponseError as error:
        return dict.fromkeys(partitions, error.errno)
    return dict.fromkeys(partitions, 0)


def _refused(
    partitions: list[TopicPartitionKey], context: RequestContext, *, from_client: bool
) -> _Errors:
    """Return the error code of each partition that cannot be part of a transaction."""
    refused = {}
    for topic, index in partitions:
        try:
            context.check(topic, index)
            if from_client:
                context.authorize(Operation.WRITE, Resource.TOPIC, topic)
            if topic not in INTERNAL_TOPICS:
                context.topic(topic).partition(index)
            elif from_client:
                raise TopicAuthorizationFailedError(
                    f"clients cannot write to internal topic {topic}"
                )
        except BrokerResponseError as error:
            refused[topic, index] = error.errno
    return refused


def _verify(
    transactional_id: str,
    producer: ProducerIdentity,
    partition: TopicPartitionKey,
    context: RequestContext,
) -> int:
    try:
        context.state.transactions.check_partition(transactional_id, producer, partition)
    except BrokerResponseError as error:
        return error.errno
    return 0


def _by_topic(errors: _Errors) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in errors.items():
        topics.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(index, code))
    return [AddPartitionsToTxnTopicResult(topic, results) for topic, results in topics.items()]
