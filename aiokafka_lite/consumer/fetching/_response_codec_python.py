"""Decodes the common fetch response: the readable specification. See `response_codec`."""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from aiokafka_lite.protocol._reader_python import unsigned_varint_at, uuid_of
from aiokafka_lite.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from aiokafka_lite.protocol.primitives import Buffer

_HEAD: Final = Struct(">iBihi")  # correlation id, tags; throttle, error, session
_PARTITION: Final = Struct(">ihqqqBiB")
"""Index, error, high watermark, last stable offset, log start; aborted + 1, replica to prefer, and
the first byte of the records' length + 1."""

# Shared by all responses, read-only.
NO_EPOCH: Final = EpochEndOffset()
NO_LEADER: Final = LeaderIdAndEpoch()
NO_SNAPSHOT: Final = SnapshotId()


def read_usual(frame: Buffer) -> FetchResponse | None:
    """Decode a frame, including its correlation id; None unless it is exactly a common response."""
    try:
        return _read(frame)
    except (error, IndexError):
        return None  # the frame is truncated


def _read(frame: Buffer) -> FetchResponse | None:
    view = memoryview(frame)
    _, tags, throttle, error_code, session_id = _HEAD.unpack_from(view)
    topics, at = unsigned_varint_at(view, _HEAD.size)
    if tags or not topics:
        return None
    responses = []
    for _ in range(topics - 1):
        topic_id = bytes(view[at : at + 16])
        partitions, at = unsigned_varint_at(view, at + 16)
        if not partitions:
            return None
        read = []
        for _ in range(partitions - 1):
            data = PartitionData.__new__(PartitionData)
            (
                data.partition_index,
                data.error_code,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
                aborted,
                data.preferred_read_replica,
                size,
            ) = _PARTITION.unpack_from(view, at)
            if aborted > 1:
                return None
            at += _PARTITION.size
            if size > 127:
                size, at = unsigned_varint_at(view, at - 1)
            end = at + size - 1
            data.aborted_transactions = [] if aborted else None
            data.records = view[at:end] if size else None
            at = end if size else at
            if at > len(view) or view[at]:
                return None
            at += 1
            data.diverging_epoch = NO_EPOCH
            data.current_leader = NO_LEADER
            data.snapshot_id = NO_SNAPSHOT
            data.unknown_tagged_fields = {}
            read.append(data)
        if view[at]:
            return None
        at += 1
        topic = FetchableTopicResponse.__new__(FetchableTopicResponse)
        topic.topic = ""
        topic.topic_id = uuid_of(topic_id)
        topic.partitions = read
        topic.unknown_tagged_fields = {}
        responses.append(topic)
    if view[at] or at + 1 != len(view):
        return None
    response = FetchResponse.__new__(FetchResponse)
    response.throttle_time_ms = throttle
    response.error_code = error_code
    response.session_id = session_id
    response.responses = responses
    response.node_endpoints = []
    response.unknown_tagged_fields = {}
    return response
