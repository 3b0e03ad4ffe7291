# cython: language_level=3, freethreading_compatible=True
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native codec for the bytes around the batches. The Python twin is its specification."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from aiokafka_lite.producer.batching._accumulator_native cimport PartitionQueue
from aiokafka_lite.producer.batching._ack_native cimport ProducerBatch

from aiokafka_lite.producer.sending._produce_codec_python import TOPIC_IDS_FROM as _TOPIC_IDS_FROM

cdef int TOPIC_IDS_FROM = _TOPIC_IDS_FROM

DEF ROOM = 64  # for all that has a fixed or small size


cdef inline char *put16(char *at, int value) noexcept:
    at[0] = <char>(value >> 8)
    at[1] = <char>value
    return at + 2


cdef inline char *put32(char *at, uint32_t value) noexcept:
    at[0] = <char>(value >> 24)
    at[1] = <char>(value >> 16)
    at[2] = <char>(value >> 8)
    at[3] = <char>value
    return at + 4


cdef inline char *put_varint(char *at, uint64_t value) noexcept:
    while value >= 0x80:
        at[0] = <char>(value | 0x80)
        at += 1
        value >>= 7
    at[0] = <char>value
    return at + 1


cdef inline char *put_bytes(char *at, bytes value) noexcept:
    memcpy(at, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return at + PyBytes_GET_SIZE(value)


def encode_frame(
    int version, int32_t correlation_id, bytes client_id, int acks, int32_t timeout_ms, parts,
    names, bytes transactional_id not None=b"\0"
):
    cdef list pieces = []
    cdef Py_ssize_t longest = 0 if client_id is None else PyBytes_GET_SIZE(client_id)
    cdef Py_ssize_t size = 0
    cdef bytes name, piece, first = None
    cdef char *scratch
    cdef char *at
    cdef PartitionQueue queue
    cdef ProducerBatch batch
    cdef dict topics = {}
    cdef list encoded = []  # the topics' encoded names, in order
    for queue, batch in parts:
        topic = (<tuple>queue.topic_partition)[0]
        of = topics.get(topic)
        if of is None:
            topics[topic] = [(queue, batch)]
        else:
            (<list>of).append((queue, batch))
    longest = max(longest, PyBytes_GET_SIZE(transactional_id))
    for topic in topics:
        name = names[topic]
        if name is None:
            raise TypeError(f"the name of topic {topic!r} must be bytes, not None")
        encoded.append(name)
        longest = max(longest, PyBytes_GET_SIZE(name))
    scratch = <char *>PyMem_Malloc(3 * longest + ROOM)
    if scratch == NULL:
        raise MemoryError
    try:
        at = put32(scratch, 0)
        at = put16(at, 0)
        at = put16(at, version)
        at = put32(at, correlation_id)
        if client_id is None:
            at = put16(at, -1)
        else:
            at = put16(at, <int>PyBytes_GET_SIZE(client_id))
            at = put_bytes(at, client_id)
        at[0] = 0
        at = put_bytes(at + 1, transactional_id)
        at = put16(at, acks)
        at = put32(at, timeout_ms)
        at = put_varint(at, len(topics) + 1)
        for name, batches in zip(encoded, topics.values()):
            at = put_bytes(at, name)
            at = put_varint(at, len(<list>batches) + 1)
            for queue, batch in <list>batches:
                at = put32(at, <int32_t>(<tuple>queue.topic_partition)[1])
                at = put_varint(at, batch.size + 1)
                piece = PyBytes_FromStringAndSize(scratch, at - scratch)
                if first is None:
                    first = piece
                pieces.append(piece)
                pieces.append(batch.payload)
                size += (at - scratch) + batch.size
                at = scratch
                at[0] = 0
                at += 1
            at[0] = 0
            at += 1
        at[0] = 0
        at += 1
        piece = PyBytes_FromStringAndSize(scratch, at - scratch)
        pieces.append(piece)
        size += at - scratch
        if first is None:
            first = piece
        put32(PyBytes_AS_STRING(first), <uint32_t>(size - 4))  # not shared yet
    finally:
        PyMem_Free(scratch)
    return pieces


cdef inline int32_t get32(const uint8_t *at) noexcept:
    return <int32_t>(
        (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]
    )


cdef inline int64_t get64(const uint8_t *at) noexcept:
    return <int64_t>((<uint64_t><uint32_t>get32(at) << 32) | <uint32_t>get32(at + 4))


def read_stored(frame, int version, names):
    cdef Py_buffer view
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return read(<const uint8_t *>view.buf, view.len, version, names)
    except UnicodeDecodeError:
        return None
    finally:
        PyBuffer_Release(&view)


cdef read(const uint8_t *data, Py_ssize_t size, int version, names):
    cdef dict stored = {}
    cdef Py_ssize_t at = 6, end
    cdef int topics, partitions
    if size < 6:
        return None
    topics = data[5]
    if data[4] or not 0 < topics < 0x80:
        return None
    for _ in range(topics - 1):
        if at >= size:
            return None
        if version >= TOPIC_IDS_FROM:
            end = at + 16
            if end >= size or names is None:
                return None
            name = names.get(PyBytes_FromStringAndSize(<const char *>data + at, 16))
        else:
            if not 0 < data[at] < 0x80:
                return None
            end = at + data[at]
            if end >= size:
                return None
            name = PyUnicode_DecodeUTF8(<const char *>data + at + 1, end - at - 1, NULL)
        partitions = data[end]
        if name is None or not 0 < partitions < 0x80:
            return None
        at = end + 1
        for _ in range(partitions - 1):
            if at + 33 > size:
                return None
            if data[at + 4] or data[at + 5]:  # an error
                return None
            if data[at + 30] != 1 or data[at + 31] or data[at + 32]:
                return None
            stored[name, get32(data + at)] = (
                get64(data + at + 6), get64(data + at + 14), get64(data + at + 22)
            )
            at += 33
        if at >= size or data[at]:
            return None
        at += 1
    if at + 5 != size or data[at + 4]:
        return None
    return get32(data + at), stored
