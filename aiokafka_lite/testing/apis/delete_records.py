"""DeleteRecords, v0-v2: move the log start offsets of partitions (KIP-107).

-1 is the high watermark. v2 is flexible. All replicas share one log, so there is no wait for them.
"""

from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Partition

_HIGH_WATERMARK: Final = -1
_UNKNOWN: Final = -1


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    _delete(topic.name, wanted, context)
                    # If a partition occurs twice, the last entry counts.
                    for wanted in {each.partition_index: each for each in topic.partitions}.values()
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(
    name: str, wanted: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        context.authorize(Operation.DELETE, Resource.TOPIC, name)
        topic = context.topic(name)
        topic.partition(index)  # a missing partition is the first error
        if topic.is_internal:
            raise InvalidTopicError(f"Cannot delete records of internal topic {name}")
        partition = context.led_partition(topic, index)
        partition.delete_before(_start(partition, wanted.offset))
    except BrokerResponseError as error:
        return DeleteRecordsPartitionResult(index, _UNKNOWN, error.errno)
    return DeleteRecordsPartitionResult(index, partition.log.start_offset)


def _start(partition: Partition, offset: int) -> int:
    """Return the new log start offset."""
    if "delete" not in partition.topic.config("cleanup.policy").split(","):
        raise PolicyViolationError(
            f"Records of partition {partition} can not be deleted due to the configured policy"
        )
    high_watermark = partition.log.high_watermark
    if offset == _HIGH_WATERMARK:
        return high_watermark
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRangeError(
            f"cannot delete records of {partition} before offset {offset}: its high watermark is "
            f"{high_watermark}"
        )
    return offset
