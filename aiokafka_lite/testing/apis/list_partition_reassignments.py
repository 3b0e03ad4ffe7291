"""ListPartitionReassignments, v0: always empty; reassignments complete immediately (KIP-455)."""

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.errno,
            error_message=wording(error),
            topics=[
                OngoingTopicReassignment(
                    topic.name,
                    [OngoingPartitionReassignment(index) for index in topic.partition_indexes],
                )
                for topic in request.topics or ()
            ],
        )
    return ListPartitionReassignmentsResponse(error_message=None)
