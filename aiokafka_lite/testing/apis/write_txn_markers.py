"""WriteTxnMarkers, v0-v2: end transactions in the partitions that this broker leads.

Coordinators send it to other brokers, and administrators use it to abort a hanging transaction
(KIP-664).

- v2: the marker's transaction.version, which decides how its epoch is checked (KIP-890).
"""

from aiokafka_lite.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    UnknownError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import SLOTS
from aiokafka_lite.testing.log.open_transactions import EndMarker
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.transactions.offsets_topic import OFFSETS_TOPIC
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    refusal = _refusal(request, context)
    results: dict[int, WritableTxnMarkerResult] = {}
    for marker in request.markers:
        result = results.setdefault(
            marker.producer_id, WritableTxnMarkerResult(marker.producer_id, [])
        )
        for topic in marker.topics:
            partitions = [
                WritableTxnMarkerPartitionResult(
                    index, refusal or _write(marker, topic.name, index, context)
                )
                for index in topic.partition_indexes
            ]
            result.topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
    return WriteTxnMarkersResponse(list(results.values()))


def _refusal(request: WriteTxnMarkersRequest, context: RequestContext) -> int:
    """Return the error code of the whole request, or 0."""
    operations = (Operation.ALTER, Operation.CLUSTER_ACTION)
    if not any(context.allows(each, Resource.CLUSTER, CLUSTER_NAME) for each in operations):
        return ClusterAuthorizationFailedError.errno
    try:
        context.check()
    except BrokerResponseError as error:
        return error.errno
    if any(marker.producer_epoch < 0 for marker in request.markers):
        return UnknownError.errno  # no batch can be built; Kafka has no more specific error
    return 0


def _write(asked: WritableTxnMarker, topic: str, index: int, context: RequestContext) -> int:
    """Write one marker; return its error code."""
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    marker = EndMarker(asked.transaction_result, asked.coordinator_epoch)
    now_ms = context.state.clock.now_ms()
    version = asked.transaction_version
    try:
        if topic == OFFSETS_TOPIC:
            context.check(topic, index)
            if not 0 <= index < SLOTS:
                raise UnknownTopicOrPartitionError(f"{topic} has no partition {index}")
            offsets = context.state.transactions.offsets
            offsets.append_marker(index, producer, marker, version, now_ms)
        else:
            partition = context.topic(topic).partition(index)
            if context.node_id not in partition.replicas:
                raise UnknownTopicOrPartitionError(
                    f"broker {context.node_id} has no replica of {partition}"
                )
            context.led_partition(partition.topic, index)
            partition.append_marker(*producer, marker, version, now_ms)
    except BrokerResponseError as error:
        return error.errno
    return 0
