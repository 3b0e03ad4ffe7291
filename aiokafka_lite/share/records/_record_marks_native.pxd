# For native share records: marking one without a Python call.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int64_t, uint64_t


cdef class OutcomeCore:
    cdef public Py_ssize_t pending
    cdef public bint done


cdef class Acknowledgement:
    cdef OutcomeCore _outcome
    cdef list _callbacks
    cdef list _waiters
    cdef int64_t _offset
    cdef bint _cancelled


cdef class Marks:
    cdef public bytearray states
    cdef public OutcomeCore outcome
    cdef public object refusal
    cdef public dict renewed
    cdef public int64_t base
    cdef public double deadline
    cdef public double duration

    cdef int state_of(self, int64_t offset) except -1
    cdef bint hold_offset(self, int64_t offset) except -1
    cdef mark_offset(self, int64_t offset, int kind)
    cdef int accept_offset(self, int64_t offset) except -1
    cdef bint marked_at(self, int64_t offset) except -1
    cdef double deadline_at(self, int64_t offset) except? -1.0


# Where the state of an offset is, or NULL if it is not of this acquisition.
cdef inline unsigned char *place(Marks marks, int64_t offset) except? NULL:
    cdef bytearray states = marks.states
    cdef uint64_t index = <uint64_t>offset - <uint64_t>marks.base  # below the base: it wraps
    if states is None:
        raise TypeError("the acquisition has no states")
    if index >= <uint64_t>PyByteArray_GET_SIZE(states):
        return NULL
    return <unsigned char *>PyByteArray_AS_STRING(states) + index
