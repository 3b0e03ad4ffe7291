"""ListOffsets, v0-v11: the offset for a timestamp, or for an end of the log.

- v0 returns a list of up to `max_num_offsets` offsets; since v1 one offset with its timestamp;
- v2: isolation level; v4: leader epochs, checked and returned;
- v5: OFFSET_NOT_AVAILABLE (never here); v10: a timeout, for tiered storage;
- -1 latest, -2 earliest; v7: -3 the record with the largest timestamp (KIP-734); v8: -4 earliest
  on this broker's disk (KIP-405); v9: -5 latest and v11: -6 next in tiered storage, which does
  not exist here.
"""

from collections import Counter
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    NotLeaderForPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.log.partition_log import FoundOffset
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Partition

_LEADER_EPOCH_SINCE: Final = 4
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGER: Final = -2  # `replica_id`; others are followers

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_NEVER: Final = 0x7FFF  # no such version
_SINCE: Final = {
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NO_TIMESTAMP: Final = -1


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for topic in request.topics:
        named = Counter(wanted.partition_index for wanted in topic.partitions)
        answers = [
            _answer(topic, wanted, request, context)
            if named[wanted.partition_index] == 1
            else _refused(wanted.partition_index, InvalidRequestError.errno)
            # A duplicate partition gets a single error.
            for wanted in {each.partition_index: each for each in topic.partitions}.values()
        ]
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _refused(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _answer(
    asked: ListOffsetsTopic,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        context.authorize(Operation.DESCRIBE, Resource.TOPIC, asked.name)
        if wanted.timestamp < _EARLIEST:
            since = _SINCE.get(wanted.timestamp, _NEVER)
            if context.version < since:
                raise UnsupportedVersionError(
                    f"this request version does not support timestamp {wanted.timestamp}"
                )
        partition = _partition(asked.name, wanted, request.replica_id, context)
    except BrokerResponseError as error:
        return _refused(wanted.partition_index, error.errno)
    if context.version == 0:
        answer.old_style_offsets = _offsets_before(partition, wanted)
        return answer
    found = _find(partition, wanted.timestamp, _fetchable_end(partition, request))
    if found is not None:
        answer.offset, answer.timestamp = found.offset, found.timestamp
        if context.version >= _LEADER_EPOCH_SINCE:
            answer.leader_epoch = found.leader_epoch
    return answer


def _partition(
    name: str, wanted: ListOffsetsPartition, replica_id: int, context: RequestContext
) -> Partition:
    topic, index = context.topic(name), wanted.partition_index
    if replica_id != _DEBUGGER:
        return context.led_partition(topic, index, wanted.current_leader_epoch)
    partition = topic.partition(index)  # a debugger may query any replica
    if context.node_id not in partition.replicas:
        raise NotLeaderForPartitionError(f"broker {context.node_id} has no replica of {partition}")
    partition.check_epoch(wanted.current_leader_epoch)
    return partition


def _fetchable_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the end of the offsets that the client could fetch."""
    if request.replica_id == _CONSUMER and request.isolation_level == _READ_COMMITTED:
        return partition.last_stable_offset
    return partition.log.high_watermark


def _find(partition: Partition, timestamp: int, end: int) -> FoundOffset | None:
    log = partition.log
    if timestamp == _LATEST:
        return FoundOffset(end, _NO_TIMESTAMP, partition.leader_epoch)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return FoundOffset(log.start_offset, _NO_TIMESTAMP, log.epoch_of(log.start_offset))
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return None  # there is no tiered storage
    latest = timestamp == _MAX_TIMESTAMP
    found = log.find_max_timestamp() if latest else log.find_timestamp(timestamp)
    return found if found is not None and found.offset < end else None


def _offsets_before(partition: Partition, wanted: ListOffsetsPartition) -> list[int]:
    """Return the v0 offsets: log end and log start, newest first, if not after the timestamp.

    A real broker returns the starts of its segments; here the log counts as one segment.
    """
    log = partition.log
    if wanted.timestamp == _LATEST:
        offsets = [log.high_watermark, log.start_offset]
    elif wanted.timestamp == _EARLIEST or wanted.timestamp >= log.max_timestamp:
        offsets = [log.start_offset]
    else:
        offsets = []
    return list(dict.fromkeys(offsets))[: max(wanted.max_num_offsets, 0)]
