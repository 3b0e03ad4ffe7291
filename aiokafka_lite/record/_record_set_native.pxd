# The C interface of RecordSet, so that the consumer and the column reader call `take()` and
# `open_next()` without Python calls. Only this class moves its pointers.
from libc.stdint cimport int32_t, int64_t, uint8_t

from aiokafka_lite._consumer_record_native cimport BatchContext, ConsumerRecord


# One record of a v2 batch: pointers into the batch, lengths of -1 for null.
cdef struct RawRecord:
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_length
    int64_t value_length
    int64_t header_count
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    const uint8_t *end


# NULL, or the error of the record that begins at `p` and must not pass `end`.
cdef const char *parse_record(
    const uint8_t *p, const uint8_t *end, RawRecord *record) noexcept nogil

# The headers, or None if they are malformed.
cdef tuple parse_headers(RawRecord *record)


# Chooses the records that a read returns, and their class.
cdef class RecordPicker:
    cdef bint finished  # the records that follow are all skipped: the read ends
    # A record of the context at the offset, whose other fields the caller sets; None to skip it.
    cdef ConsumerRecord make(self, BatchContext context, int64_t offset)


cdef class RecordSet:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t next_offset
    cdef readonly int32_t leader_epoch  # of the batch before next_offset
    cdef readonly bint exhausted
    cdef readonly bint only_partial
    cdef bint check_crcs
    cdef bint busy                      # a read is running; it may have released the GIL
    cdef bint close_asked               # set by close() while busy
    cdef object aborted                 # AbortedTransactions or None
    cdef object limit                   # maximum bytes of a decompressed batch
    cdef tuple error                    # (class, message) to raise next, or None
    cdef Py_buffer buffer               # the whole set
    cdef bint held                      # buffer is acquired
    cdef const uint8_t *at              # where the next batch begins
    cdef const uint8_t *start  # of the set
    cdef const uint8_t *set_end

    # The v2 batch being read: `left` records begin at `record`.
    cdef bytes payload                  # the decompressed records; None if they are in `buffer`
    cdef const uint8_t *record
    cdef const uint8_t *batch_end
    cdef int32_t left
    cdef int32_t last_delta             # offset delta of the record before, -1 at first
    cdef int32_t last_offset_delta      # the header's
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time            # of all records, if the context says LogAppendTime
    cdef int64_t after                  # the position once the batch is done
    cdef int32_t epoch                  # the batch's leader epoch
    cdef BatchContext context

    # The v0/v1 messages being read.
    cdef object messages                # an iterator, or None
    cdef object upcoming                # the next of them, already taken from there, or None

    # Move to the next batch with records to return, unless one is open; 0 at the end or an error.
    cdef bint open_next(self) except -1
    # Read the next raw record of the open v2 batch; 0 if the batch is done or malformed, otherwise
    # 1.
    cdef bint next_raw(self, RawRecord *raw) noexcept
    cdef bint finish_batch(self) except -1
    # Without a picker, all records are ConsumerRecords. Skipped ones count as read, too.
    cdef list take(self, Py_ssize_t max_records, RecordPicker picker=*)
    cdef object fail(self, object kind, object why)
    cdef Py_ssize_t take_v2(self, list out, Py_ssize_t room, RecordPicker picker) except -1
    cdef Py_ssize_t take_messages(self, list out, Py_ssize_t room, RecordPicker picker) except -1
    cdef bint open_batch(self, Py_ssize_t size) except -1
    cdef bint open_messages(self, Py_ssize_t size) except -1
    # Take the next message; 0 after the last one, or if the next one is malformed.
    cdef bint next_message(self) except -1
    cdef object view(self, const uint8_t *start, Py_ssize_t size)
    cdef void release(self) noexcept
