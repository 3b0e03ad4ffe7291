"""Decodes the common ShareFetch response: the readable specification. See `share_fetch_codec`."""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from aiokafka_lite.protocol._reader_python import unsigned_varint_at, uuid_of
from aiokafka_lite.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from aiokafka_lite.protocol.primitives import Buffer

_HEAD: Final = Struct(">iBihBi")
"""Correlation id, tags; throttle, error, its message's length + 1, lock timeout."""
_PARTITION: Final = Struct(">ihBhBiiB")
"""Index, error, its message's length + 1, the same of the acknowledgements; leader, epoch, tags."""
_ACQUIRED: Final = Struct(">qqhB")  # first and last offset, delivery count, tags

# Shared by all responses, read-only.
LEADERS: Final = {0: LeaderIdAndEpoch(0, 0), -1: LeaderIdAndEpoch(-1, -1)}
"""The leader that brokers send for partitions without an error."""


def read_usual(frame: Buffer) -> ShareFetchResponse | None:
    """Decode a frame, including its correlation id; None unless it is exactly a common response."""
    try:
        return _read(frame)
    except (error, IndexError):
        return None  # the frame is truncated


def _read(frame: Buffer) -> ShareFetchResponse | None:
    view = memoryview(frame)
    _, tags, throttle, code, message, lock = _HEAD.unpack_from(view)
    topics, at = unsigned_varint_at(view, _HEAD.size)
    if tags or code or message or not topics:
        return None
    responses = []
    for _ in range(topics - 1):
        topic_id = bytes(view[at : at + 16])
        partitions, at = unsigned_varint_at(view, at + 16)
        if not partitions:
            return None
        read: list[PartitionData] = []
        for _ in range(partitions - 1):
            at = _read_partition(view, at, read)
            if at < 0:
                return None
        if view[at]:
            return None
        at += 1
        topic = ShareFetchableTopicResponse.__new__(ShareFetchableTopicResponse)
        topic.topic_id = uuid_of(topic_id)
        topic.partitions = read
        topic.unknown_tagged_fields = {}
        responses.append(topic)
    if view[at] != 1 or view[at + 1] or at + 2 != len(view):  # no nodes, no tags
        return None
    response = ShareFetchResponse.__new__(ShareFetchResponse)
    response.throttle_time_ms = throttle
    response.error_code = 0
    response.error_message = None
    response.acquisition_lock_timeout_ms = lock
    response.responses = responses
    response.node_endpoints = []
    response.unknown_tagged_fields = {}
    return response


def _read_partition(view: memoryview, at: int, into: list[PartitionData]) -> int:
    """Read one partition; return where it ends, or -1 if it is not in the common form."""
    index, code, message, ended, why, leader, epoch, tags = _PARTITION.unpack_from(view, at)
    if code or message or ended or why or tags or leader != epoch or leader not in LEADERS:
        return -1
    size, at = unsigned_varint_at(view, at + _PARTITION.size)
    end = at + size - 1
    if not size or end > len(view):
        return -1
    records = view[at:end]
    count, at = unsigned_varint_at(view, end)
    if not count:
        return -1
    ranges = []
    for _ in range(count - 1):
        first, last, delivery, tags = _ACQUIRED.unpack_from(view, at)
        if tags:
            return -1
        at += _ACQUIRED.size
        acquired = AcquiredRecords.__new__(AcquiredRecords)
        acquired.first_offset = first
        acquired.last_offset = last
        acquired.delivery_count = delivery
        acquired.unknown_tagged_fields = {}
        ranges.append(acquired)
    if view[at]:
        return -1
    partition = PartitionData.__new__(PartitionData)
    partition.partition_index = index
    partition.error_code = partition.acknowledge_error_code = 0
    partition.error_message = partition.acknowledge_error_message = None
    partition.current_leader = LEADERS[leader]
    partition.records = records
    partition.acquired_records = ranges
    partition.unknown_tagged_fields = {}
    into.append(partition)
    return at + 1
