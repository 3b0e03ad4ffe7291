# For the native accumulator: a batch's state as C fields, and append without a Python call.
from libc.stdint cimport int32_t, int64_t, uint8_t

from aiokafka_lite.record._batch_native cimport BatchBuilder


cdef class ProducerBatch:
    cdef readonly object loop
    cdef readonly object topic_partition
    cdef readonly BatchBuilder builder
    cdef readonly list rest
    cdef readonly list pieces
    cdef readonly object buffer
    cdef readonly double created
    cdef public bint due
    cdef public Py_ssize_t size
    cdef public object payload
    cdef public bint compressing
    cdef public int attempts
    cdef public bint may_be_stored
    cdef public object last_error
    cdef public object producer
    cdef public int32_t base_sequence
    cdef readonly int state
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time
    cdef readonly int64_t log_start_offset
    cdef readonly object error
    cdef list _waiters
    cdef list _watchers

    # Returns the record's Ack, or None if the batch has no room for it.
    cdef append_record(self, int64_t timestamp, object key, object value, object headers)
    cdef _resolve(self, int state, list woken=*)
    cdef Py_ssize_t _settled(self) except -1
    cdef int _enlist(self, Wait wait) except -1


cdef class Ack:
    cdef readonly ProducerBatch _batch
    cdef Wait _first
    cdef int64_t _stamp
    cdef readonly int32_t _index
    cdef uint8_t _blocking  # bytes, not `bint`: a million of these may be held
    cdef uint8_t _cancelled


cdef class Wait:
    cdef Ack ack
    cdef object callback
    cdef object context
    cdef Wait following
    cdef bint by_task
    cdef bint _cancelled
    cdef bint _yielded
    cdef bint _enlisted
    cdef bint _blocking

    cdef _step(self, bint *stops)
    cdef _call_soon(self)
