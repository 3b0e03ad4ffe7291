# The C interface for the producer's native accumulator. `append_record` is BatchBuilder.append()
# without the Python call. The counters are read-only, except for `Rows.fill`, which appends records
# itself.
from libc.stdint cimport int32_t, int64_t


cdef class BatchBuilder:
    cdef readonly Py_ssize_t limit      # maximum bytes of the batch, header included
    cdef readonly Py_ssize_t size       # bytes so far, header included
    cdef readonly int32_t count         # records
    cdef readonly int64_t first_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly bint sealed
    cdef bytearray _buffer              # the pool's, or None
    cdef bytearray _storage             # where the records are: the pool's buffer or its own
    cdef bytes _payload                 # the records, compressed
    cdef tuple _payload_of              # its (Compression, level)

    cdef inline Py_ssize_t _capacity(self) noexcept
    cdef bint _grow(self, Py_ssize_t needed) except -1

    # The record's index, -1 if it does not fit or the batch is sealed, -2 with an exception set.
    cdef int32_t append_record(
        self, int64_t timestamp_ms, object key, object value, object headers) except -2


cpdef Py_ssize_t record_size_upper_bound(object key, object value, object headers=*) except -1
