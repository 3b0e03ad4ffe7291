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

from aiokafka_lite._consumer_record_native cimport ConsumerRecord
from aiokafka_lite.share.records._record_marks_native cimport Marks

from aiokafka_lite.share.records._share_record_python import ShareRecord as _Twin
from aiokafka_lite.share.records._share_record_python import fields_of, not_delivered, plain

DEF ACCEPT = 1
DEF RELEASE = 2
DEF REJECT = 3


@cython.no_gc
cdef class ShareRecord(ConsumerRecord):
    __doc__ = _Twin.__doc__

    cdef Marks _acquisition
    cdef public int32_t delivery_count

    cdef Marks marks(self):
        if self._acquisition is None:
            raise not_delivered()
        return self._acquisition

    @property
    def _marks(self):
        return self.marks()

    @property
    def lock_deadline(self):
        """Loop time, in seconds, until which the record is certainly locked for this consumer,
        unless the connection to its broker is lost; 0.0 once the lock is known to be gone."""
        return self.marks().deadline_at(self.offset)

    @property
    def _lock_duration(self):
        return self.marks().duration

    @property
    def settled(self):
        """True once the record was accepted, released or rejected."""
        return self.marks().marked_at(self.offset)

    process = _Twin.process

    def accept(self):
        """Acknowledge the record as processed."""
        return self.marks().mark_offset(self.offset, ACCEPT)

    def _accept_undecided(self):
        self.marks().accept_offset(self.offset)

    def release(self):
        """Give the record back for another delivery; otherwise like `accept`."""
        return self.marks().mark_offset(self.offset, RELEASE)

    def reject(self):
        """Refuse the record, which is never delivered again; otherwise like `accept`."""
        return self.marks().mark_offset(self.offset, REJECT)

    def renew(self):
        """Restart the time of the record's lock (KIP-1222)."""
        return self.marks().renew(self.offset)

    def __reduce__(self):
        """Copy and pickle a plain ConsumerRecord: the lock stays with this object."""
        return plain, fields_of(self)


def acquired_of(list records not None, ranges, acquisitions, Py_ssize_t at, Py_ssize_t owner):
    """Pick out the acquired records, and hold their offsets."""
    cdef ConsumerRecord record
    cdef ShareRecord shared
    cdef Marks marks = None
    cdef list acquired = []
    cdef Py_ssize_t index = 0, count = len(ranges)
    cdef int64_t first = 0, last = -1, offset
    cdef int32_t deliveries = 0
    if at < count:
        first, last, deliveries = ranges[at]
        marks = acquisitions[owner]
    while index < PyList_GET_SIZE(records):  # a hostile `ranges` may shorten the list
        record = <ConsumerRecord?><object>PyList_GET_ITEM(records, index)
        index += 1
        offset = record.offset
        while at < count and last < offset:
            at += 1
            if at < count:
                first, last, deliveries = ranges[at]
        if at == count:
            break
        if first > offset:
            continue
        while marks.base + <int64_t>len(marks.states) <= offset:
            owner += 1
            marks = acquisitions[owner]
        if not marks.hold_offset(offset):
            continue
        shared = ShareRecord.__new__(ShareRecord)
        shared.context = record.context
        shared.offset = offset
        shared.timestamp = record.timestamp
        shared.key = record.key
        shared.value = record.value
        shared.headers = record.headers
        shared.serialized_key_size = record.serialized_key_size
        shared.serialized_value_size = record.serialized_value_size
        shared._acquisition = marks
        shared.delivery_count = deliveries
        acquired.append(shared)
    return acquired, at, owner


def all_locked(list items not None, double now):
    """True if all are records whose locks exist at a loop time."""
    cdef ShareRecord record
    cdef Py_ssize_t index = 0
    while index < PyList_GET_SIZE(items):
        item = <object>PyList_GET_ITEM(items, index)
        index += 1
        if not isinstance(item, ShareRecord):
            return False
        record = <ShareRecord>item
        if record.marks().deadline_at(record.offset) <= now:
            return False
    return True
