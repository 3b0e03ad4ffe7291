"""Produce, v0-v13: append batches, each partition for itself.

- v0-v2 carry message sets (magic 0 or 1), which are converted to v2 as brokers since 3.0 do;
- v3+ carry exactly one v2 batch a partition; zstd since v7 (KIP-110);
- v8: why what was refused, record by record (KIP-467); v10: the new leader (KIP-951);
- v13: topics by id (KIP-516);
- acks=0 has no response: after an error the connection is closed instead.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequiredAcksError,
    NotLeaderForPartitionError,
    TransactionalIdAuthorizationFailed,
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
from aiokafka_lite.testing.producers import AppendedBatch
from aiokafka_lite.testing.topics import Partition, Topic

VERSIONS: Final = (0, 13)
_BATCHES_SINCE: Final = 3
_LEADER_HINT_SINCE: Final = 10
_ACKS: Final = (-1, 0, 1)


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=_produce_topic(request, topic, context),
            )
            for topic in request.topic_data
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


def _produce_topic(
    request: ProduceRequest, asked: TopicProduceData, context: RequestContext
) -> list[PartitionProduceResponse]:
    try:
        topic = context.topic(asked.name, asked.topic_id)
    except BrokerResponseError as error:
        return [_refused(data.index, error) for data in asked.partition_data]
    return [_produce(request, topic, data, context) for data in asked.partition_data]


def _produce(
    request: ProduceRequest, topic: Topic, data: PartitionProduceData, context: RequestContext
) -> PartitionProduceResponse:
    try:
        if request.acks not in _ACKS:
            raise InvalidRequiredAcksError(f"acks={request.acks} is not one of {_ACKS}")
        partition = context.led_partition(topic, data.index)
        appended = _append(request, partition, data, context)
    except NotLeaderForPartitionError as error:
        refused = _refused(data.index, error)
        if context.version >= _LEADER_HINT_SINCE:
            leader_id, leader_epoch = topic.leader_of(data.index)
            refused.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
        return refused
    except RecordsRefused as refusal:
        refused = _refused(data.index, refusal.error)
        refused.log_start_offset = partition.log.start_offset
        refused.record_errors = [
            BatchIndexAndErrorMessage(index, why) for index, why in refusal.record_errors
        ]
        return refused
    except BrokerResponseError as error:
        return _refused(data.index, error)
    return PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.timestamp,
        log_start_offset=partition.log.start_offset,
    )


def _append(
    request: ProduceRequest,
    partition: Partition,
    data: PartitionProduceData,
    context: RequestContext,
) -> AppendedBatch:
    if context.version < _BATCHES_SINCE:
        from aiokafka_lite.testing.conversion import to_batch  # old clients are rare: import late

        batch = to_batch(data.records)
        header = BatchHeader.read(batch)
    else:
        batch, header = only_batch(data.records, context.version)
    if header.transactional and request.transactional_id is None:
        raise TransactionalIdAuthorizationFailed("transactional records without a transactional id")
    return partition.append(batch, header, request.acks, context.state.clock())


def _refused(index: int, error: BrokerResponseError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.errno,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
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
