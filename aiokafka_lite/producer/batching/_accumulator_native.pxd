# For native callers of ``AppendCore.append``: the same, without a Python call.
from libc.stdint cimport int64_t

from aiokafka_lite.producer.batching._ack_native cimport ProducerBatch


cdef class PartitionQueue:
    cdef readonly object topic_partition
    cdef public ProducerBatch open
    cdef readonly object waiting
    cdef readonly object in_flight
    cdef public object outbox
    cdef public Py_ssize_t placed_at
    cdef public bint listed
    cdef public double muted_until
    cdef public object sequences


cdef class TopicQueues:
    cdef readonly str topic
    cdef readonly list queues
    cdef readonly Py_ssize_t count
    cdef public list available
    cdef public long long produced
    cdef readonly PartitionQueue sticky
    cdef public bint forgotten
    cdef Py_ssize_t _turn

    cpdef PartitionQueue move_on(self)


cdef class AppendCore:
    cdef readonly object loop
    cdef readonly dict topics
    cdef public object refusal
    cdef object _key_serializer
    cdef object _value_serializer
    cdef object _partitioner
    cdef bint _ignore_keys
    cdef object _last_topic  # the name that found `_last_queues`
    cdef TopicQueues _last_queues

    # Returns the record's Ack, or a Blocked.
    cdef append_fields(self, topic, value, key, partition, timestamp_ms, headers)
    cdef TopicQueues _find(self, str topic)
    cdef _append(self, str topic, partition, int64_t timestamp, key, value, headers)
    cdef _append_sticky(self, TopicQueues topic_queues, int64_t timestamp, key, value, headers)
    cdef _append_to(self, PartitionQueue queue, int64_t timestamp, key, value, headers)
