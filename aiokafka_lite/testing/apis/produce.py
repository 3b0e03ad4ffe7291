"""Produce, v0-v13: append batches, each partition for itself.

- v0-v2 carry message sets (magic 0 or 1), which are converted to v2 as brokers since 3.0 do;
- v3+ carry exactly one v2 batch a partition; zstd since v7 (KIP-110);
- v8: why what was refused, record by record (KIP-467); v10: the new leader (KIP-951);
- v13: topics by id (KIP-516);
- acks=0 has no response: after an error the connection is closed instead.
"""

from typing import Final, TypeAlias

from aiokafka_lite.errors import (
    BrokerResponseError,
    CorruptRecordException,
    InvalidRecordError,
    InvalidRequiredAcksError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
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
from aiokafka_lite.testing.batches import RecordsRefused, only_batch
from aiokafka_lite.testing.context import CloseConnection, RequestContext
from aiokafka_lite.testing.topics import Partition, Topic

_BATCHES_SINCE: Final = 3
_LEADER_HINT_SINCE: Final = 10
_ACKS: Final = (-1, 0, 1)
_START_UNTOLD: Final = (CorruptRecordException, MessageSizeTooLargeError)

_Parsed: TypeAlias = tuple[memoryview, BatchHeader] | BrokerResponseError


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    try:
        parsed = [
            [_parse(request, data, context.version) for data in topic.partition_data]
            for topic in request.topic_data
        ]
    except BrokerResponseError as error:
        answers = [
            [_refused(data.index, error) for data in topic.partition_data]
            for topic in request.topic_data
        ]
    else:
        answers = [
            _produce_topic(request, topic, batches, context)
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


def _parse(request: ProduceRequest, data: PartitionProduceData, version: int) -> _Parsed:
    """A partition's batch, or the error that only this partition is answered.

    Raises:
        CorruptRecordException, TransactionalIdAuthorizationFailed: the whole request is refused,
            as a real broker looks through it before it appends anything.
    """
    if version < _BATCHES_SINCE:
        from aiokafka_lite.testing.conversion import to_batch  # old clients are rare: import late

        try:
            batch = to_batch(data.records)
        except BrokerResponseError as error:
            return error
        return batch, BatchHeader.read(batch)
    try:
        batch, header = only_batch(data.records, version)
    except (InvalidRecordError, UnsupportedCompressionTypeError) as error:
        return error
    if header.transactional and request.transactional_id is None:
        raise TransactionalIdAuthorizationFailed("transactional records without a transactional id")
    return batch, header


def _produce_topic(
    request: ProduceRequest,
    asked: TopicProduceData,
    parsed: list[_Parsed],
    context: RequestContext,
) -> list[PartitionProduceResponse]:
    try:
        topic = context.topic(asked.name, asked.topic_id)
    except BrokerResponseError as error:
        return [_refused(data.index, error) for data in asked.partition_data]
    return [
        _produce(request.acks, topic, data.index, batch, context)
        for data, batch in zip(asked.partition_data, parsed, strict=True)
    ]


def _produce(
    acks: int, topic: Topic, index: int, parsed: _Parsed, context: RequestContext
) -> PartitionProduceResponse:
    partition: Partition | None = None
    try:
        if isinstance(parsed, BrokerResponseError):
            topic.partition(index)  # that it does not exist would come first
            raise parsed
        if acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks={acks} is not one of {_ACKS}")
        partition = context.led_partition(topic, index)
        appended = partition.append(*parsed, acks, context.state.clock.now_ms())
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
    """``partition`` is given if its log refused the batch; most of those answers tell its start."""
    tells_start = partition is not None and not isinstance(error, _START_UNTOLD)
    return PartitionProduceResponse(
        index=index,
        error_code=error.errno,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=partition.log.start_offset if partition and tells_start else -1,
        error_message=str(error),
    )


def _endpoints_of_leaders(response: ProduceResponse, context: RequestContext) -> list[NodeEndpoint]:
    """Where the new leaders live that the refused partitions name."""
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
