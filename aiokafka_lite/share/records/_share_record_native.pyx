# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native ShareRecord. The Python twin is its specification.

As with ConsumerRecord, the garbage collector does not track it. It refers to its acquisition, and
through that to the consumer. So the consumer drops the records that it buffers when it closes.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from aiokafka_lite._consumer_record_native cimport BatchContext, ConsumerRecord
from aiokafka_lite.record._record_set_native cimport RecordPicker, RecordSet
from aiokafka_lite.share.records._record_marks_native cimport Marks, place

from aiokafka_lite.share.records._share_record_python import AcquiredPicker as _TwinPicker
from aiokafka_lite.share.records._share_record_python import ShareRecord as _Twin
from aiokafka_lite.share.records._share_record_python import fields_of, not_delivered, plain

DEF GAP = 0
DEF ACCEPT = 1
DEF RELEASE = 2
DEF REJECT = 3
DEF HELD = 5
DEF LOST = 0x21


@cython.no_gc
cdef class ShareContext(BatchContext):
    """The fields that the records of one batch and one acquired range share."""

    cdef BatchContext copy(self):
        return shared(self, self.marks, self.delivery_count)


cdef ShareContext shared(BatchContext context, Marks marks, int32_t delivery_count):
    cdef ShareContext made = ShareContext.__new__(ShareContext)
    made.topic = context.topic
    made.partition = context.partition
    made.timestamp_type = context.timestamp_type
    made.leader_epoch = context.leader_epoch
    made.checksum = context.checksum
    made.marks = marks
    made.delivery_count = delivery_count
    return made


cdef Marks marks_of(ConsumerRecord record):
    context = record.context
    if type(context) is not ShareContext or (<ShareContext>context).marks is None:
        raise not_delivered()
    return (<ShareContext>context).marks


cdef int accept_undecided(ShareRecord record) except -1:
    cdef BatchContext context = record.context
    if type(context) is not ShareContext:
        raise not_delivered()
    marks = (<ShareContext>context).marks
    if marks is None:
        raise not_delivered()
    return marks.accept_offset(record.offset)


@cython.no_gc
cdef class ShareRecord(ConsumerRecord):
    __doc__ = _Twin.__doc__

    @property
    def _marks(self):
        return marks_of(self)

    @property
    def delivery_count(self):
        context = self.context
        return (<ShareContext>context).delivery_count if type(context) is ShareContext else 0

    @delivery_count.setter
    def delivery_count(self, int32_t delivery_count):
        context = self.context
        marks = (<ShareContext>context).marks if type(context) is ShareContext else None
        self.context = shared(context, marks, delivery_count)

    @property
    def lock_deadline(self):
        """Loop time, in seconds, until which the record is certainly locked for this consumer,
        unless the connection to its broker is lost; 0.0 once the lock is known to be gone."""
        return marks_of(self).deadline_at(self.offset)

    @property
    def _lock_duration(self):
        return marks_of(self).duration

    @property
    def settled(self):
        """True once the record was accepted, released or rejected."""
        return marks_of(self).marked_at(self.offset)

    process = _Twin.process

    def accept(self):
        """Acknowledge the record as processed."""
        return marks_of(self).mark_offset(self.offset, ACCEPT)

    def _accept_undecided(self):
        accept_undecided(self)

    def release(self):
        """Give the record back for another delivery; otherwise like `accept`."""
        return marks_of(self).mark_offset(self.offset, RELEASE)

    def reject(self):
        """Refuse the record, which is never delivered again; otherwise like `accept`."""
        return marks_of(self).mark_offset(self.offset, REJECT)

    def renew(self):
        """Restart the time of the record's lock (KIP-1222)."""
        return marks_of(self).renew(self.offset)

    def __reduce__(self):
        """Copy and pickle a plain ConsumerRecord: the lock stays with this object."""
        return plain, fields_of(self)


@cython.final
cdef class AcquiredPicker(RecordPicker):
    __doc__ = _TwinPicker.__doc__

    cdef object _ranges
    cdef object _acquisitions
    cdef Py_ssize_t _at  # the current range
    cdef Py_ssize_t _owner  # its acquisition
    cdef Marks _marks  # the same
    cdef int64_t _first, _last
    cdef int32_t _deliveries
    cdef BatchContext _batch  # of the last record
    cdef ShareContext _context  # made of it and the current range

    def __cinit__(self, ranges not None, acquisitions not None):
        self._ranges = ranges
        self._acquisitions = acquisitions
        self._owner = -1
        self.begin_range(0)

    cdef int begin_range(self, Py_ssize_t at) except -1:
        self._at = at
        self._context = None
        if at >= len(self._ranges):
            self.finished = True
            return 0
        self._first, self._last, self._deliveries = self._ranges[at]
        while self._marks is None or self._marks.base + <int64_t>len(self._marks.states) <= self._first:
            self._owner += 1
            self._marks = self._acquisitions[self._owner]
        return 0

    cdef ConsumerRecord make(self, BatchContext context, int64_t offset):
        cdef ConsumerRecord record
        cdef unsigned char *state
        while self._last < offset and not self.finished:
            self.begin_range(self._at + 1)
        if self.finished or offset < self._first:
            return None
        state = place(self._marks, offset)
        if state == NULL or state[0] != GAP:
            return None
        if context is not self._batch or self._context is None:
            self._context = shared(context, self._marks, self._deliveries)
            self._batch = context
        state[0] = HELD
        record = ShareRecord.__new__(ShareRecord)
        record.context = self._context
        return record

    def read(self, RecordSet records not None, Py_ssize_t most):
        """Decode the next records of a set, and hold those that were acquired."""
        return records.take(most, self)

    def pick(self, list records not None):
        """Pick out the acquired records, and hold their offsets."""
        cdef ConsumerRecord record, made
        cdef list acquired = []
        cdef Py_ssize_t index = 0
        while index < PyList_GET_SIZE(records):
            record = <ConsumerRecord?><object>PyList_GET_ITEM(records, index)
            index += 1
            made = self.make(record.context, record.offset)
            if made is None:
                if self.finished:
                    break
                continue
            made.offset = record.offset
            made.timestamp = record.timestamp
            made.key = record.key
            made.value = record.value
            made.headers = record.headers
            made.serialized_key_size = record.serialized_key_size
            made.serialized_value_size = record.serialized_value_size
            acquired.append(made)
        return acquired


def all_locked(list items not None, double now):
    """True if all are records whose locks exist at a loop time."""
    cdef ConsumerRecord record
    cdef Marks marks
    cdef BatchContext checked = None  # every lock of its acquisition exists
    cdef Py_ssize_t index = 0
    while index < PyList_GET_SIZE(items):
        item = <object>PyList_GET_ITEM(items, index)
        index += 1
        if type(item) is not ShareRecord and not isinstance(item, ShareRecord):
            return False
        record = <ConsumerRecord>item
        if record.context is checked and checked is not None:
            continue
        marks = marks_of(record)
        if marks.deadline_at(record.offset) <= now:
            return False
        if not marks.renewed and LOST not in marks.states:
            checked = record.context
    return True
