# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, embedsignature=True, embedsignature.format=clinic
"""Native BatchBuilder. The twin is its specification; the .pxd declares what may be cimported.

Every append first computes the record's exact size, and only then writes. The writing part needs
no checks, because it cannot exceed that size.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_FromStringAndSize
from cpython.bytearray cimport PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_Check
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from aiokafka_lite.record._wire cimport (
    PyUnicode_AsUTF8AndSize, put_varint, store16, store32, store64, sub_wrapping, varint_size)

from collections.abc import Iterable

from aiokafka_lite.record.crc32c import crc32c

from aiokafka_lite.errors import IllegalArgumentError, IllegalStateError, MessageSizeTooLargeError
from aiokafka_lite.record._batch_python import BatchBuilder as _Twin
from aiokafka_lite.record.compression import Compression, check_level, compress

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1

DEF HEADER_SIZE = 61
DEF LENGTH_END = 12
DEF ATTRIBUTES_AT = 21
DEF TRANSACTIONAL = 0x10
DEF RECORD_OVERHEAD = 21    # length 5, attributes 1, timestamp delta 10, offset delta 5
DEF MAX_INT32 = 0x7FFFFFFF
DEF FIRST_SIZE = 16384

cdef object NONE = Compression.NONE  # an attribute of an enum is a call in CPython 3.11


cdef bytes as_bytes(object field, str what):
    """Convert a bytearray or memoryview to bytes; raise TypeError for any other type."""
    # Checks C types, so that no application code runs while a record is measured.
    if PyByteArray_Check(field):
        return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(field), PyByteArray_GET_SIZE(field))
    if PyMemoryView_Check(field):
        return field.tobytes()
    raise TypeError(
        f"{what} must be bytes, bytearray, memoryview or None, not {type(field).__name__}")


cdef inline Py_ssize_t sized(Py_ssize_t length) noexcept nogil:
    """Return the size of a nullable field with its length; -1 is null."""
    return varint_size(length) + (length if length > 0 else 0)


cdef inline uint8_t *put_sized(uint8_t *p, object field) noexcept:
    """Write None or bytes, preceded by the length."""
    cdef Py_ssize_t length
    if field is None:
        p[0] = 1
        return p + 1
    length = PyBytes_GET_SIZE(field)
    p = put_varint(p, length)
    memcpy(p, PyBytes_AS_STRING(field), length)
    return p + length


cdef list checked_headers(object headers, Py_ssize_t *size):
    """Convert headers to (str, bytes or None) tuples; `size` is their encoded size."""
    cdef list out = []
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t length
    cdef str name
    if not isinstance(headers, (list, tuple)) and not isinstance(headers, Iterable):
        raise TypeError(
            f"headers must be (str, bytes or None) pairs, not {headers!r}")
    for header in headers:
        if not isinstance(header, (tuple, list)) or len(header) != 2:
            raise TypeError(f"a header must be a (str, bytes or None) pair, not {header!r}")
        maybe_name, value = header
        if not isinstance(maybe_name, str):
            raise TypeError(f"a header's name must be str, not {type(maybe_name).__name__}")
        name = maybe_name
        try:
            PyUnicode_AsUTF8AndSize(name, &length)
        except UnicodeEncodeError:
            raise IllegalArgumentError(
                f"a header's name cannot be encoded in UTF-8: {name!r}") from None
        total += sized(length)
        if value is None:
            total += 1
        else:
            if not PyBytes_Check(value):
                value = as_bytes(value, "a header's value")
            total += sized(PyBytes_GET_SIZE(value))
        out.append((name, value))
    size[0] = varint_size(len(out)) + total
    return out


cdef uint8_t *put_headers(uint8_t *p, list headers) except NULL:
    cdef Py_ssize_t length
    cdef const char *name
    cdef tuple header
    p = put_varint(p, len(headers))
    for header in headers:
        name = PyUnicode_AsUTF8AndSize(<object>header[0], &length)
        p = put_varint(p, length)
        memcpy(p, name, length)
        p = put_sized(p + length, <object>header[1])
    return p


cpdef Py_ssize_t record_size_upper_bound(object key, object value, object headers=()) except -1:
    cdef Py_ssize_t total = RECORD_OVERHEAD
    cdef Py_ssize_t of_headers = 1
    if key is not None and not PyBytes_Check(key):
        key = as_bytes(key, "key")
    if value is not None and not PyBytes_Check(value):
        value = as_bytes(value, "value")
    total += sized(-1 if key is None else PyBytes_GET_SIZE(key))
    total += sized(-1 if value is None else PyBytes_GET_SIZE(value))
    if headers:
        checked_headers(headers, &of_headers)
    return total + of_headers


@cython.final
cdef class BatchBuilder:
    __doc__ = _Twin.__doc__

    def __cinit__(self, Py_ssize_t limit, bytearray buffer=None):
        if buffer is not None and PyByteArray_GET_SIZE(buffer) < limit:
            raise ValueError(f"a buffer of {len(buffer)} bytes cannot hold {limit}")
        self.limit = limit
        self.size = HEADER_SIZE
        self.count = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.sealed = False
        self._buffer = buffer
        self._storage = buffer

    cdef inline Py_ssize_t _capacity(self) noexcept:
        # Read each time, because the owner could have resized a buffer from outside.
        return 0 if self._storage is None else PyByteArray_GET_SIZE(self._storage)

    cdef bint _grow(self, Py_ssize_t needed) except -1:
        """Return a buffer of the builder's own with room for `needed` bytes; the pool's is never
        resized."""
        if self.count == 0:
            self._storage = PyByteArray_FromStringAndSize(
                NULL, max(needed, min(self.limit, FIRST_SIZE)))
        elif self._storage is self._buffer:
            raise IllegalStateError("The batch's buffer was resized")
        else:
            PyByteArray_Resize(
                self._storage, max(needed, min(self.limit, 2 * self._capacity())))
        return True

    cdef int32_t append_record(
        self, int64_t timestamp_ms, object key, object value, object headers
    ) except -2:
        cdef Py_ssize_t key_length = -1, value_length = -1, of_headers = 1, body, end
        cdef int32_t index
        cdef int64_t delta
        cdef list pairs = None
        cdef uint8_t *p
        if timestamp_ms < -1:
            raise ValueError(f"timestamp_ms {timestamp_ms} is not within -1 .. 2**63 - 1")
        if key is not None:
            if not PyBytes_Check(key):
                key = as_bytes(key, "key")
            key_length = PyBytes_GET_SIZE(key)
        if value is not None:
            if not PyBytes_Check(value):
                value = as_bytes(value, "value")
            value_length = PyBytes_GET_SIZE(value)
        if headers is not None and headers is not () and headers:
            pairs = checked_headers(headers, &of_headers)
        # Only now, because iterating over the headers may have run code that appended here.
        index = self.count
        delta = sub_wrapping(timestamp_ms, self.first_timestamp) if index else 0
        body = (
            1 + varint_size(delta) + varint_size(index) + sized(key_length) + sized(value_length)
            + of_headers)
        end = self.size + varint_size(body) + body
        if end > self.limit or self.sealed:
            if index or self.sealed:
                return -1
            if end > MAX_INT32:
                raise MessageSizeTooLargeError(
                    f"A record of {end - self.size} bytes cannot be written")
        if end > self._capacity():
            self._grow(end)
        p = put_varint(<uint8_t *>PyByteArray_AS_STRING(self._storage) + self.size, body)
        p[0] = 0
        p = put_varint(p + 1, delta)
        p = put_varint(p, index)
        p = put_sized(p, key)
        p = put_sized(p, value)
        if pairs is None:
            p[0] = 0
        else:
            put_headers(p, pairs)
        self.size = end
        if index == 0:
            self.first_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count = index + 1
        return index

    @cython.binding(False)  # a plain C method: the interpreter calls it 10 ns faster
    def append(self, timestamp_ms, key, value, headers=()):
        cdef int overflow = 0
        cdef int64_t timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
        if overflow:
            raise ValueError(f"timestamp_ms {timestamp_ms} is not within -1 .. 2**63 - 1")
        return self.append_record(timestamp, key, value, headers)

    def seal(
        self, compression=Compression.NONE, level=None, *, int64_t producer_id=-1,
        int16_t producer_epoch=-1, int32_t base_sequence=-1, bint transactional=False,
    ):
        cdef uint8_t *header
        cdef Py_ssize_t size
        cdef bytearray result = None
        if type(compression) is not Compression:
            compression = Compression(compression)
        if level is not None:
            check_level(compression, level)
        if self.count == 0:
            raise IllegalStateError("An empty batch cannot be sealed")
        self.sealed = True  # first, because the event loop continues while a thread compresses
        if self._capacity() < self.size:
            raise IllegalStateError("The batch's buffer was resized")
        if compression is NONE:
            size = self.size
            batch = view = memoryview(self._storage)[:size]
            header = <uint8_t *>PyByteArray_AS_STRING(self._storage)  # which the view holds in place
        else:
            if self._payload is None or self._payload_of != (compression, level):
                with memoryview(self._storage) as view:
                    self._payload = compress(view[HEADER_SIZE:self.size], compression, level)
                self._payload_of = (compression, level)
            size = HEADER_SIZE + PyBytes_GET_SIZE(self._payload)
            result = PyByteArray_FromStringAndSize(NULL, size)
            header = <uint8_t *>PyByteArray_AS_STRING(result)
            memcpy(
                header + HEADER_SIZE, PyBytes_AS_STRING(self._payload),
                PyBytes_GET_SIZE(self._payload))
            batch = result
            view = memoryview(result)
        store64(header, 0)
        store32(header + 8, <int32_t>(size - LENGTH_END))
        store32(header + 12, -1)
        header[16] = 2
        store16(header + 21, <int16_t>(<int>compression | (TRANSACTIONAL if transactional else 0)))
        store32(header + 23, self.count - 1)
        store64(header + 27, self.first_timestamp)
        store64(header + 35, self.max_timestamp)
        store64(header + 43, producer_id)
        store16(header + 51, producer_epoch)
        store32(header + 53, base_sequence)
        store32(header + 57, self.count)
        store32(header + 17, <int32_t><uint32_t>crc32c(view[ATTRIBUTES_AT:]))
        return batch
