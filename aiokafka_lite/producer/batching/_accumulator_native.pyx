# cython: language_level=3, freethreading_compatible=True
# cython: wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native ``send -> partition -> append -> ack``. The Python twin is its specification."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from aiokafka_lite.producer.batching._ack_native cimport Ack, ProducerBatch
from aiokafka_lite.record._murmur2_native cimport murmur2_raw

from collections import deque
from copy import copy

from aiokafka_lite._arguments import check_headers, inert, partition_number
from aiokafka_lite._arguments import timestamp_ms as as_timestamp
from aiokafka_lite.producer.batching._accumulator_python import AppendCore as _TwinCore
from aiokafka_lite.producer.batching._accumulator_python import Blocked, _hash
from aiokafka_lite.producer.batching._accumulator_python import PartitionQueue as _TwinQueue
from aiokafka_lite.producer.batching._accumulator_python import TopicQueues as _TwinTopic
from aiokafka_lite.structs import TopicPartition

cdef extern from *:
    """
    #ifdef _WIN32
    #include <windows.h>
    static inline long long akl_now_ms(void) {
        FILETIME t;
        GetSystemTimePreciseAsFileTime(&t);
        return ((((long long)t.dwHighDateTime << 32) | t.dwLowDateTime) - 116444736000000000LL) / 10000;
    }
    #else
    #include <time.h>
    static inline long long akl_now_ms(void) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    }
    #endif
    """
    int64_t akl_now_ms() noexcept nogil

cdef extern from *:
    """
    /* True if walking through headers may run code of the application, such as a send: unless they
       are a list or tuple of tuples, and none of a subclass. */
    static inline int akl_may_act(PyObject *headers) {
        PyObject **items;
        Py_ssize_t i, count;
        if (PyList_CheckExact(headers)) {
            items = ((PyListObject *)headers)->ob_item;
            count = PyList_GET_SIZE(headers);
        } else if (PyTuple_CheckExact(headers)) {
            items = ((PyTupleObject *)headers)->ob_item;
            count = PyTuple_GET_SIZE(headers);
        } else return 1;
        for (i = 0; i < count; i++)
            if (!PyTuple_CheckExact(items[i])) return 1;
        return 0;
    }
    """
    bint may_act "akl_may_act"(object headers) noexcept


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1


cdef tuple _QUICK_ITERATORS = (type(iter([])), type(iter(())))


cdef object run_of(ProducerBatch batch, int32_t index, int32_t count, int64_t timestamp):
    """Return an entry of `SentRecords`."""
    if count == 1:
        return batch.ack(index, timestamp)
    return batch, index, count, timestamp


cdef inline int64_t hash_of(object key) except? -1:
    if PyBytes_CheckExact(key):
        return murmur2_raw(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    return _hash(key)


cdef inline Py_ssize_t number_of(object partition) except -1:
    """Return a partition's number; for an invalid one, the Python function raises the error."""
    cdef int overflow = 0
    cdef Py_ssize_t number
    if PyLong_CheckExact(partition):
        number = PyLong_AsLongLongAndOverflow(partition, &overflow)
        if not overflow and 0 <= number <= 0x7FFFFFFF:
            return number
    return partition_number(partition)


cdef inline int64_t timestamp_of(object timestamp_ms) except -1:
    """Return a timestamp; for an invalid one, the Python function raises the error."""
    cdef int overflow = 0
    cdef int64_t timestamp
    if not PyLong_CheckExact(timestamp_ms):
        timestamp_ms = as_timestamp(timestamp_ms)
    timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    if overflow or timestamp < 0:
        as_timestamp(timestamp_ms)  # raises the error
    return timestamp


@cython.final
cdef class PartitionQueue:
    __doc__ = _TwinQueue.__doc__

    def __cinit__(self, topic_partition):
        if not isinstance(topic_partition, tuple) or PyTuple_GET_SIZE(topic_partition) != 2:
            raise TypeError(f"topic_partition must be a TopicPartition, not {topic_partition!r}")
        self.topic_partition = topic_partition
        self.waiting = deque()
        self.in_flight = deque()

    @property
    def empty(self):
        return not self.waiting and not self.in_flight


@cython.final
cdef class TopicQueues:
    __doc__ = _TwinTopic.__doc__

    def __cinit__(self, str topic not None, Py_ssize_t partitions, Py_ssize_t turn):
        self.topic = topic
        self.queues = []
        self.available = []
        self._turn = turn
        self.grow(partitions)
        self.move_on()

    def grow(self, Py_ssize_t partitions):
        if partitions < 1:
            raise ValueError(f"{self.topic} has {partitions} partitions")
        self.count = partitions
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(TopicPartition(self.topic, partition)))

    cpdef PartitionQueue move_on(self):
        cdef Py_ssize_t chosen
        self._turn += 1
        if self.available:
            chosen = self.available[self._turn % len(self.available)]
        else:
            chosen = self._turn % self.count
        if not 0 <= chosen < PyList_GET_SIZE(self.queues):
            raise IndexError(f"{self.topic} has no partition {chosen}")
        self.sticky = self.queues[chosen]
        return self.sticky

    def stick_to(self, PartitionQueue queue not None):
        self.sticky = queue


cdef class AppendCore:
    __doc__ = _TwinCore.__doc__

    def __cinit__(self, *_, **__):
        self.topics = {}  # set even if `__init__` is not called: it is read without a check

    def __init__(self, loop, key_serializer, value_serializer, partitioner, bint ignore_keys=False):
        self.loop = loop
        self.topics = {}
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = partitioner
        self._ignore_keys = ignore_keys

    def append(self, topic, value, key, partition, timestamp_ms, headers):
        return self.append_fields(topic, value, key, partition, timestamp_ms, headers)

    cdef append_fields(self, topic, value, key, partition, timestamp_ms, headers):
        cdef int64_t timestamp
        cdef TopicQueues topic_queues
        cdef ProducerBatch batch
        cdef Ack ack
        cdef int32_t index
        if self.refusal is not None:
            raise copy(self.refusal)
        if not isinstance(topic, str):
            raise TypeError(f"`topic` should be a str, not {topic!r}")
        if timestamp_ms is None:
            timestamp = akl_now_ms()
        else:
            timestamp = timestamp_of(timestamp_ms)
        if headers is not None and may_act(headers):
            check_headers(headers)
            headers = inert(headers)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if partition is None and self._partitioner is None and (key is None or self._ignore_keys):
            # Usually, the record fits into the open batch: this is `_append_sticky`, without its
            # calls.
            topic_queues = self._find(<str>topic)
            if topic_queues is not None:
                batch = topic_queues.sticky.open
                if batch is not None:
                    index = batch.builder.append_record(timestamp, key, value, headers)
                    if index >= 0:
                        ack = Ack.__new__(Ack)
                        ack._batch = batch
                        ack._index = index
                        ack._stamp = timestamp
                        return ack
        return self._append(<str>topic, partition, timestamp, key, value, headers)

    def append_many(
        self, list sent not None, topic, items, bint keyed, partition, timestamp_ms, headers,
        Py_ssize_t most,
    ):
        cdef object value, key = None
        cdef int64_t timestamp = 0
        cdef ProducerBatch batch, current = None
        cdef TopicQueues topic_queues
        cdef int32_t index, first = 0, count = 0
        cdef int64_t stamp = 0
        # The clock is read for each record if code of the application may run between two records.
        cdef bint quick = self._key_serializer is None and self._value_serializer is None
        cdef bint sticky = partition is None and self._partitioner is None
        if not isinstance(topic, str):
            raise TypeError(f"`topic` should be a str, not {topic!r}")
        if timestamp_ms is not None:
            timestamp = timestamp_of(timestamp_ms)
        if headers is not None and may_act(headers):
            check_headers(headers)
            headers = inert(headers)
        quick = quick and type(items) in _QUICK_ITERATORS
        try:
            for item in items:
                if keyed:
                    value, key = item
                else:
                    value = item
                    key = None
                if self.refusal is not None:
                    raise copy(self.refusal)
                if self._key_serializer is not None:
                    key = self._key_serializer(key)
                if self._value_serializer is not None:
                    value = self._value_serializer(value)
                if timestamp_ms is None and (not quick or not most & 15 or timestamp == 0):
                    timestamp = akl_now_ms()
                index = -1
                if sticky and (key is None or self._ignore_keys):
                    topic_queues = self._find(topic)
                    if topic_queues is not None:
                        batch = topic_queues.sticky.open
                        if batch is not None:
                            index = batch.builder.append_record(timestamp, key, value, headers)
                if index < 0:
                    result = self._append(topic, partition, timestamp, key, value, headers)
                    if type(result) is not Ack:
                        return result
                    batch = (<Ack>result)._batch
                    index = (<Ack>result)._index
                if batch is current and index == first + count and timestamp == stamp:
                    count += 1
                else:
                    if count:
                        sent.append(run_of(current, first, count, stamp))
                        count = 0
                    current = batch
                    first = index
                    count = 1
                    stamp = timestamp
                most -= 1
                if most <= 0:
                    return 0
            return most
        finally:
            if count:
                sent.append(run_of(current, first, count, stamp))

    def append_serialized(self, str topic not None, partition, int64_t timestamp, key, value, headers):
        return self._append(topic, partition, timestamp, key, value, headers)

    cdef TopicQueues _find(self, str topic):
        """Return the queues of a topic, or None; usually, it is the topic of the last call."""
        if topic is self._last_topic and not self._last_queues.forgotten:
            return self._last_queues
        cdef PyObject *found = PyDict_GetItemWithError(self.topics, topic)
        if found == NULL:
            return None
        self._last_queues = <TopicQueues?><object>found  # Python code can change the dict
        self._last_topic = topic
        return self._last_queues

    cdef _append(self, str topic, partition, int64_t timestamp, key, value, headers):
        cdef TopicQueues topic_queues
        cdef PartitionQueue queue
        cdef Py_ssize_t number
        topic_queues = self._find(topic)
        if topic_queues is None:
            if partition is not None:
                partition = partition_number(partition)
            return Blocked(topic, partition, None, timestamp, key, value, headers)
        if partition is not None:
            number = number_of(partition)
        elif self._partitioner is not None:
            number = self._ask(self._partitioner, topic_queues, key)
        elif key is not None and not self._ignore_keys:
            number = <Py_ssize_t>(hash_of(key) & 0x7FFFFFFF) % topic_queues.count
        else:
            return self._append_sticky(topic_queues, timestamp, key, value, headers)
        if number >= PyList_GET_SIZE(topic_queues.queues):
            return Blocked(topic, number, None, timestamp, key, value, headers)
        queue = <PartitionQueue?><object>PyList_GET_ITEM(topic_queues.queues, number)
        ack = self._append_to(queue, timestamp, key, value, headers)
        if ack is None:
            return Blocked(topic, number, queue, timestamp, key, value, headers)
        return ack

    cdef _append_sticky(self, TopicQueues topic_queues, int64_t timestamp, key, value, headers):
        cdef PartitionQueue queue = topic_queues.sticky
        cdef ProducerBatch batch = queue.open
        if batch is not None:
            ack = batch.append_record(timestamp, key, value, headers)
            if ack is not None:
                return ack
            self.close_batch(queue)
        queue = self.next_sticky(topic_queues)
        ack = self._append_to(queue, timestamp, key, value, headers)
        if ack is None:
            return Blocked(topic_queues.topic, None, queue, timestamp, key, value, headers)
        return ack

    cdef _append_to(self, PartitionQueue queue, int64_t timestamp, key, value, headers):
        cdef ProducerBatch batch = queue.open
        if batch is not None:
            ack = batch.append_record(timestamp, key, value, headers)
            if ack is not None:
                return ack
            self.close_batch(queue)
        return self.open_batch(queue, timestamp, key, value, headers)

    _ask = _TwinCore._ask

    def next_sticky(self, topic_queues):
        raise NotImplementedError

    def close_batch(self, queue):
        raise NotImplementedError

    def open_batch(self, queue, timestamp, key, value, headers):
        raise NotImplementedError
