"""Produce, v0-v13: append batches, each partition independently.

- v0-v2 contain message sets (magic 0 or 1), which are converted to v2, as in brokers since 3.0;
- v3+ contain exactly one v2 batch per partition; zstd since v7 (KIP-110);
- v3+ transactional batches need a transactional id, and a partition of its open transaction,
  added before (v3-v11) or by the batch itself (v12+, KIP-890);
- v8: errors of single records (KIP-467); v10: the new leader (KIP-951);
- v11: TRANSACTION_ABORTABLE instead of INVALID_TXN_STATE (KIP-890);
- v13: topics by id (KIP-516);
- acks=0 has no response: an error closes the connection instead.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from aiokafka_lite.errors import (
    BrokerResponseError,
    CorruptRecordException,
    InvalidProducerIdMapping,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.context import CloseConnection, RequestContext
from aiokafka_lite.testing.log.batch_checks import RecordsRefused, only_batch
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Partition, Topic
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity, TopicPartitionKey
from aiokafka_lite.testing.wording import wording

_BATCHES_SINCE: Final = 3
_ABORTABLE_SINCE: Final = 11
_ADDS_PARTITIONS_SINCE: Final = 12
_LEADER_HINT_SINCE: Final = 10
_ACKS: Final = (-1, 0, 1)
_WITHOUT_START: Final = (CorruptRecordException, MessageSizeTooLargeError)

ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to internal topics."""

_Parsed: TypeAlias = tuple[memoryview, BatchHeader] | BrokerResponseError
_Verdicts: TypeAlias = Mapping[TopicPartitionKey, BrokerResponseError | None]
"""The coordinator's result: an error, or None for a partition in the transaction."""


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    for topic in request.topic_data:
        if len(topic.partition_data) > 1:  # if a partition occurs twice, the last entry counts
            topic.partition_data = list(
                {each.index: each for each in topic.partition_data}.values()
            )
    try:
        parsed = [
            [_parse(data, context.version) for data in topic.partition_data]
            for topic in request.topic_data
        ]
        verdicts = _verdicts(request, parsed, context)
    except BrokerResponseError as error:
        answers = [
            [_refused(data.index, error) for data in topic.partition_data]
            for topic in request.topic_data
        ]
    else:
        answers = [
            _produce_topic(request, topic, batches, verdicts, context)
            for topic, batches in zip(request.topic_data, parsed, strict=True)
        ]
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(topic.name, topic.topic_id, partitions)
            for topic, partitions in zip(request.topic_data, answers, strict=True)
        ]
    )
    if request.acks == 0:
        refused = [
            f"{topic.name}-{partition.index}: error {partition.error_code}"
            for topic in response.responses
            for partition in topic.partition_responses
            if partition.error_code
        ]
        if refused:
            raise CloseConnection(f"a produce request with acks=0 failed for {refused}")
        return None
    if context.version >= _LEADER_HINT_SINCE:
        response.node_endpoints = _endpoints_of_leaders(response, context)
    return response


def _parse(data: PartitionProduceData, version: int) -> _Parsed:
    """Return a partition's batch, or the error for this partition alone.

    Raises:
        CorruptRecordException: The whole request is rejected; a real broker also checks it before
            it appends anything.
    """
    if version < _BATCHES_SINCE:
        from aiokafka_lite.testing.log.conversion import (
            to_batch,  # old clients are rare: import late
        )

        try:
            batch = to_batch(data.records)
        except BrokerResponseError as error:
            return error
        return batch, BatchHeader.read(batch)
    try:
        return only_batch(data.records, version)
    except (InvalidRecordError, UnsupportedCompressionTypeError) as error:
        return error


def _verdicts(
    request: ProduceRequest, parsed: list[list[_Parsed]], context: RequestContext
) -> _Verdicts:
    """Verify with the coordinator the partitions that the transaction has not written to yet.

    Raises:
        TransactionalIdAuthorizationFailed: The transactional id is missing or not permitted.
        InvalidProducerIdMapping: There are batches of several producers.
    """
    headers = [
        batch[1]
        for batches in parsed
        for batch in batches
        if isinstance(batch, tuple) and batch[1].transactional
    ]
    if not headers:
        return {}
    transactional_id = request.transactional_id
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailed("transactional records need a transactional id")
    context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    # As on a real broker, a transactional batch without a producer is not in a transaction.
    producers = {
        ProducerIdentity(header.producer_id, header.producer_epoch)
        for header in headers
        if header.producer_id >= 0
    }
    if len(producers) > 1:
        raise InvalidProducerIdMapping("the request has transactional records of several producers")

    from aiokafka_lite.testing.transactions.verification import (  # rarely needed
        VERIFICATION,
        Asker,
        verify,
    )

    asker = Asker.OLD if context.version < _ABORTABLE_SINCE else Asker.KNOWS_ABORTABLE
    asker = Asker.ADDS_BY_WRITING if context.version >= _ADDS_PARTITIONS_SINCE else asker
    verdicts: dict[TopicPartitionKey, BrokerResponseError | None] = {}
    to_verify = []
    for key, partition, header in _transactional(request, parsed, context):
        try:
            if partition.producers.needs_verification(
                header, bumps_epoch=asker is Asker.ADDS_BY_WRITING
            ):
                to_verify.append(key)
        except BrokerResponseError as error:
            verdicts[key] = error
    if to_verify:
        state, producer = context.state, producers.pop()
        enabled = state.broker_config(VERIFICATION) == "true"
        verdicts.update(
            verify(
                state.transactions, transactional_id, producer, to_verify, asker, enabled=enabled
            )
        )
    return verdicts


def _transactional(
    request: ProduceRequest, parsed: list[list[_Parsed]], context: RequestContext
) -> Iterator[tuple[TopicPartitionKey, Partition, BatchHeader]]:
    """Yield the transactional batches of partitions that this broker leads."""
    for asked, batches in zip(request.topic_data, parsed, strict=True):
        for data, batch in zip(asked.partition_data, batches, strict=True):
            if isinstance(batch, tuple) and batch[1].transactional and batch[1].producer_id >= 0:
                try:
                    partition = context.led_partition(_topic(asked, context), data.index)
                except BrokerResponseError:
                    continue  # the append reports the same error
                yield (partition.topic.name, data.index), partition, batch[1]


def _topic(asked: TopicProduceData, context: RequestContext) -> Topic:
    """Return the topic, if the client may write to it."""
    if not asked.name:
        topic = context.topic(None, asked.topic_id)
        if not context.allows(
            Operation.WRITE, Resource.TOPIC, topic.name
        ):  # do not reveal its name
            raise TopicAuthorizationFailedError("no permission to write to the topic with this id")
        return topic
    context.authorize(Operation.WRITE, Resource.TOPIC, asked.name)
    return context.topic(asked.name)


def _produce_topic(
    request: ProduceRequest,
    asked: TopicProduceData,
    parsed: list[_Parsed],
    verdicts: _Verdicts,
    context: RequestContext,
) -> list[PartitionProduceResponse]:
    try:
        topic = _topic(asked, context)
    except BrokerResponseError as error:
        return [_refused(data.index, error) for data in asked.partition_data]
    return [
        _produce(request.acks, topic, data.index, batch, verdicts, context)
        for data, batch in zip(asked.partition_data, parsed, strict=True)
    ]


def _produce(
    acks: int,
    topic: Topic,
    index: int,
    parsed: _Parsed,
    verdicts: _Verdicts,
    context: RequestContext,
) -> PartitionProduceResponse:
    partition: Partition | None = None
    key = (topic.name, index)
    verdict = verdicts.get(key)
    if verdict is not None:
        return _refused(index, verdict)
    try:
        if isinstance(parsed, BrokerResponseError):
            topic.partition(index)  # a missing partition is the first error
            raise parsed
        if acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks={acks} is not one of {_ACKS}")
        if topic.is_internal and context.client_id != ADMIN_CLIENT:
            raise InvalidTopicError(f"Cannot append to internal topic {topic.name}")
        partition = context.led_partition(topic, index)
        now_ms = context.state.clock.now_ms()
        if now_ms >= partition.producers.next_check_ms:
            expiration_ms = context.state.broker_config.integer("producer.id.expiration.ms")
            partition.producers.expire(now_ms, expiration_ms)
        appended = partition.append(*parsed, acks, now_ms, verified=key in verdicts)
    except RecordsRefused as refusal:
        refused = _refused(index, refusal.error, partition)
        refused.record_errors = [
            BatchIndexAndErrorMessage(index, why) for index, why in refusal.record_errors
        ]
        return refused
    except BrokerResponseError as error:
        refused = _refused(index, error, partition)
        if isinstance(error, NotLeaderForPartitionError) and context.version >= _LEADER_HINT_SINCE:
            leader_id, leader_epoch = topic.leader_of(index)
            refused.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
        return refused
    return PartitionProduceResponse(
        index, 0, appended.base_offset, appended.timestamp, partition.log.start_offset
    )


def _refused(
    index: int, error: BrokerResponseError, partition: Partition | None = None
) -> PartitionProduceResponse:
    """Return the error response; `partition` is set if its log rejected the batch, and most of
    those responses contain its log start offset."""
    includes_start = partition is not None and not isinstance(error, _WITHOUT_START)
    return PartitionProduceResponse(
        index=index,
        error_code=error.errno,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=partition.log.start_offset if partition and includes_start else -1,
        error_message=wording(error),
    )


def _endpoints_of_leaders(response: ProduceResponse, context: RequestContext) -> list[NodeEndpoint]:
    """Return the addresses of the new leaders in the rejected partitions."""
    leaders = {
        partition.current_leader.leader_id
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    }
    nodes = [context.state.nodes[leader] for leader in sorted(leaders) if leader >= 0]
    return [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes
    ]
