"""OffsetForLeaderEpoch, v0-v4: the end offset of a leader epoch, with which clients detect log
truncation (KIP-101, KIP-320).

v1 also returns the epoch; v2 checks the client's current epoch; v3 adds the replica id; v4 is
flexible. A client needs DESCRIBE on the topic, a broker CLUSTER_ACTION.
"""

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(topic.topic, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(name: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        if not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        partition = context.led_partition(
            context.topic(name), wanted.partition, wanted.current_leader_epoch
        )
    except BrokerResponseError as error:
        return EpochEndOffset(error_code=error.errno, partition=wanted.partition)
    epoch, end = partition.log.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end)
