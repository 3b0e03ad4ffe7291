# cython: language_level=3, freethreading_compatible=True
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native code that runs once for every batch. The Python twin is its specification."""

from cpython.bytearray cimport PyByteArray_GET_SIZE
from libc.math cimport INFINITY, nextafter
from libc.stdint cimport int64_t

from aiokafka_lite.producer.batching._accumulator_native cimport AppendCore, PartitionQueue, TopicQueues
from aiokafka_lite.producer.batching._ack_native cimport ProducerBatch
from aiokafka_lite.record._batch_native cimport BatchBuilder, record_size_upper_bound

from collections import deque
from random import random

from aiokafka_lite.producer.batching._batches_python import BatchCore as _Twin
from aiokafka_lite.producer.batching.sticky_partitioning import CANDIDATES as _CANDIDATES
from aiokafka_lite.record.compression import Compression

cdef Py_ssize_t CANDIDATES = _CANDIDATES
cdef object _leave_sticky = _Twin.leave_sticky

DEF HEADER = 61
DEF PENDING = 0


cdef class BatchCore(AppendCore):
    __doc__ = _Twin.__doc__

    cdef readonly object pool
    cdef readonly object identity
    cdef readonly set active
    cdef public bint watched
    cdef public object _options
    cdef public object _on_ready
    cdef public object _on_opened
    cdef public object _on_lingering
    cdef public object _on_held
    cdef public object _granted
    cdef public object _lingering
    cdef public dict _numberings
    cdef double _newest
    cdef Py_ssize_t _unnumbered_window
    # Options, as C values:
    cdef double _linger
    cdef Py_ssize_t _most  # bytes of a record's batch
    cdef Py_ssize_t _poolable
    cdef Py_ssize_t _batch_size
    cdef Py_ssize_t _max_request_size
    cdef Py_ssize_t _max_in_flight
    cdef object _compression
    cdef object _level
    cdef bint _compressed
    cdef bint _adaptive
    cdef bint _availability  # True if partitions of unresponsive brokers are avoided
    cdef list _pooled  # the pool's own
    cdef object _waiters

    def __init__(self, loop, options, pool, identity, on_ready, on_opened, on_lingering, on_held):
        AppendCore.__init__(
            self,
            loop,
            options.key_serializer,
            options.value_serializer,
            options.partitioner,
            options.ignore_keys,
        )
        self.pool = pool
        self.identity = identity
        self.active = set()
        self._options = options
        self._on_ready = on_ready
        self._on_opened = on_opened
        self._batch_size = options.max_batch_size
        self._on_lingering = on_lingering
        self._on_held = on_held
        self._lingering = deque()
        self._numberings = {}
        self._unnumbered_window = options.max_in_flight if options.acks == 0 else 1
        self._linger = options.linger
        self._most = min(options.max_request_size, pool.total)
        self._poolable = pool.poolable_size
        self._max_request_size = options.max_request_size
        self._max_in_flight = options.max_in_flight
        self._compression = options.compression
        self._level = options.compression_level
        self._compressed = self._compression is not Compression.NONE
        self._adaptive = options.adaptive
        self._availability = options.availability_timeout > 0
        self._pooled = pool.pooled
        self._waiters = pool.waiters

    # Records in

    def size_for(self, key, value, headers):
        return self.memory_for(HEADER + record_size_upper_bound(key, value, headers))

    memory_for = _Twin.memory_for

    def open_batch(self, PartitionQueue queue not None, int64_t timestamp, key, value, headers):
        cdef Py_ssize_t size
        cdef ProducerBatch batch
        cdef bytearray buffer
        cdef double now
        buffer = self._granted
        self._granted = None
        if buffer is None:
            size = HEADER + record_size_upper_bound(key, value, headers)
            if size > self._most:
                self.memory_for(size)  # raises an error that names the limit
            # `try_take` without its call, unless headers have just ended the producer.
            if (
                size <= self._poolable and self._pooled and not self._waiters
                and self.refusal is None
            ):
                buffer = self._pooled.pop()
            else:
                buffer = self.pool.try_take(max(size, self._poolable))
                if buffer is None:
                    return None
        now = self.next_time()
        try:
            builder = BatchBuilder(PyByteArray_GET_SIZE(buffer), buffer)
            batch = ProducerBatch(self.loop, queue.topic_partition, builder, buffer, now)
            ack = batch.append_record(timestamp, key, value, headers)
            if ack is None:
                raise RuntimeError("a record does not fit into a batch of its own")
        except BaseException:
            self.pool.give(buffer)
            raise
        queue.open = batch
        queue.waiting.append(batch)
        self._hold(queue)
        if self._linger <= 0 or self.pool.waiting:
            batch.due = True
            self._on_opened(queue)
        else:
            self._lingering.append((queue, batch))
            if not queue.listed and len(queue.waiting) > 1:
                self._on_ready(queue)
            if len(self._lingering) == 1:
                self._on_lingering(now + self._linger)
        return ack

    def hold(self, PartitionQueue queue not None):
        self._hold(queue)

    cdef inline int _hold(self, PartitionQueue queue) except -1:
        self.active.add(queue)
        if not self.watched:
            self.watched = True
            self._on_held()
        return 0

    cpdef double next_time(self) except -1:
        cdef double now = self.loop.time()
        if now <= self._newest:
            now = nextafter(self._newest, INFINITY)
        self._newest = now
        return now

    def next_sticky(self, TopicQueues topic_queues not None):
        cdef PartitionQueue sticky = topic_queues.sticky
        if not sticky.waiting and topic_queues.produced < self._batch_size:
            return sticky
        return self.leave_sticky(topic_queues)

    cpdef PartitionQueue leave_sticky(self, TopicQueues topic_queues):
        cdef PartitionQueue chosen, other
        cdef Py_ssize_t found, pressure, count, at
        if self._availability:
            return _leave_sticky(self, topic_queues)
        topic_queues.produced = 0
        chosen = topic_queues.move_on()
        if not self._adaptive:
            return chosen
        # `stick_to_the_least_pressed`, where no broker is avoided.
        found = len(chosen.waiting)
        available = topic_queues.available
        count = len(available) or topic_queues.count
        for _ in range(CANDIDATES - 1):
            if not found:
                break
            at = <Py_ssize_t>(<double>random() * count)
            other = topic_queues.queues[available[at] if available else at]
            pressure = len(other.waiting)
            if pressure < found:
                chosen, found = other, pressure
        topic_queues.stick_to(chosen)
        return chosen

    def close_batch(self, PartitionQueue queue not None):
        queue.open = None
        if not queue.listed:
            self._on_ready(queue)

    cpdef cut_short(self, PartitionQueue queue, ProducerBatch batch):
        cdef TopicQueues topic_queues
        queue.open = None
        found = self.topics.get(queue.topic_partition[0])
        if found is not None:
            topic_queues = found
            if topic_queues.sticky is queue:
                topic_queues.produced += batch.builder.size

    # Batches out

    def collect(self, ready not None, double now):
        cdef list parts = []
        cdef list unsendable = []
        cdef list more = []
        cdef Py_ssize_t size = 0
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        while ready:
            queue = ready.popleft()
            queue.listed = False
            if not self._sendable(queue, now):
                continue
            try:
                if self._compressed and self.compress_elsewhere(queue):
                    continue
                batch = self._seal(queue)
            except Exception as error:
                unsendable.append((queue, queue.waiting[0], error))
                continue
            if parts and size + batch.size > self._max_request_size:
                queue.listed = True
                ready.appendleft(queue)
                break
            parts.append((queue, self.take(queue)))
            size += batch.size
            if queue.waiting:
                more.append(queue)
        for queue in more:
            if not queue.listed and self._sendable(queue, now):
                queue.listed = True
                ready.append(queue)
        return parts, unsendable

    def sendable(self, PartitionQueue queue not None, double now):
        return self._sendable(queue, now)

    cdef bint _sendable(self, PartitionQueue queue, double now) except -1:
        cdef ProducerBatch batch
        if not queue.waiting or now < queue.muted_until:
            return False
        identity = self.identity
        if not identity.settled:
            return False
        batch = queue.waiting[0]
        if batch.compressing or (batch is queue.open and not batch.due):
            return False
        if not queue.in_flight:
            return True
        if not identity.numbering:
            return len(queue.in_flight) < self._unnumbered_window
        sequences = queue.sequences
        if batch.attempts or sequences is None or not sequences.confirmed or self._stale(sequences):
            return False
        return len(queue.in_flight) < self._max_in_flight

    cdef inline bint _stale(self, sequences) except -1:
        """``sequences.stale``, without the property's call."""
        return sequences.broken or sequences.stamp[0] != self.identity.producer_id

    def seal(self, PartitionQueue queue not None):
        return self._seal(queue)

    cdef ProducerBatch _seal(self, PartitionQueue queue):
        cdef ProducerBatch batch = queue.waiting[0]
        cdef bint numbered
        if batch is queue.open:
            self.cut_short(queue, batch)
        numbered = self.identity.numbering and self._take_number(queue, batch)
        if batch.payload is None or numbered:
            producer_id, epoch = (-1, -1) if batch.producer is None else batch.producer
            batch.payload = batch.builder.seal(
                self._compression,
                self._level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.base_sequence,
                transactional=self.identity.transactional,
            )
            batch.size = len(batch.payload)
        return batch

    cdef bint _take_number(self, PartitionQueue queue, ProducerBatch batch) except -1:
        """``_number``, in short for a new batch behind others of the same numbering."""
        sequences = queue.sequences
        if sequences is None or batch.producer is not None or batch.rest or self._stale(sequences):
            return self._number(queue, batch)
        batch.producer = sequences.stamp
        batch.base_sequence = sequences.take(batch.builder.count)
        return True

    _number = _Twin._number

    cpdef ProducerBatch take(self, PartitionQueue queue):
        cdef ProducerBatch batch = queue.waiting.popleft()
        batch.attempts += 1
        queue.in_flight.append(batch)
        return batch

    # Outcomes

    cpdef land(self, PartitionQueue queue, ProducerBatch batch):
        in_flight = queue.in_flight
        if in_flight and in_flight[0] is batch:
            in_flight.popleft()
        else:
            in_flight.remove(batch)
        self.maybe_idle(queue)

    cpdef maybe_idle(self, PartitionQueue queue):
        if not queue.waiting and not queue.in_flight:
            self.active.discard(queue)

    def store(
        self, PartitionQueue queue not None, ProducerBatch batch not None, int64_t base_offset,
        int64_t log_append_time, int64_t log_start_offset, list woken,
    ):
        self.land(queue, batch)
        if batch.producer is not None and not queue.sequences.confirmed:
            queue.sequences.on_stored(batch.producer, batch.base_sequence)
        if batch.state == PENDING:
            self._acknowledge(
                queue, batch, base_offset, log_append_time, log_start_offset, woken
            )
        if queue.waiting:
            self._on_ready(queue)

    go_on = _Twin.go_on

    def acknowledge(
        self, PartitionQueue queue not None, ProducerBatch batch not None, int64_t base_offset,
        int64_t log_append_time, int64_t log_start_offset, list woken=None,
    ):
        self._acknowledge(queue, batch, base_offset, log_append_time, log_start_offset, woken)

    cdef _acknowledge(
        self, PartitionQueue queue, ProducerBatch batch, int64_t base_offset,
        int64_t log_append_time, int64_t log_start_offset, list woken,
    ):
        if batch.pieces is not None:
            self.settle_piece(queue, batch, base_offset, log_append_time, log_start_offset)
            return
        buffer = batch.buffer
        batch.acknowledge(base_offset, log_append_time, log_start_offset, woken)
        if buffer is None:
            return
        if PyByteArray_GET_SIZE(<bytearray?>buffer) == self._poolable and not self._waiters:
            self._pooled.append(buffer)  # `give`, without its call
        else:
            self.pool.give(buffer)

    # Rare cases

    add_open = _Twin.add_open
    compress_elsewhere = _Twin.compress_elsewhere
    _on_compressed = _Twin._on_compressed
    put_back = _Twin.put_back
    settle_piece = _Twin.settle_piece
    _settle_piece = _Twin._settle_piece
