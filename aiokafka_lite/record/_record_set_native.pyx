# cython: language_level=3, freethreading_compatible=False
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native RecordSet. The twin is its specification; the .pxd declares what may be cimported.

Every uncompressed batch is walked by raw pointers inside one call: Python is only called for a
batch's CRC, its decompression, a control batch of an aborted transaction, and v0/v1 messages.
Every read is checked first against the end of its record, its batch and the set.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stddef cimport size_t

from aiokafka_lite._consumer_record_native cimport BatchContext, ConsumerRecord, new_context
from aiokafka_lite.record._wire cimport (
    PyMemoryView_FromMemory, add_wrapping, get_varint, load16, load32, load64)

from aiokafka_lite.record.crc32c import crc32c

from aiokafka_lite.errors import (
    CorruptRecordException,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.record._record_set_python import RecordSet as _Twin
from aiokafka_lite.record.aborted import AbortedTransactions, is_abort_marker
from aiokafka_lite.record.compression import DEFAULT_LIMIT, decompress
from aiokafka_lite.record.message_set import open_messages

DEF HEADER_SIZE = 61
DEF LENGTH_END = 12
DEF MESSAGE_OVERHEAD = 14
DEF CODEC_MASK = 0x07
DEF LOG_APPEND_TIME = 0x08
DEF TRANSACTIONAL = 0x10
DEF CONTROL = 0x20
DEF MAX_INT64 = 0x7FFFFFFFFFFFFFFF


cdef const char *parse_record(
    const uint8_t *p, const uint8_t *end, RawRecord *record
) noexcept nogil:
    cdef int64_t length = 0
    p = get_varint(p, end, &length)
    if p == NULL or length < 1 or length > end - p:
        return "an invalid length"
    end = p + length
    record.end = end
    p = get_varint(p + 1, end, &record.timestamp_delta)  # past the attributes: none are defined
    if p == NULL:
        return "a timestamp"
    p = get_varint(p, end, &record.offset_delta)
    if p == NULL:
        return "an offset"
    p = get_varint(p, end, &record.key_length)
    if p == NULL or record.key_length > end - p:
        return "a key's length"
    record.key = p
    if record.key_length > 0:
        p += record.key_length
    p = get_varint(p, end, &record.value_length)
    if p == NULL or record.value_length > end - p:
        return "a value's length"
    record.value = p
    if record.value_length > 0:
        p += record.value_length
    p = get_varint(p, end, &record.header_count)
    if p == NULL or record.header_count < 0 or record.header_count > (end - p) // 2:
        return "an invalid header count"
    record.headers = p
    if record.header_count == 0 and p != end:
        return "its fields do not fill its length"
    return NULL


cdef inline object bytes_or_none(const uint8_t *data, int64_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char *>data, length)


cdef tuple parse_headers(RawRecord *record):
    cdef const uint8_t *p = record.headers
    cdef const uint8_t *end = record.end
    cdef int64_t length = 0
    cdef int64_t i
    cdef list out = []
    for i in range(record.header_count):
        p = get_varint(p, end, &length)
        if p == NULL or length < 0 or length > end - p:
            return None
        name = PyUnicode_DecodeUTF8(<const char *>p, length, "replace")
        p += length
        p = get_varint(p, end, &length)
        if p == NULL or length > end - p:
            return None
        out.append((name, bytes_or_none(p, length)))
        if length > 0:
            p += length
    return tuple(out) if p == end else None


cdef class RecordPicker:
    cdef ConsumerRecord make(self, BatchContext context, int64_t offset):
        raise NotImplementedError


# Not cleared by the collector: that would drop the buffer's owner without releasing the buffer. The
# buffer is acquired from the object under a memoryview, never from the memoryview itself: the
# collector clears a memoryview with its cycle while a buffer of it is still exported, and CPython
# then crashes. Only bytes and bytearray are trusted to return the same memory each time (PEP 688
# does not promise it); data in any other type is copied.
@cython.final
@cython.no_gc_clear
cdef class RecordSet:
    __doc__ = _Twin.__doc__

    def __cinit__(
        self, data, str topic not None, int32_t partition, int64_t offset, *, bint check_crcs=True,
        aborted=(), decompressed_limit=DEFAULT_LIMIT,
    ):
        aborted = tuple(aborted)
        self.topic = topic
        self.partition = partition
        self.next_offset = offset
        self.leader_epoch = self.epoch = -1
        self.check_crcs = check_crcs
        self.aborted = AbortedTransactions(aborted) if aborted else None
        self.limit = decompressed_limit
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            owner = data.obj if type(data) is memoryview else data
            if type(owner) is bytes or type(owner) is bytearray:
                PyObject_GetBuffer(owner, &self.buffer, PyBUF_SIMPLE)
                self.start = <const uint8_t *>view.buf
            else:
                owner = PyBytes_FromStringAndSize(<const char *>view.buf, view.len)
                PyObject_GetBuffer(owner, &self.buffer, PyBUF_SIMPLE)
                self.start = <const uint8_t *>self.buffer.buf
            self.held = True
            self.at = self.start
            self.set_end = self.at + view.len
        finally:
            PyBuffer_Release(&view)

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        self.left = 0
        self.at = self.set_end = self.record = self.batch_end = NULL
        if self.held:
            self.held = False
            PyBuffer_Release(&self.buffer)

    def close(self):
        self.exhausted = True
        self.error = None
        self.messages = self.upcoming = None
        self.left = 0
        if self.busy:
            self.close_asked = True  # pointers are in use further up the stack or in a thread
        else:
            self.release()
            self.payload = self.context = None  # the next read finishes no batch

    def raise_limit(self, decompressed_limit):
        if self.busy:
            raise RuntimeError("a RecordSet is read by one caller at a time")
        if self.error is None or self.error[0] is not RecordTooLargeError:
            return False
        if decompressed_limit <= self.limit:
            return False
        self.limit = decompressed_limit
        self.error = None
        return True

    def read(self, Py_ssize_t max_records):
        return self.take(max_records)

    cdef list take(self, Py_ssize_t max_records, RecordPicker picker=None):
        cdef list out = []
        cdef Py_ssize_t room = max_records
        if self.busy:
            raise RuntimeError("a RecordSet is read by one caller at a time")
        self.busy = True
        try:
            while room > 0 and self.open_next():
                if picker is not None and picker.finished:
                    break
                if self.messages is None:
                    room = self.take_v2(out, room, picker)
                else:
                    room = self.take_messages(out, room, picker)
            self.open_next()
        finally:
            self.busy = False
            if self.close_asked:
                self.close()
        if self.error is not None and max_records > 0 and room == max_records:
            kind, message = self.error
            raise kind(message)
        return out

    cdef Py_ssize_t take_v2(self, list out, Py_ssize_t room, RecordPicker picker) except -1:
        """Read records of the open batch; return the remaining room."""
        cdef RawRecord raw
        cdef ConsumerRecord record
        cdef BatchContext context = self.context
        cdef bint fixed = context.timestamp_type == 1
        cdef Py_ssize_t before = room
        cdef int64_t offset
        cdef tuple headers
        while room > 0 and self.next_raw(&raw):
            offset = self.base_offset + raw.offset_delta
            headers = ()
            if raw.header_count:
                headers = parse_headers(&raw)
                if headers is None:
                    self.left = 0
                    self.fail(CorruptRecordException, "A record is malformed (invalid headers)")
                    break
            if offset < self.next_offset:
                continue
            if picker is None:
                record = ConsumerRecord.__new__(ConsumerRecord)
                record.context = context
            else:
                record = picker.make(context, offset)
                if record is None:
                    self.next_offset = offset + 1
                    room -= 1
                    if picker.finished:
                        break
                    continue
            record.offset = offset
            record.timestamp = (
                self.append_time if fixed
                else add_wrapping(self.base_timestamp, raw.timestamp_delta))
            record.key = bytes_or_none(raw.key, raw.key_length)
            record.value = bytes_or_none(raw.value, raw.value_length)
            record.serialized_key_size = <int32_t>raw.key_length if raw.key_length >= 0 else -1
            record.serialized_value_size = (
                <int32_t>raw.value_length if raw.value_length >= 0 else -1)
            record.headers = headers
            out.append(record)
            self.next_offset = offset + 1
            room -= 1
        if room < before:
            self.leader_epoch = self.epoch
        return room

    cdef bint next_raw(self, RawRecord *raw) noexcept:
        cdef const char *wrong
        if self.left == 0:
            return False
        wrong = parse_record(self.record, self.batch_end, raw)
        if wrong == NULL and not self.last_delta < raw.offset_delta <= self.last_offset_delta:
            wrong = "an offset out of order"
        if wrong != NULL:
            self.left = 0
            self.fail(CorruptRecordException, f"A record is malformed ({wrong.decode()})")
            return False
        self.last_delta = <int32_t>raw.offset_delta
        self.record = raw.end
        self.left -= 1
        return True

    cdef bint finish_batch(self) except -1:
        """Move past the finished batch; fail if bytes are left after its last record."""
        if self.context is None and self.messages is None:
            return True
        if self.error is None:
            if self.messages is None and self.record != self.batch_end:
                self.fail(
                    CorruptRecordException, "A record is malformed (bytes after the last record)")
            elif self.after > self.next_offset:
                self.next_offset = self.after
                self.leader_epoch = self.epoch
        self.context = None
        self.payload = None
        self.messages = self.upcoming = None
        return True

    cdef Py_ssize_t take_messages(self, list out, Py_ssize_t room, RecordPicker picker) except -1:
        """Read messages of the open set; return the remaining room."""
        cdef BatchContext context
        cdef ConsumerRecord record
        cdef int64_t offset
        cdef int kind
        while room > 0:
            message = self.upcoming
            if message is None:  # a finalizer has closed the set
                break
            offset = message.offset
            if offset >= self.next_offset:
                kind = message.timestamp_type
                key, value = message.key, message.value
                context = new_context(self.topic, self.partition, kind, -1, message.crc)
                if picker is None:
                    record = ConsumerRecord.__new__(ConsumerRecord)
                    record.context = context
                else:
                    record = picker.make(context, offset)
                if record is not None:
                    record.offset = offset
                    record.timestamp = message.timestamp
                    record.key = key
                    record.value = value
                    record.serialized_key_size = -1 if key is None else <int32_t>len(key)
                    record.serialized_value_size = -1 if value is None else <int32_t>len(value)
                    record.headers = ()
                    out.append(record)
                self.next_offset = offset + 1
                self.leader_epoch = -1
                room -= 1
                if picker is not None and picker.finished:
                    break
            if not self.next_message():
                break
        return room

    cdef bint next_message(self) except -1:
        self.upcoming = None
        messages = self.messages  # a finalizer that closes the set drops its own
        if messages is None:
            return False
        try:
            self.upcoming = next(messages, None)
        except CorruptRecordException as error:
            self.fail(CorruptRecordException, error.args[0])
        if self.messages is None:
            self.upcoming = None
        return self.upcoming is not None

    cdef bint open_next(self) except -1:
        cdef Py_ssize_t left, size
        cdef int magic
        if self.left > 0:
            return True
        if self.upcoming is not None:
            return True
        try:
            self.finish_batch()
            while self.error is None and not self.exhausted:
                left = self.set_end - self.at
                size = 0
                if left >= LENGTH_END:
                    size = <Py_ssize_t>load32(self.at + 8) + LENGTH_END
                    if size < LENGTH_END + MESSAGE_OVERHEAD:
                        raise CorruptRecordException(
                            f"A batch claims a length of {size - LENGTH_END}")
                    if size > left:
                        size = 0
                if size == 0:
                    self.only_partial = self.at == self.start and left > 0
                    self.exhausted = True
                    self.release()
                    return False
                magic = self.at[16]
                if magic > 2:
                    raise CorruptRecordException(f"Message format v{magic} is unknown")
                if magic == 2:
                    self.open_batch(size)
                else:
                    self.open_messages(size)
                self.at += size
                if self.left > 0 or self.upcoming is not None:
                    return not self.exhausted
                self.finish_batch()
                if self.after > self.next_offset and self.error is None:
                    self.next_offset = self.after
                    self.leader_epoch = self.epoch
        except (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError) as error:
            self.context = None
            self.payload = None
            self.fail(type(error), error.args[0])
        return False

    cdef bint open_batch(self, Py_ssize_t size) except -1:
        """Read a v2 header; leaves `left` at 0 if the batch has no records to return."""
        cdef const uint8_t *b = self.at
        cdef int attributes
        cdef int32_t count
        cdef bint hidden
        cdef const char *wrong
        cdef RawRecord raw
        if size < HEADER_SIZE:
            raise CorruptRecordException(f"A v2 batch claims a length of {size - LENGTH_END}")
        if self.check_crcs:
            if <uint32_t>crc32c(self.view(b + 21, size - 21)) != <uint32_t>load32(b + 17):
                raise CorruptRecordException("A batch's CRC does not match its bytes")
        attributes = load16(b + 21)
        self.base_offset = load64(b)
        self.last_offset_delta = load32(b + 23)
        count = load32(b + 57)
        if (
            self.base_offset < 0 or self.last_offset_delta < 0 or count < 0
            or self.base_offset >= MAX_INT64 - self.last_offset_delta
        ):
            raise CorruptRecordException("A batch header has impossible offsets or counts")
        self.after = self.base_offset + self.last_offset_delta + 1
        self.epoch = max(load32(b + 12), -1)
        if self.aborted is not None:
            hidden = self.aborted.hides(
                load64(b + 43), self.after - 1, transactional=(attributes & TRANSACTIONAL) != 0)
            if hidden and not attributes & CONTROL:
                return True
        elif attributes & CONTROL:
            return True
        if not attributes & CONTROL and self.after <= self.next_offset:
            return True
        if count == 0 and (attributes & CONTROL or size == HEADER_SIZE):
            return True  # after compaction, there is nothing to decompress
        if attributes & CODEC_MASK:
            payload = decompress(
                self.view(b + HEADER_SIZE, size - HEADER_SIZE), attributes & CODEC_MASK,
                limit=self.limit)
            self.payload = payload
            self.record = <const uint8_t *>PyBytes_AS_STRING(self.payload)
            self.batch_end = self.record + PyBytes_GET_SIZE(self.payload)
        else:
            self.record = b + HEADER_SIZE
            self.batch_end = b + size
        self.last_delta = -1
        if attributes & CONTROL:
            if count:
                wrong = parse_record(self.record, self.batch_end, &raw)
                if wrong == NULL and not 0 <= raw.offset_delta <= self.last_offset_delta:
                    wrong = "an offset out of order"
                if wrong == NULL and raw.header_count and parse_headers(&raw) is None:
                    wrong = "invalid headers"
                try:
                    if wrong != NULL:
                        raise ValueError(wrong.decode())
                    if is_abort_marker(bytes_or_none(raw.key, raw.key_length)):
                        self.aborted.on_abort_marker(load64(b + 43))
                except ValueError as error:
                    raise CorruptRecordException(f"A control batch is malformed ({error})")
            self.payload = None
            return True
        self.base_timestamp = load64(b + 27)
        self.append_time = load64(b + 35)
        self.context = new_context(
            self.topic, self.partition, 1 if attributes & LOG_APPEND_TIME else 0, self.epoch, None)
        self.left = count
        return True

    cdef bint open_messages(self, Py_ssize_t size) except -1:
        last, messages = open_messages(
            self.view(self.at, size), check_crcs=self.check_crcs, limit=self.limit)
        self.after = last + 1
        self.epoch = -1
        if self.after > self.next_offset:
            self.messages = messages
            self.next_message()
        return True

    cdef object view(self, const uint8_t *start, Py_ssize_t size):
        """Return a view of the bytes for a callee that keeps no reference to it."""
        return PyMemoryView_FromMemory(<char *>start, size, PyBUF_READ)

    cdef object fail(self, object kind, object why):
        self.error = (
            kind,
            f"{why}: topic {self.topic!r}, partition {self.partition}, offset {self.next_offset}")
