# cython: language_level=3, freethreading_compatible=False
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, embedsignature=True, embedsignature.format=clinic
"""Native column reader: fills rows without the GIL; they refer to the set's own memory."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytearray cimport PyByteArray_Resize
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from aiokafka_lite.record._record_set_native cimport (
    RawRecord, RecordSet, parse_record)
from aiokafka_lite.record._wire cimport add_wrapping, get_varint

from aiokafka_lite.errors import CorruptRecordException
from aiokafka_lite.record.columnar._columns_python import Columns
from aiokafka_lite.record.columnar._columns_python import read_columns as _from_records

DEF SMALLEST_RECORD = 7    # bytes: a length, attributes, two deltas, two lengths, a header count


cdef struct Rows:
    int64_t *offsets
    int64_t *timestamps
    int8_t *timestamp_types
    int32_t *key_starts
    int32_t *key_lengths
    int32_t *value_starts
    int32_t *value_lengths
    int32_t *header_starts
    int32_t *header_counts


cdef bytearray column(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


def read_columns(RecordSet record_set not None, Py_ssize_t max_records):
    while True:
        columns = read_some(record_set, max_records)
        if columns is not None or max_records <= 0:
            return columns
        # v0 and v1 messages, the end, an error, or a batch without wanted rows (then the next).
        if record_set.messages is not None or record_set.error is not None or record_set.exhausted:
            return _from_records(record_set, max_records)


cdef object read_some(RecordSet record_set, Py_ssize_t max_records):
    """Return rows of the open batch and of the next ones in the same memory; None if none."""
    cdef Py_ssize_t count = 0, room
    cdef const uint8_t *base
    cdef Rows rows
    if record_set.busy:
        raise RuntimeError("a RecordSet is read by one caller at a time")
    record_set.busy = True
    try:
        if max_records > 0 and record_set.open_next() and record_set.messages is None:
            payload = record_set.payload
            if payload is None:
                base = <const uint8_t *>record_set.buffer.buf
                data = memoryview(<object>record_set.buffer.obj).cast("B")
                room = (record_set.set_end - record_set.record) // SMALLEST_RECORD + 1
            else:
                base = <const uint8_t *><char *>(<bytes>payload)
                data = payload
                room = (record_set.batch_end - record_set.record) // SMALLEST_RECORD + 1
            room = min(room, max_records)
            offsets, timestamps, kinds = column(8 * room), column(8 * room), column(room)
            key_starts, key_lengths = column(4 * room), column(4 * room)
            value_starts, value_lengths = column(4 * room), column(4 * room)
            header_starts, header_counts = column(4 * room), column(4 * room)
            rows.offsets = <int64_t *>PyByteArray_AS_STRING(offsets)
            rows.timestamps = <int64_t *>PyByteArray_AS_STRING(timestamps)
            rows.timestamp_types = <int8_t *>PyByteArray_AS_STRING(kinds)
            rows.key_starts = <int32_t *>PyByteArray_AS_STRING(key_starts)
            rows.key_lengths = <int32_t *>PyByteArray_AS_STRING(key_lengths)
            rows.value_starts = <int32_t *>PyByteArray_AS_STRING(value_starts)
            rows.value_lengths = <int32_t *>PyByteArray_AS_STRING(value_lengths)
            rows.header_starts = <int32_t *>PyByteArray_AS_STRING(header_starts)
            rows.header_counts = <int32_t *>PyByteArray_AS_STRING(header_counts)
            count = fill(record_set, &rows, 0, room, base)
            # Batches that follow in the same memory go into the same columns.
            while (
                payload is None and count < room and record_set.open_next()
                and record_set.payload is None and record_set.messages is None
            ):
                count = fill(record_set, &rows, count, room, base)
            record_set.open_next()
            if count:
                for numbers in (offsets, timestamps):
                    PyByteArray_Resize(numbers, 8 * count)
                for numbers in (
                    key_starts, key_lengths, value_starts, value_lengths, header_starts,
                    header_counts,
                ):
                    PyByteArray_Resize(numbers, 4 * count)
                PyByteArray_Resize(kinds, count)
                return Columns(
                    record_set.topic, record_set.partition, count, data, offsets, timestamps,
                    kinds, key_starts, key_lengths, value_starts, value_lengths, header_starts,
                    header_counts)
    finally:
        record_set.busy = False
        if record_set.close_asked:
            record_set.close()
    return None


cdef bint headers_are_whole(RawRecord *record) noexcept nogil:
    """True if the headers match their count and end where the record does."""
    cdef const uint8_t *p = record.headers
    cdef const uint8_t *end = record.end
    cdef int64_t length = 0
    cdef int64_t i
    for i in range(record.header_count):
        p = get_varint(p, end, &length)
        if p == NULL or length < 0 or length > end - p:
            return False
        p = get_varint(p + length, end, &length)
        if p == NULL or length > end - p:
            return False
        if length > 0:
            p += length
    return p == end


cdef Py_ssize_t fill(
    RecordSet s, Rows *rows, Py_ssize_t count, Py_ssize_t room, const uint8_t *base
) except -1:
    """Append the wanted records of the open batch; return the new number of rows."""
    cdef RawRecord raw
    cdef const char *wrong = NULL
    cdef int64_t offset
    cdef int64_t wanted = s.next_offset
    cdef int64_t position = wanted
    cdef int64_t fixed_timestamp = s.append_time
    cdef int8_t kind = <int8_t>s.context.timestamp_type
    cdef const uint8_t *record = s.record
    cdef const uint8_t *end = s.batch_end
    cdef int32_t left = s.left
    cdef int32_t last_delta = s.last_delta
    with nogil:
        while left > 0 and count < room:
            wrong = parse_record(record, end, &raw)
            if wrong == NULL and not last_delta < raw.offset_delta <= s.last_offset_delta:
                wrong = "an offset out of order"
            if wrong != NULL:
                break
            offset = s.base_offset + raw.offset_delta
            if raw.header_count and not headers_are_whole(&raw):
                wrong = "invalid headers"
                break
            last_delta = <int32_t>raw.offset_delta
            record = raw.end
            left -= 1
            if offset < wanted:
                continue
            position = offset + 1
            rows.offsets[count] = offset
            rows.timestamps[count] = (
                fixed_timestamp if kind == 1
                else add_wrapping(s.base_timestamp, raw.timestamp_delta))
            rows.timestamp_types[count] = kind
            rows.key_starts[count] = <int32_t>(raw.key - base)
            rows.key_lengths[count] = <int32_t>raw.key_length if raw.key_length >= 0 else -1
            rows.value_starts[count] = <int32_t>(raw.value - base)
            rows.value_lengths[count] = <int32_t>raw.value_length if raw.value_length >= 0 else -1
            rows.header_starts[count] = <int32_t>(raw.headers - base)
            rows.header_counts[count] = <int32_t>raw.header_count
            count += 1
    if position != wanted:
        s.leader_epoch = s.epoch
    s.next_offset = position
    s.record = record
    s.last_delta = last_delta
    s.left = left
    if wrong != NULL:
        s.left = 0
        s.fail(CorruptRecordException, f"A record is malformed ({wrong.decode()})")
    return count
