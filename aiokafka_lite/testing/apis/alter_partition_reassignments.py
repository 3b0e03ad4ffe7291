"""AlterPartitionReassignments, v0-v1: change the replicas of partitions (KIP-455).

Each partition has one log, so nothing is copied, and a reassignment completes immediately; it
cannot be cancelled. v1 may forbid changes of the replication factor (KIP-860).
"""

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
)
from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    may_change = request.allow_replication_factor_change
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change,
            error_code=error.errno,
            error_message=wording(error),
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        ReassignablePartitionResponse(
                            asked.partition_index, error.errno, wording(error)
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(topic.name, partition, context, may_change=may_change)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(
    name: str, wanted: ReassignablePartition, context: RequestContext, *, may_change: bool
) -> ReassignablePartitionResponse:
    index, replicas = wanted.partition_index, wanted.replicas
    try:
        context.check(name, index)
        partition = context.topic(name).partition(index)
        if replicas is None:
            raise NoReassignmentInProgressError(f"{partition} is not being reassigned")
        context.state.check_replicas(replicas)
        if not may_change and len(replicas) != len(partition.replicas):
            raise InvalidReplicationFactorError(
                f"The replication factor is changed from {len(partition.replicas)} to"
                f" {len(replicas)}"
            )
        context.state.reassign(partition, replicas)
    except BrokerResponseError as error:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=error.errno, error_message=wording(error)
        )
    return ReassignablePartitionResponse(partition_index=index, error_message=None)
