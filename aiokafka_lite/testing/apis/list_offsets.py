"""ListOffsets, v0-v11: the offset that belongs to a timestamp, or to an end of the log.

- v0 answers a list of offsets (``max_num_offsets`` of them); since v1 one, with its timestamp;
- v2: isolation level; v4: leader epochs, checked and answered;
- -1 latest, -2 earliest; v7: -3 the record with the largest timestamp (KIP-734); v8: -4 earliest
  on this broker's disk (KIP-405); v9: -5 latest and v11: -6 next in tiered storage, which is not
  there.
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError, UnsupportedVersionError
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.log import FoundOffset
from aiokafka_lite.testing.topics import Partition

_LEADER_EPOCH_SINCE: Final = 4
_READ_COMMITTED: Final = 1

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
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(topic, wanted, request.isolation_level, context)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    asked: ListOffsetsTopic,
    wanted: ListOffsetsPartition,
    isolation_level: int,
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        if wanted.timestamp < _EARLIEST:
            since = _SINCE.get(wanted.timestamp, _NEVER)
            if context.version < since:
                raise UnsupportedVersionError(f"timestamp {wanted.timestamp} is not known yet")
        partition = context.led_partition(
            context.topic(asked.name), wanted.partition_index, wanted.current_leader_epoch
        )
    except BrokerResponseError as error:
        answer.error_code = error.errno
        return answer
    if context.version == 0:
        answer.old_style_offsets = _offsets_before(partition, wanted)
        return answer
    found = _find(partition, wanted.timestamp, isolation_level)
    if found is not None:
        answer.offset, answer.timestamp = found.offset, found.timestamp
        if context.version >= _LEADER_EPOCH_SINCE:
            answer.leader_epoch = found.leader_epoch
    return answer


def _find(partition: Partition, timestamp: int, isolation_level: int) -> FoundOffset | None:
    log = partition.log
    if timestamp == _LATEST:
        end = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
        return FoundOffset(end, _NO_TIMESTAMP, partition.leader_epoch)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return FoundOffset(log.start_offset, _NO_TIMESTAMP, log.epoch_of(log.start_offset))
    if timestamp == _MAX_TIMESTAMP:
        return log.find_max_timestamp()
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return None  # there is no tiered storage
    return log.find_timestamp(timestamp)


def _offsets_before(partition: Partition, wanted: ListOffsetsPartition) -> list[int]:
    """v0: the log's end and start, newest first, as far as they are not after the timestamp.

    A real broker lists the starts of its segment files; here the log counts as one file.
    """
    log = partition.log
    if wanted.timestamp == _LATEST:
        offsets = [log.high_watermark, log.start_offset]
    elif wanted.timestamp == _EARLIEST or wanted.timestamp >= log.max_timestamp:
        offsets = [log.start_offset]
    else:
        offsets = []
    return list(dict.fromkeys(offsets))[: max(wanted.max_num_offsets, 0)]
