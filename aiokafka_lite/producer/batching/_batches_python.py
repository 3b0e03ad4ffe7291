"""Code that runs once per batch, from its first record to its outcome: the readable specification.

`BatchCore` opens batches, decides which partitions may send one, returns them in order, and
resolves those that the broker stored. Without a native twin, a small batch would cost more than its
records. `accumulator.Accumulator` extends it with what callers do between batches.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aiokafka_lite._threads import codec_threads
from aiokafka_lite.errors import MessageSizeTooLargeError
from aiokafka_lite.producer.batching._accumulator_python import (
    AppendCore,
    PartitionQueue,
    TopicQueues,
)
from aiokafka_lite.producer.batching._ack_python import Ack, ProducerBatch
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.batching.sticky_partitioning import stick_to_the_least_pressed
from aiokafka_lite.producer.idempotence import LAST_SEQUENCE, ProducerIdentity, Sequences
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.record.batch import BatchBuilder, record_size_upper_bound
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import TopicPartition

__all__ = ["HEADER_SIZE", "BatchCore"]

COMPRESS_ELSEWHERE_FROM: Final = 64 * 1024
"""Bytes from which a batch is compressed outside the event loop's thread. For a smaller one, the
handover would cost about as much as the compression."""
COMPRESS_FAST_ELSEWHERE_FROM: Final = 256 * 1024
"""The same for the fast codecs (see `fast`). They compress that many bytes in a fraction of a
millisecond, and the thread's system calls would cost as much again."""
HEADER_SIZE: Final = 61  # of a v2 batch; also more than a v0/v1 message adds


def fast(codec: Compression, level: int | None) -> bool:
    """True if a codec compresses about a GB per second at this level."""
    return codec is Compression.SNAPPY or (codec is Compression.LZ4 and (level or 0) < _LZ4_HC)


_LZ4_HC: Final = 2  # this level and higher ones use other, far slower algorithms


class BatchCore(AppendCore):
    """The common path of one producer's batches.

    Args:
        loop: The producer's event loop.
        options: The producer's options.
        pool: Provides the batches' memory.
        identity: The producer's identity, for the batches' sequence numbers.
        on_ready: Called with a queue that may have something to send.
        on_opened: Likewise for a batch that was just opened; the call may send it.
        on_lingering: Called with the loop time at which the first lingering batch is due.
        on_held: Called when a queue holds a batch and `watched` was False; it has then been set.

    Attributes:
        active: Queues that hold a batch, waiting or in flight. Only `hold` adds to it.
        watched: True if a timer checks `active` for overdue batches. The owner of that timer
            clears it, and only while `active` is empty.
        led: The partitions with a leader by topic, if some of them are preferred for their rack.
            The accumulator sets it: the native twin has no such attribute.
    """

    led: dict[str, list[int]]

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ProducerOptions,
        pool: MemoryPool,
        identity: ProducerIdentity,
        on_ready: Callable[[PartitionQueue], None],
        on_opened: Callable[[PartitionQueue], None],
        on_lingering: Callable[[float], None],
        on_held: Callable[[], None],
    ) -> None:
        super().__init__(
            loop,
            options.key_serializer,
            options.value_serializer,
            options.partitioner,
            options.ignore_keys,
        )
        self.pool = pool
        self.identity = identity
        self.active: set[PartitionQueue] = set()
        self.watched = False
        self._options = options
        self._on_ready = on_ready
        self._on_opened = on_opened
        self._on_lingering = on_lingering
        self._on_held = on_held
        self._granted: bytearray | None = None  # memory for the batch that is opened next
        self._lingering: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        # Numberings of dropped partitions. The brokers keep them: if the numbers started over, the
        # brokers would treat the batches as duplicates, which they acknowledge but do not store.
        self._numberings: dict[TopicPartition, Sequences] = {}
        self._newest = 0.0  # loop time of the newest batch
        # Without numbers, a second batch in flight could overtake one that is retried. With
        # acks=0 nothing is ever retried.
        self._unnumbered_window = options.max_in_flight if options.acks == 0 else 1

    # Records in

    def size_for(self, key: Any, value: Any, headers: Any) -> int:
        """Return the bytes of memory for a batch that this record begins.

        Raises:
            MessageSizeTooLargeError: The record can never be sent.
        """
        return self.memory_for(HEADER_SIZE + record_size_upper_bound(key, value, headers))

    def memory_for(self, size: int) -> int:
        """Return the bytes of memory for a batch of `size` bytes.

        Raises:
            MessageSizeTooLargeError: The batch can never be sent.
        """
        limit = self._options.max_request_size
        if size > limit:
            raise MessageSizeTooLargeError(
                f"The message is {size} bytes when serialized, which is larger than the maximum "
                f"request size of {limit} bytes (max_request_size)"
            )
        if size > self.pool.total:
            raise MessageSizeTooLargeError(
                f"The message is {size} bytes when serialized, which is larger than all memory "
                f"of the producer, {self.pool.total} bytes (buffer_memory)"
            )
        return max(size, self.pool.poolable_size)

    def open_batch(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Any,
    ) -> Ack | None:
        """Begin a batch with a record; return its Ack, or None if no memory is free.

        Raises:
            MessageSizeTooLargeError: The record can never be sent.
            TypeError: A key, value or header has the wrong type; the memory is given back.
        """
        buffer, self._granted = self._granted, None
        if buffer is None:
            buffer = self.pool.try_take(self.size_for(key, value, headers))
            if buffer is None:
                return None
        now = self.next_time()
        try:
            builder = BatchBuilder(len(buffer), buffer)
            batch = ProducerBatch(self.loop, queue.topic_partition, builder, buffer, now)
            ack = batch.append(timestamp, key, value, headers)
            if ack is None:
                raise RuntimeError("a record does not fit into a batch of its own")
        except BaseException:
            self.pool.give(buffer)
            raise
        self.add_open(queue, batch)
        return ack

    def hold(self, queue: PartitionQueue) -> None:
        """Add a queue that holds a batch to `active`.

        Nothing else adds to `active`, so a timer finds every batch once it is overdue, whatever
        keeps it from being sent.
        """
        self.active.add(queue)
        if not self.watched:
            self.watched = True
            self._on_held()

    def next_time(self) -> float:
        """Return the loop's time for a new batch.

        Batches are ordered by their age (see `put_back`), so no two may be equally old; the
        clock of some event loops ticks in milliseconds.
        """
        now = self.loop.time()
        if now <= self._newest:
            now = math.nextafter(self._newest, math.inf)
        self._newest = now
        return now

    def next_sticky(self, topic_queues: TopicQueues) -> PartitionQueue:
        """Return the sticky partition for the next batch (KIP-794).

        It stays the same until it has received a batch's worth of bytes. How often batches leave
        early depends on the broker, and a slow broker must not receive more because of it.
        """
        sticky = topic_queues.sticky
        if not sticky.waiting and topic_queues.produced < self._options.max_batch_size:
            return sticky
        return self.leave_sticky(topic_queues)

    def close_batch(self, queue: PartitionQueue) -> None:
        """Close the open batch, which is full; it may be sent at once.

        The outbox of a queue that is listed was woken when it was listed.
        """
        queue.open = None
        if not queue.listed:
            self._on_ready(queue)

    def cut_short(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Close the open batch before it is full."""
        queue.open = None
        topic_queues = self.topics.get(queue.topic_partition.topic)
        if topic_queues is not None and topic_queues.sticky is queue:
            topic_queues.produced += batch.builder.size

    # Batches out

    def collect(
        self, ready: "deque[PartitionQueue]", now: float
    ) -> tuple[
        list[tuple[PartitionQueue, ProducerBatch]],
        list[tuple[PartitionQueue, ProducerBatch, BaseException]],
    ]:
        """Take one batch of every ready partition, as many as fit into a request.

        Args:
            ready: Partitions that may have something to send, each `listed`. Those that have
                more batches, or whose batch did not fit, stay in it.
            now: Loop time.

        Returns:
            The batches, in flight now; and those that cannot be serialized, which still wait, each
            with its error. The caller fails the latter.
        """
        parts: list[tuple[PartitionQueue, ProducerBatch]] = []
        unsendable: list[tuple[PartitionQueue, ProducerBatch, BaseException]] = []
        more: list[PartitionQueue] = []
        size = 0
        compressed = self._options.compression is not Compression.NONE
        while ready:
            queue = ready.popleft()
            queue.listed = False
            if not self.sendable(queue, now):
                continue
            try:
                if compressed and self.compress_elsewhere(queue):
                    continue
                batch = self.seal(queue)
            except Exception as error:  # of a codec's library, for example: only this batch fails
                unsendable.append((queue, queue.waiting[0], error))
                continue
            if parts and size + batch.size > self._options.max_request_size:
                queue.listed = True
                ready.appendleft(queue)
                break
            parts.append((queue, self.take(queue)))
            size += batch.size
            if queue.waiting:
                more.append(queue)
        for queue in more:
            if not queue.listed and self.sendable(queue, now):
                queue.listed = True
                ready.append(queue)
        return parts, unsendable

    def sendable(self, queue: PartitionQueue, now: float) -> bool:
        """True if the first waiting batch of a partition may be sent now."""
        if not queue.waiting or now < queue.muted_until or not self.identity.settled:
            return False
        batch = queue.waiting[0]
        if batch.compressing or (batch is queue.open and not batch.due):
            return False
        if not queue.in_flight:
            return True
        if not self.identity.numbering:
            return len(queue.in_flight) < self._unnumbered_window
        # A retried batch is sent alone, so that the batches behind it are not refused because of
        # it.
        sequences = queue.sequences
        if batch.attempts or sequences is None or sequences.stale or not sequences.confirmed:
            return False
        return len(queue.in_flight) < self._options.max_in_flight

    def seal(self, queue: PartitionQueue) -> ProducerBatch:
        """Close the first waiting batch of a partition and serialize it; it stays in the queue."""
        batch = queue.waiting[0]
        if batch is queue.open:
            self.cut_short(queue, batch)
        numbered = self.identity.numbering and self._number(queue, batch)
        if batch.payload is None or numbered:
            producer_id, epoch = batch.producer or (-1, -1)
            batch.payload = batch.builder.seal(
                self._options.compression,
                self._options.compression_level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.base_sequence,
                transactional=self.identity.transactional,
            )
            batch.size = len(batch.payload)
        return batch

    def _number(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Number the batch in the partition's current numbering; True if its number is new."""
        sequences = queue.sequences
        if sequences is None:
            kept = self._numberings.pop(queue.topic_partition, None)
            sequences = queue.sequences = kept or Sequences(self.identity)
        if sequences.stale:
            if batch.may_be_stored and not sequences.broken and batch.producer == sequences.stamp:
                return False  # the id changed because of another partition: retry under the old one
            sequences.restart()
        if batch.producer == sequences.stamp:
            return False
        batch.producer = sequences.stamp
        batch.base_sequence = sequences.take(batch.remaining)
        return True

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Move the first waiting batch, which must be sealed, to those in flight."""
        batch = queue.waiting.popleft()
        batch.attempts += 1
        queue.in_flight.append(batch)
        return batch

    # Outcomes

    def land(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Take a batch out of flight: its request was answered, or never will be."""
        queue.in_flight.remove(batch)
        self.maybe_idle(queue)

    def maybe_idle(self, queue: PartitionQueue) -> None:
        """Drop an empty queue."""
        if queue.empty:
            self.active.discard(queue)

    def store(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        woken: list[ProducerBatch],
    ) -> None:
        """The broker stored a batch in flight. See `acknowledge`."""
        self.land(queue, batch)
        if batch.producer is not None:
            queue.sequences.on_stored(batch.producer, batch.base_sequence)
        if not batch.done:
            self.acknowledge(queue, batch, base_offset, log_append_time, log_start_offset, woken)
        self.go_on(queue)

    def go_on(self, queue: PartitionQueue) -> None:
        """The next batch of a partition may be sent now, if it has one."""
        if queue.waiting:
            self._on_ready(queue)

    def acknowledge(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        woken: list[ProducerBatch] | None = None,
    ) -> None:
        """Resolve a stored batch and free its memory; if it is in pieces, settle the current piece.

        Args:
            woken: The batch is appended to it if it has waiters. The caller must wake them as
                soon as all state is consistent. None: the loop wakes them in its next iteration.
        """
        if batch.pieces is not None:
            self.settle_piece(queue, batch, base_offset, log_append_time, log_start_offset)
            return
        buffer = batch.buffer
        batch.acknowledge(base_offset, log_append_time, log_start_offset, woken)
        if buffer is not None:
            self.pool.give(buffer)

    # Rare cases, which the native twin borrows

    def leave_sticky(self, topic_queues: TopicQueues) -> PartitionQueue:
        """Stick to another partition and return it."""
        options = self._options
        topic_queues.produced = 0
        if not options.adaptive:
            return topic_queues.move_on()
        return stick_to_the_least_pressed(
            topic_queues,
            self.loop.time(),
            options.availability_timeout,
            self.led.get(topic_queues.topic, ()),
        )

    def add_open(self, queue: PartitionQueue, batch: ProducerBatch, full: bool = False) -> None:
        """Queue a new batch; unless it is full, it may take more records.

        The partition must have no open batch.
        """
        queue.open = batch
        queue.waiting.append(batch)
        self.hold(queue)
        if full:
            self.close_batch(queue)
        elif self._options.linger <= 0 or self.pool.waiting:
            batch.due = True
            self._on_opened(queue)
        else:
            self._lingering.append((queue, batch))
            if not queue.listed and len(queue.waiting) > 1:
                self._on_ready(queue)
            if len(self._lingering) == 1:
                self._on_lingering(batch.created + self._options.linger)

    def compress_elsewhere(self, queue: PartitionQueue) -> bool:
        """Compress the first waiting batch in a thread if it is large; True if that was started.

        The batch is closed, and not sendable until the thread is done. If it is resolved meanwhile
        (it is overdue, or the producer stops), its buffer may be reused while the thread reads it:
        the result is discarded.
        """
        batch = queue.waiting[0]
        options = self._options
        if (
            options.compression is Compression.NONE
            or batch.payload is not None
            or batch.last_error is not None
            or batch.builder.size < COMPRESS_ELSEWHERE_FROM
        ):
            return False
        if (
            fast(options.compression, options.compression_level)
            and batch.builder.size < COMPRESS_FAST_ELSEWHERE_FROM
        ):
            return False
        if batch is queue.open:
            self.cut_short(queue, batch)
        batch.compressing = True
        producer_id, epoch = batch.producer or (-1, -1)  # a piece has its number already
        seal = partial(
            batch.builder.seal,
            options.compression,
            options.compression_level,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.base_sequence,
            transactional=self.identity.transactional,
        )
        work = codec_threads.run(self.loop, seal)
        work.add_done_callback(partial(self._on_compressed, queue, batch))
        return True

    def _on_compressed(
        self, queue: PartitionQueue, batch: ProducerBatch, work: "asyncio.Future[Any]"
    ) -> None:
        batch.compressing = False
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if batch.done:
            return
        if error is not None:
            batch.last_error = error  # sealing it in this thread raises the same, or succeeds
        else:
            batch.payload = work.result()
            batch.size = len(batch.payload)
        self._on_ready(queue)

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Queue a batch again, before all batches that were sent or opened after it."""
        self.hold(queue)
        place = 0
        for other in queue.waiting:
            if other.created > batch.created or not other.attempts:
                break
            place += 1
        queue.waiting.insert(place, batch)

    def settle_piece(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
    ) -> None:
        """The broker stored a piece of a batch."""
        sequence = (batch.base_sequence + batch.count) & LAST_SEQUENCE
        self._settle_piece(queue, batch, sequence, base_offset, log_append_time, log_start_offset)

    def _settle_piece(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        next_sequence: int,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        error: BaseException | None = None,
    ) -> None:
        buffer = batch.buffer
        if batch.settle_piece(base_offset, log_append_time, log_start_offset, error):
            if batch.producer is not None:
                batch.base_sequence = next_sequence
            self.put_back(queue, batch)
        elif buffer is not None:
            self.pool.give(buffer)
