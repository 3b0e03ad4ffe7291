# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Decodes the common fetch response; `_response_codec_python` is the specification."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t

from aiokafka_lite.record._wire cimport load16, load32, load64, read_unsigned_varint

from aiokafka_lite.consumer.fetching._response_codec_python import NO_EPOCH, NO_LEADER, NO_SNAPSHOT
from aiokafka_lite.protocol._reader_python import uuid_of
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

DEF HEAD = 15  # correlation id, tags; throttle, error, session
DEF FIXED = 35  # of a partition: its index to the replica to prefer


def read_usual(frame):
    cdef Py_buffer buffer
    view = memoryview(frame)
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)  # the memory that the records are slices of
    try:
        return read(view, <const uint8_t *>buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)


cdef read(view, const uint8_t *data, Py_ssize_t size):
    cdef Py_ssize_t at
    cdef uint64_t topics = 0, partitions = 0
    cdef list responses = []
    cdef list read_partitions
    if size < HEAD:
        return None
    at = read_unsigned_varint(data, HEAD, size, &topics)
    if at < 0 or data[4] or not topics:
        return None
    for _ in range(topics - 1):
        if size - at < 17:
            return None
        topic_id = uuid_of(PyBytes_FromStringAndSize(<const char *>data + at, 16))
        at = read_unsigned_varint(data, at + 16, size, &partitions)
        if at < 0 or not partitions:
            return None
        read_partitions = []
        for _ in range(partitions - 1):
            at = read_partition(view, data, at, size, read_partitions)
            if at < 0:
                return None
        if at >= size or data[at]:
            return None
        at += 1
        topic = FetchableTopicResponse.__new__(FetchableTopicResponse)
        topic.topic = ""
        topic.topic_id = topic_id
        topic.partitions = read_partitions
        topic.unknown_tagged_fields = {}
        responses.append(topic)
    if at + 1 != size or data[at]:
        return None
    response = FetchResponse.__new__(FetchResponse)
    response.throttle_time_ms = load32(data + 5)
    response.error_code = load16(data + 9)
    response.session_id = load32(data + 11)
    response.responses = responses
    response.node_endpoints = []
    response.unknown_tagged_fields = {}
    return response


cdef Py_ssize_t read_partition(
    view, const uint8_t *data, Py_ssize_t at, Py_ssize_t size, list into
) except? -1:
    """Read one partition; return where it ends, or -1 if it is not in the common form."""
    cdef const uint8_t *fixed = data + at
    cdef uint64_t length = 0
    if size - at < FIXED or fixed[30] > 1:  # too short; aborted transactions
        return -1
    at += FIXED
    at = read_unsigned_varint(data, at, size, &length)
    if at < 0:
        return -1
    if length > 1 and length - 1 >= <uint64_t>(size - at):
        return -1
    read = PartitionData.__new__(PartitionData)
    read.records = None
    if length > 0:
        read.records = view[at:at + <Py_ssize_t>length - 1]
        at += <Py_ssize_t>length - 1
    if at >= size or data[at]:
        return -1
    read.partition_index = load32(fixed)
    read.error_code = load16(fixed + 4)
    read.high_watermark = load64(fixed + 6)
    read.last_stable_offset = load64(fixed + 14)
    read.log_start_offset = load64(fixed + 22)
    read.aborted_transactions = [] if fixed[30] else None
    read.preferred_read_replica = load32(fixed + 31)
    read.diverging_epoch = NO_EPOCH
    read.current_leader = NO_LEADER
    read.snapshot_id = NO_SNAPSHOT
    read.unknown_tagged_fields = {}
    into.append(read)
    return at + 1
