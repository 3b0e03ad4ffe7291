# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Decodes the common ShareFetch response; `_share_response_python` is the specification."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint64_t

from aiokafka_lite.record._wire cimport load16, load32, load64, read_unsigned_varint

from aiokafka_lite.protocol._reader_python import uuid_of
from aiokafka_lite.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from aiokafka_lite.share.leaders._share_response_python import LEADERS

DEF HEAD = 16  # correlation id, tags; throttle, error, no message, lock timeout
DEF FIXED = 19  # of a partition: its index to the tags of its leader
DEF ACQUIRED = 19  # of an acquired range

cdef object NO_LEADER = LEADERS.get(-1)
cdef object ZERO_LEADER = LEADERS.get(0)


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
    cdef uint64_t topics = 0, partitions = 0, each
    cdef list responses = []
    cdef list read_partitions
    if size < HEAD or data[4] or load16(data + 9) or data[11]:
        return None
    at = read_unsigned_varint(data, HEAD, size, &topics)
    if at < 0 or not topics:
        return None
    for each in range(topics - 1):
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
        topic = ShareFetchableTopicResponse.__new__(ShareFetchableTopicResponse)
        topic.topic_id = topic_id
        topic.partitions = read_partitions
        topic.unknown_tagged_fields = {}
        responses.append(topic)
    if at + 2 != size or data[at] != 1 or data[at + 1]:  # no nodes, no tags
        return None
    response = ShareFetchResponse.__new__(ShareFetchResponse)
    response.throttle_time_ms = load32(data + 5)
    response.error_code = 0
    response.error_message = None
    response.acquisition_lock_timeout_ms = load32(data + 12)
    response.responses = responses
    response.node_endpoints = []
    response.unknown_tagged_fields = {}
    return response


cdef Py_ssize_t read_partition(
    view, const uint8_t *data, Py_ssize_t at, Py_ssize_t size, list into
) except? -1:
    """Read one partition; return where it ends, or -1 if it is not in the common form."""
    cdef const uint8_t *fixed = data + at
    cdef const uint8_t *acquired
    cdef int32_t leader
    cdef uint64_t length = 0, count = 0, each
    cdef list ranges = []
    if size - at < FIXED:
        return -1
    if load16(fixed + 4) or fixed[6] or load16(fixed + 7) or fixed[9] or fixed[18]:
        return -1  # an error
    leader = load32(fixed + 10)
    if leader != load32(fixed + 14) or not -1 <= leader <= 0:
        return -1
    at = read_unsigned_varint(data, at + FIXED, size, &length)
    if at < 0 or not length or length - 1 > <uint64_t>(size - at):
        return -1
    records = view[at:at + <Py_ssize_t>length - 1]
    at = read_unsigned_varint(data, at + <Py_ssize_t>length - 1, size, &count)
    if at < 0 or not count:
        return -1
    for each in range(count - 1):
        if size - at < ACQUIRED:
            return -1
        acquired = data + at
        if acquired[18]:
            return -1
        at += ACQUIRED
        read = AcquiredRecords.__new__(AcquiredRecords)
        read.first_offset = load64(acquired)
        read.last_offset = load64(acquired + 8)
        read.delivery_count = load16(acquired + 16)
        read.unknown_tagged_fields = {}
        ranges.append(read)
    if at >= size or data[at]:
        return -1
    partition = PartitionData.__new__(PartitionData)
    partition.partition_index = load32(fixed)
    partition.error_code = partition.acknowledge_error_code = 0
    partition.error_message = partition.acknowledge_error_message = None
    partition.current_leader = ZERO_LEADER if leader == 0 else NO_LEADER
    partition.records = records
    partition.acquired_records = ranges
    partition.unknown_tagged_fields = {}
    into.append(partition)
    return at + 1
