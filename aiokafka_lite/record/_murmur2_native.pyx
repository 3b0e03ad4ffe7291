# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native murmur2. The .pxd offers ``murmur2_raw(data, length)`` to the native producer."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

DEF SEED = 0x9747B28C
DEF M = 0x5BD1E995


cdef uint32_t murmur2_raw(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t m = M
    cdef uint32_t h = <uint32_t>SEED ^ <uint32_t>length
    cdef uint32_t k
    cdef const uint8_t *end = data + (length & ~<Py_ssize_t>3)
    while data < end:
        k = (
            <uint32_t>data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16
            | <uint32_t>data[3] << 24)
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        data += 4
    length &= 3
    if length:
        if length == 3:
            h ^= <uint32_t>data[2] << 16
        if length >= 2:
            h ^= <uint32_t>data[1] << 8
        h ^= data[0]
        h *= m
    h ^= h >> 13
    h *= m
    h ^= h >> 15
    return h


def murmur2(data):
    cdef Py_buffer buffer
    if PyBytes_CheckExact(data):
        return murmur2_raw(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        return murmur2_raw(<const uint8_t *>buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
