# cython: language_level=3, freethreading_compatible=False
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, embedsignature=True, embedsignature.format=clinic
"""Native `Rows`. The twin is its specification.

The columns' buffers, and the batch's while it is written, are exported: nothing can resize or free
them. Their content may change at any time, so each offset is read once and checked before its use.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from aiokafka_lite.record._batch_native cimport BatchBuilder
from aiokafka_lite.record._murmur2_native cimport murmur2_raw
from aiokafka_lite.record._wire cimport put_varint, sub_wrapping, varint_size

from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record.columnar._column_rows_python import UNITS, Field, Stamps, check_bits, check_length
from aiokafka_lite.record.columnar._column_rows_python import Rows as _Twin

DEF OVERHEAD = 22    # length 5, attributes 1, timestamp delta 10, offset delta 5, header count 1
DEF MOST_FIELD = 0x7FFFFFFF
DEF MOST_BUFFERS = 8
DEF MOST_PARTITIONS = 10000000


# A column of byte strings, or (only `wide` and `bits`) of timestamps.
cdef struct Column:
    bint present
    const uint8_t *data
    int64_t size
    const int32_t *narrow   # 32-bit offsets; NULL with `wide`
    const int64_t *wide     # 64-bit offsets, or the numbers of timestamps
    const uint8_t *bits
    int64_t start           # index of the first row


cdef inline bint is_null(const Column *column, int64_t row) noexcept nogil:
    if not column.present:
        return True
    if column.bits == NULL:
        return False
    row += column.start
    return not (column.bits[row >> 3] >> (row & 7)) & 1


cdef inline bint locate(
    const Column *column, int64_t row, const uint8_t **at, int64_t *length
) noexcept nogil:
    """Find a row's bytes; the length is -1 for null. False if its offsets are invalid."""
    cdef int64_t first, last
    at[0] = NULL
    length[0] = -1
    if is_null(column, row):
        return True
    if column.narrow != NULL:
        first = (<const volatile int32_t *>column.narrow)[row]
        last = (<const volatile int32_t *>column.narrow)[row + 1]
    else:
        first = (<const volatile int64_t *>column.wide)[row]
        last = (<const volatile int64_t *>column.wide)[row + 1]
    if first < 0 or last < first or last > column.size or last - first > MOST_FIELD:
        return False
    at[0] = column.data + first
    length[0] = last - first
    return True


cdef inline int64_t sized(int64_t length) noexcept nogil:
    return varint_size(length) + (length if length > 0 else 0)


cdef inline uint8_t *put_field(uint8_t *p, const uint8_t *at, int64_t length) noexcept nogil:
    p = put_varint(p, length)
    if length > 0:
        memcpy(p, at, length)
        p += length
    return p


@cython.final
cdef class Rows:
    __doc__ = _Twin.__doc__

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t largest
    cdef object _value_field
    cdef object _key_field
    cdef object _stamp_column
    cdef Column _values
    cdef Column _keys
    cdef Column _stamps
    cdef int64_t _timestamp
    cdef int64_t _multiplier
    cdef int64_t _divisor
    cdef int64_t _most_stamp    # of the column's numbers
    cdef Py_buffer _buffers[MOST_BUFFERS]
    cdef int _held

    def __cinit__(self, Py_ssize_t count, values, keys, stamps, int64_t timestamp):
        cdef Py_ssize_t row
        cdef int64_t bound, stamp
        cdef bint valid = True
        self._multiplier = self._divisor = 1
        for field in (values, keys):
            if field is not None:
                if not isinstance(field, Field):
                    raise TypeError(f"a column should be a Field, not {field!r}")
                check_length(field.name, count + 1, field.offsets, field.start)
                check_bits(field.name, count, field.validity, field.start)
        if stamps is not None:
            if not isinstance(stamps, Stamps):
                raise TypeError(f"timestamps should be Stamps, not {stamps!r}")
            check_length("timestamps", count, stamps.numbers, stamps.start)
            check_bits("timestamps", count, stamps.validity, stamps.start)
            self._multiplier, self._divisor = UNITS[stamps.unit]
            self._most_stamp = (2**63 - 1) // UNITS[stamps.unit][0]
        if count < 0:
            raise ValueError("a negative number of rows")
        self.count = count
        self._value_field = values
        self._key_field = keys
        self._stamp_column = stamps
        self._timestamp = timestamp
        self._take(&self._values, values)
        self._take(&self._keys, keys)
        if stamps is not None:
            self._stamps.present = True
            self._take_numbers(&self._stamps, stamps.numbers, stamps.start, count)
            if self._stamps.wide == NULL:
                raise TypeError("timestamps should be int64")
            self._take_bits(&self._stamps, stamps.validity, stamps.start, count)
        if values is None and keys is None and stamps is None:
            count = min(count, 1)  # all rows are equal
        with nogil:
            for row in range(count):
                bound = self._bound(row)
                if bound < 0 or not self._stamp(row, &stamp):
                    valid = False
                    break
                if bound > self.largest:
                    self.largest = bound
        if not valid:
            self._raise(row)

    def __dealloc__(self):
        cdef int i
        for i in range(self._held):
            PyBuffer_Release(&self._buffers[i])

    cdef Py_buffer *_hold(self, owner) except NULL:
        cdef Py_buffer *buffer = &self._buffers[self._held]
        if self._held == MOST_BUFFERS:
            raise RuntimeError("too many buffers")
        PyObject_GetBuffer(owner, buffer, PyBUF_SIMPLE)
        self._held += 1
        return buffer

    cdef int _take(self, Column *column, field) except -1:
        cdef Py_buffer *buffer
        if field is None:
            return 0
        buffer = self._hold(field.data)
        column.data = <const uint8_t *>buffer.buf
        column.size = buffer.len
        self._take_numbers(column, field.offsets, field.start, self.count + 1)
        self._take_bits(column, field.validity, field.start, self.count)
        column.present = True
        return 0

    cdef int _take_numbers(self, Column *column, numbers, Py_ssize_t start, Py_ssize_t needed) except -1:
        cdef Py_buffer *buffer
        cdef Py_ssize_t width = memoryview(numbers).itemsize
        buffer = self._hold(numbers)
        if start < 0 or (width != 4 and width != 8) or start > buffer.len // width - needed:
            raise IllegalArgumentError("a column's numbers are too few, or not int32 or int64")
        if width == 4:
            column.narrow = <const int32_t *>buffer.buf + start
        else:
            column.wide = <const int64_t *>buffer.buf + start
        return 0

    cdef int _take_bits(self, Column *column, validity, Py_ssize_t start, Py_ssize_t count) except -1:
        cdef Py_buffer *buffer
        if validity is None:
            return 0
        buffer = self._hold(validity)
        if start < 0 or start > buffer.len * 8 - count:
            raise IllegalArgumentError("a column's validity is too short")
        column.bits = <const uint8_t *>buffer.buf
        column.start = start
        return 0

    cdef inline int64_t _bound(self, Py_ssize_t row) noexcept nogil:
        """Return an upper bound of a record's bytes, or -1."""
        cdef const uint8_t *at
        cdef int64_t key, value
        if not locate(&self._keys, row, &at, &key) or not locate(&self._values, row, &at, &value):
            return -1
        return OVERHEAD + sized(key) + sized(value)

    cdef inline bint _stamp(self, Py_ssize_t row, int64_t *stamp) noexcept nogil:
        cdef int64_t number
        stamp[0] = self._timestamp
        if is_null(&self._stamps, row):
            return True
        number = (<const volatile int64_t *>self._stamps.wide)[row]
        if number < 0 or number > self._most_stamp:
            return False
        stamp[0] = number * self._multiplier
        if self._divisor != 1:
            stamp[0] //= self._divisor
        return True

    cdef _raise(self, Py_ssize_t row):
        """Raise the error of an invalid row, as the twin words it."""
        twin = _Twin(0, None, None, None, self._timestamp)
        twin._stamps = self._stamp_column
        twin._span(self._key_field, row)
        twin._span(self._value_field, row)
        twin._timestamp_of(row)
        raise IllegalArgumentError(f"row {row}: a buffer was changed during the call")

    cdef const int32_t *_places(self, order, Py_ssize_t first, Py_ssize_t last) except? NULL:
        """Check places and return the row numbers, NULL if the places are the rows."""
        cdef Py_ssize_t count = self.count
        if order is not None:
            if type(order) is not bytearray:
                raise TypeError("the order should be a bytearray of int32")
            count = len(order) // 4
        if not 0 <= first <= last <= count:
            raise IndexError(f"out of range: places [{first}, {last}) of {count}")
        return NULL if order is None else <const int32_t *>PyByteArray_AS_STRING(order)

    def bound(self, order, Py_ssize_t place):
        cdef const int32_t *places = self._places(order, place, place + 1)
        cdef Py_ssize_t row = place if order is None else places[place]
        cdef int64_t bound
        if not 0 <= row < self.count:
            raise IndexError(f"out of range: row {row} of {self.count}")
        bound = self._bound(row)
        if bound < 0:
            self._raise(row)
        return bound

    def slice_end(self, Py_ssize_t first, Py_ssize_t rows, int64_t size):
        cdef Py_ssize_t row = first
        cdef int64_t taken = 0, bound
        if first < 0:
            raise IndexError(f"out of range: row {first}")
        while row < self.count and row - first < rows and taken < size:
            bound = self._bound(row)
            if bound < 0:
                self._raise(row)
            taken += bound
            row += 1
        return row

    def group(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t partitions):
        cdef Py_ssize_t row, number, rows = last - first
        cdef int64_t length, total, here
        cdef const uint8_t *at
        cdef int64_t *ends
        cdef int32_t *numbers
        cdef int32_t *out
        cdef bytearray order
        cdef list spans = []
        cdef bint valid = True
        if not 0 <= first <= last <= self.count or not 1 <= partitions <= MOST_PARTITIONS:
            raise IndexError(f"out of range: rows [{first}, {last}) of {self.count}")
        if self.count > 0x7FFFFFFF:
            raise IllegalArgumentError("more than 2,147,483,647 rows")
        order = PyByteArray_FromStringAndSize(NULL, rows * 4)
        out = <int32_t *>PyByteArray_AS_STRING(order)
        ends = <int64_t *>calloc(partitions + 2, sizeof(int64_t))
        numbers = <int32_t *>calloc(rows + 1, sizeof(int32_t))
        if ends == NULL or numbers == NULL:
            free(ends)
            free(numbers)
            raise MemoryError
        try:
            with nogil:
                for row in range(first, last):
                    if not locate(&self._keys, row, &at, &length):
                        valid = False
                        break
                    number = 0  # without a key
                    if length >= 0:
                        number = 1 + <Py_ssize_t>(murmur2_raw(at, length) & 0x7FFFFFFF) % partitions
                    numbers[row - first] = <int32_t>number
                    ends[number] += 1
                if valid:
                    total = 0
                    for number in range(partitions + 1):
                        here = ends[number]
                        ends[number] = total
                        total += here
                    for row in range(first, last):
                        number = numbers[row - first]
                        out[ends[number]] = <int32_t>row
                        ends[number] += 1
            if not valid:
                self._raise(row)
            total = 0
            for number in range(partitions + 1):
                if ends[number] > total:
                    spans.append((number - 1, total, ends[number]))
                    total = ends[number]
        finally:
            free(ends)
            free(numbers)
        return order, spans

    def fill(self, BatchBuilder builder not None, order, Py_ssize_t first, Py_ssize_t last):
        cdef const int32_t *places = self._places(order, first, last)
        cdef Py_buffer buffer
        cdef Py_buffer held
        cdef Py_ssize_t place = first, row = 0, limit, size = builder.size
        cdef int32_t index = builder.count
        cdef int64_t first_timestamp = builder.first_timestamp, newest = builder.max_timestamp
        cdef int64_t stamp, delta, body, key, value
        cdef const uint8_t *key_at
        cdef const uint8_t *value_at
        cdef uint8_t *start
        cdef uint8_t *p
        cdef bint valid = True
        if builder.sealed or builder._storage is None or first == last:
            return first
        PyObject_GetBuffer(builder._storage, &buffer, PyBUF_WRITABLE)
        try:
            if order is not None:
                PyObject_GetBuffer(order, &held, PyBUF_SIMPLE)
            limit = min(builder.limit, buffer.len)
            start = <uint8_t *>buffer.buf
            with nogil:
                while place < last:
                    row = place if places == NULL else places[place]
                    if (
                        row < 0 or row >= self.count
                        or not locate(&self._keys, row, &key_at, &key)
                        or not locate(&self._values, row, &value_at, &value)
                        or not self._stamp(row, &stamp)
                    ):
                        valid = False
                        break
                    delta = sub_wrapping(stamp, first_timestamp) if index else 0
                    body = 2 + varint_size(delta) + varint_size(index) + sized(key) + sized(value)
                    if body + varint_size(body) > limit - size or index == 0x7FFFFFFF:
                        break
                    p = put_varint(start + size, body)
                    p[0] = 0
                    p = put_varint(p + 1, delta)
                    p = put_varint(p, index)
                    p = put_field(p, key_at, key)
                    p = put_field(p, value_at, value)
                    p[0] = 0
                    size += body + varint_size(body)
                    if index == 0:
                        first_timestamp = newest = stamp
                    elif stamp > newest:
                        newest = stamp
                    index += 1
                    place += 1
            if order is not None:
                PyBuffer_Release(&held)
            builder.size = size
            builder.count = index
            builder.first_timestamp = first_timestamp
            builder.max_timestamp = newest
        finally:
            PyBuffer_Release(&buffer)
        if not valid:
            if not 0 <= row < self.count:
                raise IndexError(f"out of range: row {row} of {self.count}")
            self._raise(row)
        return place
