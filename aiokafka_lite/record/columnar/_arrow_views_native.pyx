# cython: language_level=3, freethreading_compatible=False
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, embedsignature=True, embedsignature.format=clinic
"""Native `arrow_views`. The twin is its specification."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from aiokafka_lite.record.columnar._arrow_views_python import Views

DEF INLINE = 12


def byte_views(data, bytearray starts not None, bytearray lengths not None):
    cdef Py_buffer memory, first, sizes
    cdef int held = 0
    cdef Py_ssize_t row = 0, count, nulls = 0
    cdef int32_t size, start
    cdef const uint8_t *at
    cdef int32_t *out
    cdef uint8_t *bits
    cdef bytearray views, validity
    cdef bint valid = True
    try:
        PyObject_GetBuffer(data, &memory, PyBUF_SIMPLE)
        held = 1
        PyObject_GetBuffer(starts, &first, PyBUF_SIMPLE)
        held = 2
        PyObject_GetBuffer(lengths, &sizes, PyBUF_SIMPLE)
        held = 3
        count = sizes.len // 4
        if first.len != sizes.len or sizes.len % 4:
            raise ValueError(f"{first.len // 4} starts, but {count} lengths")
        views = PyByteArray_FromStringAndSize(NULL, count * 16)
        validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
        out = <int32_t *>PyByteArray_AS_STRING(views)
        bits = <uint8_t *>PyByteArray_AS_STRING(validity)
        at = <const uint8_t *>memory.buf
        with nogil:
            memset(bits, 0, (count + 7) // 8)
            for row in range(count):
                # Read once: another thread could change them after the check.
                size = (<const volatile int32_t *>sizes.buf)[row]
                start = (<const volatile int32_t *>first.buf)[row]
                if size <= INLINE:
                    memset(out, 0, 16)
                if size < 0:
                    nulls += 1
                else:
                    if start < 0 or start > memory.len - size:
                        valid = False
                        break
                    bits[row >> 3] |= 1 << (row & 7)
                    out[0] = size
                    if size <= INLINE:
                        memcpy(out + 1, at + start, size)
                    else:
                        memcpy(out + 1, at + start, 4)
                        out[2] = 0
                        out[3] = start
                out += 4
        if not valid:
            raise ValueError(f"row {row} points outside of the data")
    finally:
        if held > 0:
            PyBuffer_Release(&memory)
        if held > 1:
            PyBuffer_Release(&first)
        if held > 2:
            PyBuffer_Release(&sizes)
    return Views(nulls, validity if nulls else None, views)


def known_stamps(bytearray timestamps not None):
    cdef const int64_t *stamps = <const int64_t *>PyByteArray_AS_STRING(timestamps)
    cdef Py_ssize_t row, count = len(timestamps) // 8, nulls = 0
    cdef bytearray validity
    cdef uint8_t *bits
    for row in range(count):
        if stamps[row] == -1:
            nulls += 1
    if not nulls:
        return 0, None
    validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
    bits = <uint8_t *>PyByteArray_AS_STRING(validity)
    memset(bits, 0, (count + 7) // 8)
    for row in range(count):
        if stamps[row] != -1:
            bits[row >> 3] |= 1 << (row & 7)
    return nulls, validity
