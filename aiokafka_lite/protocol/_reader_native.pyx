# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""The native Reader. Its specification is the twin beside this module."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, uint8_t, uint16_t, uint64_t

from aiokafka_lite.record._wire cimport load16, load32, load64

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol._reader_python import FLOAT64, MAX_STRING_BYTES
from aiokafka_lite.protocol._reader_python import Reader as _Twin
from aiokafka_lite.protocol._reader_python import uuid_of

cdef Py_ssize_t _MAX_STRING_BYTES = MAX_STRING_BYTES


@cython.final
cdef class Reader:
    __doc__ = _Twin.__doc__

    # `0 <= _pos <= _end` always holds, so that `_end - _pos` is what can be read.
    cdef readonly object data
    cdef Py_buffer _view
    cdef const uint8_t *_bytes
    cdef Py_ssize_t _pos
    cdef Py_ssize_t _end

    def __cinit__(self, data, Py_ssize_t offset=0):
        PyObject_GetBuffer(data, &self._view, PyBUF_SIMPLE)
        self.data = data
        self._bytes = <const uint8_t *>self._view.buf
        self._end = self._view.len
        self.pos = offset

    def __dealloc__(self):
        PyBuffer_Release(&self._view)

    @property
    def pos(self):
        return self._pos

    @pos.setter
    def pos(self, Py_ssize_t pos):
        if not 0 <= pos <= self._end:
            raise ValueError(f"position {pos} is outside the {self._end} bytes")
        self._pos = pos

    @property
    def end(self):
        return self._end

    @property
    def remaining(self):
        return self._end - self._pos

    cdef _fail(self, str problem):
        raise KafkaProtocolError(f"{problem} (at byte {self._pos} of {self._end})")

    def expect_end(self):
        if self._pos != self._end:
            self._fail(f"{self._end - self._pos} bytes left over after the message")

    # Fixed sizes

    cdef const uint8_t *_next(self, Py_ssize_t size) except NULL:
        cdef Py_ssize_t pos = self._pos
        if size < 0 or size > self._end - pos:
            self._fail(f"{size} bytes wanted, {self._end - pos} left")
        self._pos = pos + size
        return self._bytes + pos

    def unpack(self, layout):
        cdef Py_ssize_t pos = self._pos
        cdef Py_ssize_t size = layout.size
        self._next(size)
        self._pos = pos  # as in the twin, an error leaves it
        values = layout.unpack_from(self.data, pos)
        self._pos = pos + size
        return values

    def int8(self):
        return <int8_t>self._next(1)[0]

    def int16(self):
        return load16(self._next(2))

    def int32(self):
        return load32(self._next(4))

    def int64(self):
        return load64(self._next(8))

    def uint16(self):
        return <uint16_t>load16(self._next(2))

    def float64(self):
        return self.unpack(FLOAT64)[0]

    def boolean(self):
        return self._next(1)[0] != 0

    def uuid(self):
        return uuid_of(self._take(16))

    # Lengths

    cdef Py_ssize_t _varint(self) except -1:
        cdef Py_ssize_t pos = self._pos
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef uint8_t byte
        while True:
            if pos >= self._end:
                self._fail("a varint is cut off")
            byte = self._bytes[pos]
            pos += 1
            value |= <uint64_t>(byte & 0x7F) << shift
            if value > 0xFFFFFFFFU or shift > 28:
                self._fail("a varint is longer than 32 bits")
            if byte <= 0x7F:
                self._pos = pos
                return <Py_ssize_t>value
            shift += 7

    def unsigned_varint(self):
        return self._varint()

    cdef Py_ssize_t _length(self, bint flexible, bint narrow) except -2:
        cdef Py_ssize_t length
        if flexible:
            return self._varint() - 1
        length = load16(self._next(2)) if narrow else load32(self._next(4))
        if length < -1:
            self._fail(f"a negative length: {length}")
        return length

    cdef Py_ssize_t _count(self, bint flexible) except -2:
        cdef Py_ssize_t count = self._length(flexible, False)
        if count > self._end - self._pos:
            self._fail(f"an array of {count} elements, but {self._end - self._pos} bytes left")
        return count

    def nullable_array_length(self, bint flexible):
        return self._count(flexible)

    def array_length(self, bint flexible):
        cdef Py_ssize_t count = self._count(flexible)
        if count < 0:
            self._fail("null where an array must be")
        return count

    # Bytes and text

    cdef bytes _take(self, Py_ssize_t length):
        return PyBytes_FromStringAndSize(<const char *>self._next(length), length)

    def raw(self, Py_ssize_t length):
        return self._take(length)

    cdef object _text(self, bint flexible):
        cdef Py_ssize_t length = self._length(flexible, True)
        cdef Py_ssize_t pos = self._pos
        if length < 0:
            return None
        if length > self._end - pos:
            self._fail(f"a string of {length} bytes, but {self._end - pos} left")
        if length > _MAX_STRING_BYTES:
            self._fail(f"a string of {length} bytes, longer than Kafka allows")
        try:
            text = PyUnicode_DecodeUTF8(<const char *>self._bytes + pos, length, NULL)
        except UnicodeDecodeError as error:
            self._fail(f"a string is not UTF-8: {error.reason}")
        self._pos = pos + length
        return text

    def nullable_string(self, bint flexible):
        return self._text(flexible)

    def string(self, bint flexible):
        text = self._text(flexible)
        if text is None:
            self._fail("null where a string must be")
        return text

    def nullable_bytes(self, bint flexible):
        cdef Py_ssize_t length = self._length(flexible, False)
        return None if length < 0 else self._take(length)

    def bytes_(self, bint flexible):
        cdef Py_ssize_t length = self._length(flexible, False)
        if length < 0:
            self._fail("null where bytes must be")
        return self._take(length)

    cdef object _slice(self, bint flexible):
        cdef Py_ssize_t length = self._length(flexible, False)
        cdef Py_ssize_t pos = self._pos
        if length < 0:
            return None
        if length > self._end - pos:
            self._fail(f"{length} bytes of records, but {self._end - pos} left")
        self._pos = pos + length
        return memoryview(self.data)[pos:pos + length]

    def nullable_records(self, bint flexible):
        return self._slice(flexible)

    def records(self, bint flexible):
        view = self._slice(flexible)
        if view is None:
            self._fail("null where records must be")
        return view

    # Arrays of numbers

    cdef const uint8_t *_numbers(self, Py_ssize_t size, Py_ssize_t count) except NULL:
        cdef Py_ssize_t pos = self._pos
        if count > (self._end - pos) // size:
            self._fail(f"an array of {count} numbers, but {self._end - pos} bytes left")
        if count > 0:
            self._pos = pos + count * size
        return self._bytes + pos

    def int8s(self, Py_ssize_t count):
        cdef const uint8_t *data = self._numbers(1, count)
        cdef Py_ssize_t each
        return [<int8_t>data[each] for each in range(count)]

    def int16s(self, Py_ssize_t count):
        cdef const uint8_t *data = self._numbers(2, count)
        cdef Py_ssize_t each
        return [load16(data + 2 * each) for each in range(count)]

    def int32s(self, Py_ssize_t count):
        cdef const uint8_t *data = self._numbers(4, count)
        cdef Py_ssize_t each
        return [load32(data + 4 * each) for each in range(count)]

    def int64s(self, Py_ssize_t count):
        cdef const uint8_t *data = self._numbers(8, count)
        cdef Py_ssize_t each
        return [load64(data + 8 * each) for each in range(count)]

    # Structs that may be null, and tagged fields

    def present(self):
        return <int8_t>self._next(1)[0] >= 0

    cdef tuple _tag(self):
        cdef Py_ssize_t tag = self._varint()
        cdef Py_ssize_t size = self._varint()
        if size > self._end - self._pos:
            self._fail(f"tagged field {tag} of {size} bytes, but {self._end - self._pos} left")
        return tag, self._pos + size

    def tag(self):
        return self._tag()

    def expect_tag_end(self, Py_ssize_t tag, Py_ssize_t end):
        if self._pos != end:
            self._fail(f"tagged field {tag} ends at byte {end}, its contents at {self._pos}")

    def tagged_fields(self):
        cdef dict fields = {}
        cdef Py_ssize_t count = self._varint()
        cdef Py_ssize_t end
        while count > 0:
            count -= 1
            tag, end = self._tag()
            fields[tag] = self._take(end - self._pos)
        return fields
