"""DescribeQuorum, v0-v2: the controllers, as if every broker were an up-to-date controller.

v1 adds the times of their last fetches (KIP-836), v2 their listeners and directories (KIP-853).
There is no metadata log here; its end offset has no meaning.
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, UnknownTopicOrPartitionError
from aiokafka_lite.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording

_METADATA_TOPIC: Final = "__cluster_metadata"
_END_OFFSET: Final = 1
_NODES_SINCE: Final = 2


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, topic.partitions) for topic in request.topics]
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return DescribeQuorumResponse(error_code=error.errno, error_message=wording(error))
    if [(name, [part.partition_index for part in parts]) for name, parts in asked] != [
        (_METADATA_TOPIC, [0])
    ]:
        unknown = UnknownTopicOrPartitionError()
        return DescribeQuorumResponse(
            error_message="",
            topics=[
                DescribeQuorumResponseTopicData(
                    topic_name=name,
                    partitions=[
                        DescribeQuorumResponsePartitionData(
                            partition_index=part.partition_index,
                            error_code=unknown.errno,
                            error_message=wording(unknown),
                        )
                        for part in parts
                    ],
                )
                for name, parts in asked
            ],
        )
    return DescribeQuorumResponse(
        error_message="",
        topics=[DescribeQuorumResponseTopicData(_METADATA_TOPIC, [_quorum(context)])],
        nodes=[
            Node(node.node_id, [Listener("CONTROLLER", node.host, node.port)])
            for node in context.state.nodes.values()
            if context.version >= _NODES_SINCE
        ],
    )


def _quorum(context: RequestContext) -> DescribeQuorumResponsePartitionData:
    state = context.state
    now_ms = state.clock.now_ms()
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_message="",
        leader_id=state.controller_id,
        leader_epoch=1,
        high_watermark=_END_OFFSET,
        current_voters=[
            ReplicaState(
                replica_id=node.node_id,
                log_end_offset=_END_OFFSET,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for node in state.nodes.values()
        ],
    )
