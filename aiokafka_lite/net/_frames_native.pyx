# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""The native FrameReceiver. Its specification is the twin beside this module."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memmove

from aiokafka_lite.record._wire cimport load32

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.net._frames_python import FIRST_SCRATCH, LARGEST_SCRATCH, WINDOW_AFTER_LARGE
from aiokafka_lite.net._frames_python import FrameReceiver as _Twin
from aiokafka_lite.net._frames_python import refusal

DEF PREFIX = 4  # bytes of a length


@cython.final
cdef class FrameReceiver:
    __doc__ = _Twin.__doc__

    cdef public Py_ssize_t limit
    cdef public Py_ssize_t smallest
    cdef public object error
    cdef object _buffers
    cdef bytearray _memory  # the scratch; never resized, because `_scratch` is a view of it
    cdef object _scratch
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef object _body
    cdef Py_ssize_t _filled
    cdef bint _after_large

    def __cinit__(self, Py_ssize_t limit, buffers, Py_ssize_t smallest=4):
        self.limit = limit
        self.smallest = smallest
        self._buffers = buffers
        self._make_scratch(FIRST_SCRATCH)

    cdef _make_scratch(self, Py_ssize_t size):
        self._memory = bytearray(size)
        self._scratch = memoryview(self._memory)

    @property
    def idle(self):
        return self._body is None and self._start == self._end

    def window(self):
        if self._body is not None:
            return self._body[self._filled:]
        if self._start == self._end:
            self._start = self._end = 0
            if self._after_large:
                return self._scratch[:WINDOW_AFTER_LARGE]
            return self._scratch
        return self._scratch[self._end:]

    def on_received(self, Py_ssize_t count):
        cdef Py_ssize_t start = self._start
        cdef Py_ssize_t end
        cdef Py_ssize_t size = PyByteArray_GET_SIZE(self._memory)
        cdef const uint8_t *data = <const uint8_t *>PyByteArray_AS_STRING(self._memory)
        cdef Py_ssize_t length
        if self.error is not None:
            return ()
        body = self._body
        if body is not None:
            self._filled += count
            if self._filled < len(body):
                return ()
            self._body = None
            self._after_large = True
            return (body,)
        if count < 0 or count > size - self._end:
            raise ValueError("more bytes were received than the window holds")
        end = self._end + count
        if end - start > PREFIX and end < size:
            length = load32(data + start)
            if start + PREFIX + length == end and self.smallest <= length <= self.limit:
                self._start = self._end = end
                self._after_large = False
                return (PyBytes_FromStringAndSize(<const char *>data + start + PREFIX, length),)
        self._end = end
        frames = self._take_frames()
        if end == size:
            self._make_room()
        return frames

    cdef list _take_frames(self):
        cdef bytearray memory = self._memory
        cdef const uint8_t *data = <const uint8_t *>PyByteArray_AS_STRING(memory)
        cdef Py_ssize_t start = self._start
        cdef Py_ssize_t end = self._end
        cdef Py_ssize_t length
        cdef list frames = []
        while end - start >= PREFIX:
            length = load32(data + start)
            if length < 0 or not self.smallest <= length <= self.limit:
                self.error = KafkaProtocolError(
                    refusal(<int32_t>length, smallest=self.smallest, limit=self.limit))
                break
            if length <= end - start - PREFIX:
                frames.append(
                    PyBytes_FromStringAndSize(<const char *>data + start + PREFIX, length))
                self._after_large = False
                start += PREFIX + length
            elif PREFIX + length > PyByteArray_GET_SIZE(self._memory):
                received = self._scratch[start + PREFIX:end]
                self._filled = end - start - PREFIX
                self._body = memoryview(self._buffers.take(length))[:length]
                self._body[:self._filled] = received
                start = end
                break
            else:
                break
        self._start = start
        return frames

    cdef _make_room(self):
        cdef Py_ssize_t unread = self._end - self._start
        cdef Py_ssize_t size = PyByteArray_GET_SIZE(self._memory)
        cdef bytearray before = self._memory
        cdef char *source = PyByteArray_AS_STRING(before) + self._start
        if size < LARGEST_SCRATCH:
            self._make_scratch(2 * size)
        memmove(PyByteArray_AS_STRING(self._memory), source, unread)
        self._start = 0
        self._end = unread
