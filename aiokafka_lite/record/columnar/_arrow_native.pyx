# cython: language_level=3, freethreading_compatible=False
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, embedsignature=True, embedsignature.format=clinic
"""Native `ArrowRows`. The twin is its specification.

A call passes over its rows twice without the GIL. The first pass determines how many rows fit,
measures their memory, and checks every range against the data. The second pass copies them.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytearray cimport PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from aiokafka_lite.record._wire cimport get_varint

from aiokafka_lite.record.columnar._arrow_python import ALL_COLUMNS, ArrowBuffers, HeaderLists, Variable
from aiokafka_lite.record.columnar._arrow_python import ArrowRows as _Twin
from aiokafka_lite.record.columnar._arrow_python import check_arguments

DEF INT32_MAX = 0x7FFFFFFF
DEF TIMESTAMP_MAX = 9223372036854775    # ms whose microseconds fit into 64 bits
DEF NAME_GROWTH = 3
DEF FIRST_ROWS = 1024


# The columns of one call's rows.
cdef struct Source:
    const uint8_t *data
    int64_t size
    const int64_t *offsets
    const int64_t *timestamps
    const int8_t *kinds
    const int32_t *key_starts
    const int32_t *key_lengths
    const int32_t *value_starts
    const int32_t *value_lengths
    const int32_t *header_starts
    const int32_t *header_counts


# The memory that the rows of one call need.
cdef struct Needs:
    Py_ssize_t row          # the first that does not fit, or is invalid
    const char *wrong
    int64_t bytes
    int64_t keys
    int64_t values
    int64_t entries
    int64_t header_keys
    int64_t header_values


cdef inline bint inside(int32_t start, int32_t length, int64_t size) noexcept nogil:
    return length < 0 or (start >= 0 and length <= size - start)


cdef inline bint is_ascii(const uint8_t *p, int64_t length) noexcept nogil:
    cdef uint8_t seen = 0
    cdef int64_t i
    for i in range(length):
        seen |= p[i]
    return seen < 128


@cython.final
cdef class _Field:
    """A growing column of byte strings."""

    cdef bytearray bits
    cdef bytearray offsets
    cdef bytearray data
    cdef uint8_t *bits_at       # their addresses, for code without the GIL
    cdef int32_t *offsets_at
    cdef uint8_t *data_at
    cdef int64_t size
    cdef int64_t nulls
    cdef int64_t hint           # bytes of the previous batch

    def __cinit__(self):
        self.hint = 0
        self.start()

    cdef int start(self) except -1:
        self.bits, self.offsets, self.data = bytearray(), bytearray(4), bytearray()
        self.size = self.nulls = 0
        return 0

    cdef int reserve(self, Py_ssize_t rows, int64_t more) except -1:
        reserve(self.offsets, 4 * (rows + 1), 0)
        reserve_zeroed(self.bits, (rows + 7) // 8)
        reserve(self.data, self.size + more, self.hint)
        self.bits_at = <uint8_t *>PyByteArray_AS_STRING(self.bits)
        self.offsets_at = <int32_t *>PyByteArray_AS_STRING(self.offsets)
        self.data_at = <uint8_t *>PyByteArray_AS_STRING(self.data)
        return 0

    cdef void gather(
        self, const uint8_t *data, const int32_t *starts, const int32_t *lengths, Py_ssize_t rows,
        Py_ssize_t at
    ) noexcept nogil:
        """Copy `rows` values to row `at` and the following rows."""
        cdef uint8_t *bits = self.bits_at
        cdef int32_t *offsets = self.offsets_at
        cdef uint8_t *to = self.data_at
        cdef int64_t size = self.size
        cdef int64_t nulls = 0
        cdef int32_t length
        cdef Py_ssize_t i
        for i in range(rows):
            length = lengths[i]
            if length >= 0:
                bits[at >> 3] |= <uint8_t>(1 << (at & 7))
                memcpy(to + size, data + starts[i], length)
                size += length
            else:
                nulls += 1
            at += 1
            offsets[at] = <int32_t>size
        self.size = size
        self.nulls += nulls

    cdef void one(self, const uint8_t *data, int64_t length, Py_ssize_t at) noexcept nogil:
        """Copy one value, null if its length is -1, to row `at`."""
        if length >= 0:
            self.bits_at[at >> 3] |= <uint8_t>(1 << (at & 7))
            memcpy(self.data_at + self.size, data, length)
            self.size += length
        else:
            self.nulls += 1
        self.offsets_at[at + 1] = <int32_t>self.size

    cdef object take(self, Py_ssize_t rows):
        PyByteArray_Resize(self.offsets, 4 * (rows + 1))
        PyByteArray_Resize(self.data, self.size)
        PyByteArray_Resize(self.bits, (rows + 7) // 8)
        bits = self.bits if self.nulls else None
        taken = Variable(self.nulls, bits, self.offsets, self.data)
        self.hint = self.size + self.size // 16
        self.start()
        return taken


cdef int reserve(bytearray buffer, Py_ssize_t needed, Py_ssize_t hint) except -1:
    """Grow to `needed` bytes, or to the expected size if larger; the content stays."""
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(buffer)
    if size < needed:
        PyByteArray_Resize(buffer, max(needed, hint if hint > 2 * size else 2 * size))
    return 0


cdef int reserve_zeroed(bytearray buffer, Py_ssize_t needed) except -1:
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(buffer)
    reserve(buffer, needed, 0)
    memset(PyByteArray_AS_STRING(buffer) + size, 0, PyByteArray_GET_SIZE(buffer) - size)
    return 0


cdef const void *numbers(Py_buffer *held, object column, Py_ssize_t width, Py_ssize_t count) except NULL:
    """Return a column's numbers; `held` keeps them in place until released."""
    if type(column) is not bytearray:
        raise ValueError("columns that are no bytearrays")
    PyObject_GetBuffer(column, held, PyBUF_SIMPLE)
    if held.len // width < count:
        raise ValueError("columns that are shorter than they claim")
    return held.buf


@cython.final
cdef class ArrowRows:
    __doc__ = _Twin.__doc__

    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly bint full
    cdef Py_ssize_t max_rows
    cdef Py_ssize_t max_bytes
    cdef bint has_key, has_value, has_topic, has_partition, has_offset, has_timestamp, has_kind
    cdef bint has_headers
    cdef bint busy                  # a call is running; it may have released the GIL
    cdef _Field keys
    cdef _Field values
    cdef _Field topics
    cdef bytearray partitions
    cdef bytearray offsets
    cdef bytearray timestamps
    cdef bytearray kinds
    cdef bytearray lists            # offsets of the rows' headers
    cdef bytearray lists_bits
    cdef int64_t lists_nulls
    cdef int64_t entries
    cdef _Field header_keys
    cdef _Field header_values

    def __cinit__(self, names, Py_ssize_t max_rows, Py_ssize_t max_bytes):
        wanted = check_arguments(names, max_rows, max_bytes)
        (
            self.has_key, self.has_value, self.has_topic, self.has_partition, self.has_offset,
            self.has_timestamp, self.has_kind, self.has_headers,
        ) = [name in wanted for name in ALL_COLUMNS]
        self.max_rows, self.max_bytes = max_rows, max_bytes
        self.keys, self.values, self.topics = _Field(), _Field(), _Field()
        self.header_keys, self.header_values = _Field(), _Field()
        self.start()

    cdef int start(self) except -1:
        self.count = self.size = 0
        self.full = False
        self.partitions, self.offsets = bytearray(), bytearray()
        self.timestamps, self.kinds = bytearray(), bytearray()
        self.lists, self.lists_bits = bytearray(4), bytearray()
        self.lists_nulls = self.entries = 0
        return 0

    def add(self, columns not None, Py_ssize_t first, Py_ssize_t last):
        cdef Source source
        cdef Needs needs
        cdef Py_buffer held[10]
        cdef Py_ssize_t count = columns.count
        cdef bytes topic = columns.topic.encode()
        cdef int32_t partition = columns.partition
        cdef int i
        if topic is None:
            raise TypeError("columns without a topic")
        if not 0 <= first <= last <= count:
            raise IndexError(f"out of range: rows [{first}, {last}) in {count}")
        self.begin()
        memset(held, 0, sizeof(held))
        try:
            source.offsets = <const int64_t *>numbers(&held[0], columns.offsets, 8, count)
            source.timestamps = <const int64_t *>numbers(&held[1], columns.timestamps, 8, count)
            source.kinds = <const int8_t *>numbers(&held[2], columns.timestamp_types, 1, count)
            source.key_starts = <const int32_t *>numbers(&held[3], columns.key_starts, 4, count)
            source.key_lengths = <const int32_t *>numbers(&held[4], columns.key_lengths, 4, count)
            source.value_starts = <const int32_t *>numbers(
                &held[5], columns.value_starts, 4, count)
            source.value_lengths = <const int32_t *>numbers(
                &held[6], columns.value_lengths, 4, count)
            source.header_starts = <const int32_t *>numbers(
                &held[7], columns.header_starts, 4, count)
            source.header_counts = <const int32_t *>numbers(
                &held[8], columns.header_counts, 4, count)
            PyObject_GetBuffer(columns.data, &held[9], PyBUF_SIMPLE)
            source.data = <const uint8_t *>held[9].buf
            source.size = held[9].len
            with nogil:
                self.measure(&source, first, last, &needs)
            if needs.wrong != NULL:
                self.refuse(columns, &source, &needs)
            self.gather(&source, first, needs.row - first, partition, topic, &needs)
        finally:
            for i in range(10):
                PyBuffer_Release(&held[i])  # no effect if none was acquired
            self.busy = False
        self.full = needs.row < last
        return needs.row

    cdef int begin(self) except -1:
        if self.busy:
            raise RuntimeError("ArrowRows are used by one caller at a time")
        self.busy = True
        return 0

    cdef void measure(
        self, Source *source, Py_ssize_t first, Py_ssize_t last, Needs *needs
    ) noexcept nogil:
        """Measure how many of the rows fit, and the memory that they need."""
        cdef int64_t more, names, values, key, value, timestamp
        cdef int64_t latest = TIMESTAMP_MAX
        cdef Py_ssize_t row = first
        cdef int32_t entries = 0
        memset(needs, 0, sizeof(Needs))
        while row < last:
            key = value = names = values = 0
            if self.has_key:
                if not inside(source.key_starts[row], source.key_lengths[row], source.size):
                    needs.wrong = "it points outside of the data"
                    break
                key = max(source.key_lengths[row], 0)
            if self.has_value:
                if not inside(source.value_starts[row], source.value_lengths[row], source.size):
                    needs.wrong = "it points outside of the data"
                    break
                value = max(source.value_lengths[row], 0)
            if self.has_headers:
                entries = source.header_counts[row]
                if entries and not measure_headers(
                    source, source.header_starts[row], entries, &names, &values
                ):
                    needs.wrong = "it points outside of the data"
                    break
            more = key + value + names + values
            if self.count + row - first:
                if (
                    self.count + row - first == self.max_rows
                    or more > self.max_bytes - self.size - needs.bytes
                ):
                    break
            elif names > INT32_MAX:
                needs.wrong = "the headers are too large"
                break
            timestamp = source.timestamps[row]
            if self.has_timestamp and (timestamp > latest or timestamp < -latest):
                needs.wrong = "its timestamp does not fit in microseconds"
                break
            needs.bytes += more
            needs.keys += key
            needs.values += value
            needs.entries += entries
            needs.header_keys += names
            needs.header_values += values
            row += 1
        needs.row = row

    cdef int refuse(self, columns, Source *source, Needs *needs) except -1:
        cdef Py_ssize_t row = needs.row
        what = needs.wrong.decode()
        if what == "it points outside of the data":
            raise ValueError(f"row {row} points outside of the data")
        if what == "its timestamp does not fit in microseconds":
            what = f"the timestamp {source.timestamps[row]} does not fit in microseconds"
        raise OverflowError(
            f"{what}: topic {columns.topic!r}, partition {columns.partition}, "
            f"offset {source.offsets[row]}")

    cdef int gather(
        self, Source *source, Py_ssize_t first, Py_ssize_t rows, int32_t partition, bytes topic,
        Needs *needs
    ) except -1:
        cdef Py_ssize_t at = self.count
        cdef Py_ssize_t room = at + rows
        cdef const uint8_t *name = <const uint8_t *>PyBytes_AS_STRING(topic)
        cdef Py_ssize_t name_size = PyBytes_GET_SIZE(topic)
        if PyByteArray_GET_SIZE(self.offsets) < 8 * room:
            room = max(room, min(self.max_rows, max(2 * room, FIRST_ROWS)))
        if self.has_key:
            self.keys.reserve(room, needs.keys)
        if self.has_value:
            self.values.reserve(room, needs.values)
        if self.has_topic:
            self.topics.reserve(room, rows * name_size)
        if self.has_partition:
            reserve(self.partitions, 4 * room, 0)
        reserve(self.offsets, 8 * room, 0)
        if self.has_timestamp:
            reserve(self.timestamps, 8 * room, 0)
        if self.has_kind:
            reserve(self.kinds, 4 * room, 0)
        if self.has_headers:
            reserve(self.lists, 4 * (room + 1), 0)
            reserve_zeroed(self.lists_bits, (room + 7) // 8)
            self.header_keys.reserve(self.entries + needs.entries, needs.header_keys)
            self.header_values.reserve(self.entries + needs.entries, needs.header_values)
        cdef int64_t *offsets = <int64_t *>PyByteArray_AS_STRING(self.offsets) + at
        cdef int32_t *partitions = <int32_t *>PyByteArray_AS_STRING(self.partitions) + at
        cdef int64_t *timestamps = <int64_t *>PyByteArray_AS_STRING(self.timestamps) + at
        cdef int32_t *kinds = <int32_t *>PyByteArray_AS_STRING(self.kinds) + at
        cdef Py_ssize_t i
        with nogil:
            memcpy(offsets, source.offsets + first, 8 * rows)
            if self.has_key:
                self.keys.gather(
                    source.data, source.key_starts + first, source.key_lengths + first, rows, at)
            if self.has_value:
                self.values.gather(
                    source.data, source.value_starts + first, source.value_lengths + first, rows,
                    at)
            if self.has_topic:
                self.repeat(name, name_size, rows, at)
            if self.has_partition:
                for i in range(rows):
                    partitions[i] = partition
            if self.has_timestamp:
                for i in range(rows):
                    timestamps[i] = 1000 * source.timestamps[first + i]
            if self.has_kind:
                for i in range(rows):
                    kinds[i] = source.kinds[first + i]
        if self.has_headers:
            self.gather_headers(source, first, rows, at)
        self.count += rows
        self.size += needs.bytes
        return 0

    cdef void repeat(
        self, const uint8_t *name, Py_ssize_t size, Py_ssize_t rows, Py_ssize_t at
    ) noexcept nogil:
        cdef int32_t *offsets = self.topics.offsets_at
        cdef uint8_t *to = self.topics.data_at
        cdef int64_t end = self.topics.size
        cdef Py_ssize_t i
        for i in range(rows):
            memcpy(to + end, name, size)
            end += size
            offsets[at + i + 1] = <int32_t>end
        self.topics.size = end

    cdef int gather_headers(
        self, Source *source, Py_ssize_t first, Py_ssize_t rows, Py_ssize_t at
    ) except -1:
        cdef int32_t *lists = <int32_t *>PyByteArray_AS_STRING(self.lists)
        cdef uint8_t *bits = <uint8_t *>PyByteArray_AS_STRING(self.lists_bits)
        cdef const uint8_t *end = source.data + source.size
        cdef const uint8_t *p
        cdef Py_ssize_t row
        cdef int32_t left
        cdef int64_t length = 0
        with nogil:
            for row in range(first, first + rows):
                left = source.header_counts[row]
                if left:
                    bits[at >> 3] |= <uint8_t>(1 << (at & 7))
                    p = source.data + source.header_starts[row]
                else:
                    self.lists_nulls += 1
                while left:
                    p = get_varint(p, end, &length)
                    if is_ascii(p, length):
                        self.header_keys.one(p, length, self.entries)
                    else:
                        with gil:
                            self.take_name(p, length)
                    p = get_varint(p + length, end, &length)
                    self.header_values.one(p, length if length >= 0 else -1, self.entries)
                    if length > 0:
                        p += length
                    self.entries += 1
                    left -= 1
                at += 1
                lists[at] = <int32_t>self.entries
        return 0

    cdef int take_name(self, const uint8_t *p, Py_ssize_t length) except -1:
        """Append a header's key, with invalid UTF-8 replaced as in Java."""
        cdef bytes name = PyUnicode_DecodeUTF8(<const char *>p, length, "replace").encode()
        self.header_keys.one(
            <const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), self.entries)
        return 0

    def take(self):
        self.begin()
        try:
            return self.taken()
        finally:
            self.busy = False

    cdef object taken(self):
        cdef Py_ssize_t count = self.count
        cdef dict columns = {}
        if self.has_key:
            columns["key"] = self.keys.take(count)
        if self.has_value:
            columns["value"] = self.values.take(count)
        if self.has_topic:
            columns["topic"] = self.topics.take(count)
        if self.has_partition:
            columns["partition"] = cut(self.partitions, 4 * count)
        if self.has_offset:
            columns["offset"] = cut(self.offsets, 8 * count)
        if self.has_timestamp:
            columns["timestamp"] = cut(self.timestamps, 8 * count)
        if self.has_kind:
            columns["timestampType"] = cut(self.kinds, 4 * count)
        if self.has_headers:
            bits = cut(self.lists_bits, (count + 7) // 8) if self.lists_nulls else None
            columns["headers"] = HeaderLists(
                self.lists_nulls, bits, cut(self.lists, 4 * (count + 1)), self.entries,
                self.header_keys.take(self.entries), self.header_values.take(self.entries))
        self.start()
        return ArrowBuffers(count, columns)


cdef bytearray cut(bytearray buffer, Py_ssize_t size):
    PyByteArray_Resize(buffer, size)
    return buffer


cdef bint measure_headers(
    Source *source, int32_t start, int32_t entries, int64_t *names, int64_t *values
) noexcept nogil:
    """Compute the most bytes that one row's headers need; False if they are outside the data."""
    cdef const uint8_t *p = source.data + start
    cdef const uint8_t *end = source.data + source.size
    cdef int64_t length = 0
    if start < 0 or start > source.size or entries < 0:
        return False
    while entries:
        p = get_varint(p, end, &length)
        if p == NULL or length < 0 or length > end - p:
            return False
        names[0] += length if is_ascii(p, length) else NAME_GROWTH * length
        p = get_varint(p + length, end, &length)
        if p == NULL or length > end - p:
            return False
        if length > 0:
            values[0] += length
            p += length
        entries -= 1
    return True
