# For the native producer: the hash of raw bytes without a Python call.
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t murmur2_raw(const uint8_t *data, Py_ssize_t length) noexcept nogil
