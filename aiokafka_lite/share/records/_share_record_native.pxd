# For native code that acknowledges records without a Python call.
cimport cython
from libc.stdint cimport int32_t

from aiokafka_lite._consumer_record_native cimport BatchContext, ConsumerRecord
from aiokafka_lite.share.records._record_marks_native cimport Marks


# What the records of one batch and one acquired range share. So a ShareRecord is no larger than a
# ConsumerRecord, and its memory comes from the same free list.
@cython.no_gc
cdef class ShareContext(BatchContext):
    cdef Marks marks  # None for a record that was not delivered
    cdef int32_t delivery_count


@cython.no_gc
cdef class ShareRecord(ConsumerRecord):
    pass


# Accept a record unless it is marked.
cdef int accept_undecided(ShareRecord record) except -1
