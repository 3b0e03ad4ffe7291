# The record's C layout for native modules, so that a decoder fills it without a Python call. The
# fields that the records of one batch share are stored once, in their BatchContext.
cimport cython
from libc.stdint cimport int32_t, int64_t


@cython.no_gc
cdef class BatchContext:
    cdef str topic
    cdef int32_t partition
    cdef int32_t leader_epoch      # -1 unknown
    cdef int timestamp_type        # 0 CreateTime, 1 LogAppendTime
    cdef object checksum           # None, or the CRC-32 of one v0/v1 message

    # For a record that gets its own context, because one of its fields is assigned.
    cdef BatchContext copy(self)


# Here, too, so that the collector tracks no subclass either.
@cython.no_gc
cdef class ConsumerRecord:
    cdef BatchContext context
    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public object key
    cdef public object value
    cdef public object headers
    cdef public int32_t serialized_key_size
    cdef public int32_t serialized_value_size
    cdef object _attributes  # NULL, or the dict of attributes that are no fields


cdef BatchContext new_context(
    str topic, int32_t partition, int timestamp_type, int32_t leader_epoch, object checksum)
