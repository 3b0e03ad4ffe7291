"""The accumulator: records in, batches out, a queue for each partition (seed 0). No socket.

What runs for every record is ``AppendCore``, native or twin, chosen here; what runs for every batch
is ``Accumulator``, the same Python over both. It takes memory for a batch and gives it back, says
which partitions have something to send, hands out their batches in order, and takes a batch back
that has to be sent again. Times are handed in (seconds of the loop's clock).

Non-obvious:
- The open batch of a partition is the last of its queue. It stays open, and grows, until the
  sender takes it: with ``linger_ms=0`` records batch up behind the requests in flight.
- All batches linger equally long, so the one that lingers longest is always the first of one list.
- While anybody waits for memory no batch lingers: what lingers is what holds the memory.
- A large batch is compressed by another thread before it is sealed; until then its partition waits
  (its order depends on it), and only its.
- Nothing here is O(partitions) but ``adopt``, which runs when metadata changes.
"""

import asyncio
import copy
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite._build import pick
from aiokafka_lite.cluster.metadata import NO_LEADER, Partition
from aiokafka_lite.errors import MessageSizeTooLargeError
from aiokafka_lite.producer.idempotence import LAST_SEQUENCE, ProducerIdentity, Sequences
from aiokafka_lite.producer.memory import MemoryPool
from aiokafka_lite.producer.options import ProducerOptions
from aiokafka_lite.producer.pieces import pieces
from aiokafka_lite.producer.sticky import stick_to_the_least_pressed
from aiokafka_lite.record.batch import BatchBuilder, record_size_upper_bound
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.producer._accumulator_python import (
        AppendCore,
        Blocked,
        PartitionQueue,
        TopicQueues,
    )
    from aiokafka_lite.producer._ack_python import Ack, ProducerBatch
else:
    _acks = pick("aiokafka_lite.producer._ack_native", "aiokafka_lite.producer._ack_python")
    _core = pick(
        "aiokafka_lite.producer._accumulator_native", "aiokafka_lite.producer._accumulator_python"
    )
    Ack, ProducerBatch = _acks.Ack, _acks.ProducerBatch
    AppendCore, Blocked = _core.AppendCore, _core.Blocked
    PartitionQueue, TopicQueues = _core.PartitionQueue, _core.TopicQueues

__all__ = ["Accumulator", "Ack", "Blocked", "PartitionQueue", "ProducerBatch", "TopicQueues"]

HEADER_SIZE: Final = 61  # of a v2 batch; also more than a v0/v1 message adds
COMPRESS_ELSEWHERE_FROM: Final = 64 * 1024
"""Bytes from which a batch is compressed outside the event loop's thread; handing a smaller one
over would cost about as much as compressing it."""


class Accumulator(AppendCore):
    """All partitions' queues of one producer.

    Args:
        loop: Whose acks these are.
        options: The producer's.
        pool: Where the batches' memory comes from.
        identity: The producer's, for the batches' sequence numbers.
        on_ready: Called with a queue that may have something to send.
        on_lingering: Called with the loop time at which the first lingering batch is due.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ProducerOptions,
        pool: MemoryPool,
        identity: ProducerIdentity,
        on_ready: Callable[[PartitionQueue], None],
        on_lingering: Callable[[float], None],
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
        """Queues that hold a batch: waiting, or in flight."""
        self.whole: set[ProducerBatch] = set()
        """Batches filled by hand: their one ack is all their records', so they are not split."""
        self._options = options
        self._on_ready = on_ready
        self._on_lingering = on_lingering
        self._granted: bytearray | None = None  # memory for the batch that is opened next
        self._lingering: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        # Numberings of forgotten partitions. The brokers remember them: numbers that began again
        # would be taken for batches that came a second time, and answered without being stored.
        self._numberings: dict[TopicPartition, Sequences] = {}
        self._newest = 0.0  # loop time of the newest batch
        # Without numbers, a second batch in flight could overtake one that is sent again. With
        # acks=0 nothing is ever sent again.
        self._unnumbered_window = options.max_in_flight if options.acks == 0 else 1

    # Records in

    def size_for(self, key: Any, value: Any, headers: Any) -> int:
        """Bytes of memory that a batch begun by this record takes.

        Raises:
            MessageSizeTooLargeError: The record can never be sent.
        """
        return self.memory_for(HEADER_SIZE + record_size_upper_bound(key, value, headers))

    def memory_for(self, size: int) -> int:
        """Bytes of memory that a batch of so many bytes takes.

        Raises:
            MessageSizeTooLargeError: It can never be sent.
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
        """Begin a batch with a record; its Ack, or None: there is no memory for it now.

        Raises:
            MessageSizeTooLargeError: The record can never be sent.
            TypeError: Of a key, value or header; the memory is given back.
        """
        buffer, self._granted = self._granted, None
        if buffer is None:
            buffer = self.pool.try_take(self.size_for(key, value, headers))
            if buffer is None:
                return None
        now = self._next_time()
        try:
            builder = BatchBuilder(len(buffer), buffer)
            batch = ProducerBatch(self.loop, queue.topic_partition, builder, buffer, now)
            ack = batch.append(timestamp, key, value, headers)
            if ack is None:
                raise RuntimeError("a record does not fit into a batch of its own")
        except BaseException:
            self.pool.give(buffer)
            raise
        queue.open = batch
        queue.waiting.append(batch)
        self.active.add(queue)
        if self._options.linger <= 0 or self.pool.waiting:
            batch.due = True
            self._on_ready(queue)
        else:
            self._lingering.append((queue, batch))
            if len(queue.waiting) > 1:
                self._on_ready(queue)
            if len(self._lingering) == 1:
                self._on_lingering(now + self._options.linger)
        return ack

    def _next_time(self) -> float:
        """The loop's time, for a batch that begins.

        Batches are told apart by their age (see `put_back`), so no two may be equally old; the
        clock of some event loops ticks in milliseconds.
        """
        now = self.loop.time()
        if now <= self._newest:
            now = math.nextafter(self._newest, math.inf)
        self._newest = now
        return now

    def append_again(self, blocked: Blocked, memory: bytearray | None = None) -> Ack | Blocked:
        """Try a blocked record once more.

        Args:
            memory: What it waited for, ``size_for`` bytes. It is given back if somebody else has
                opened a batch meanwhile that has room for the record.
        """
        self._granted = memory
        try:
            if self.refusal is not None:
                raise copy.copy(self.refusal)
            return self.append_serialized(
                blocked.topic,
                blocked.partition,
                blocked.timestamp,
                blocked.key,
                blocked.value,
                blocked.headers,
            )
        finally:
            unused, self._granted = self._granted, None
            if unused is not None:
                self.pool.give(unused)

    def add_batch(
        self, topic: str, partition: int, builder: BatchBuilder, memory: bytearray
    ) -> Ack:
        """Append a whole batch to a partition that is known; the Ack of its first record.

        Args:
            memory: What the budget counts for it, ``memory_for`` bytes; its records lie elsewhere.

        Raises:
            BaseException: The refusal; ``memory`` is given back.
        """
        if self.refusal is not None:
            self.pool.give(memory)
            raise copy.copy(self.refusal)
        queue = self.topics[topic].queues[partition]
        if queue.open is not None:
            self.close_batch(queue)
        batch = ProducerBatch(self.loop, queue.topic_partition, builder, memory, self._next_time())
        batch.due = True
        self.whole.add(batch)
        batch.watch(self.whole.discard)
        queue.waiting.append(batch)
        self.active.add(queue)
        self._on_ready(queue)
        return batch.ack(0, builder.first_timestamp)

    def close_batch(self, queue: PartitionQueue) -> None:
        """The open batch is full: it takes no more records and may leave at once."""
        queue.open = None
        self._on_ready(queue)

    def _cut_short(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The open batch leaves before it is full."""
        queue.open = None
        topic_queues = self.topics.get(queue.topic_partition.topic)
        if topic_queues is not None and topic_queues.sticky is queue:
            topic_queues.produced += batch.builder.size

    # Partitions

    def next_sticky(self, topic_queues: TopicQueues) -> PartitionQueue:
        """The partition to stick to, now that the sticky one has no batch open (KIP-794).

        The same, until a batch's worth of bytes went there: how often batches leave early depends
        on the broker, and a slow one must not be given more for it.
        """
        sticky, options = topic_queues.sticky, self._options
        if not sticky.waiting and topic_queues.produced < options.max_batch_size:
            return sticky
        topic_queues.produced = 0
        if not options.adaptive:
            return topic_queues.move_on()
        return stick_to_the_least_pressed(
            topic_queues, self.loop.time(), options.availability_timeout
        )

    # Time

    def on_lingered(self, now: float) -> float | None:
        """Let batches go that have lingered long enough; the time of the next one, if any."""
        while self._lingering:
            queue, batch = self._lingering[0]
            if queue.open is batch:
                due_at = batch.created + self._options.linger
                if due_at > now:
                    return due_at
                batch.due = True
                self._on_ready(queue)
            self._lingering.popleft()
        return None

    def hurry(self) -> None:
        """Let no batch linger that is open now."""
        while self._lingering:
            queue, batch = self._lingering.popleft()
            if queue.open is batch:
                batch.due = True
                self._on_ready(queue)

    def unresolved(self) -> Iterator[ProducerBatch]:
        """All batches that have no outcome yet."""
        for queue in self.active:
            yield from (batch for batch in queue.in_flight if not batch.done)
            yield from queue.waiting

    def overdue(self, now: float) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches whose ``delivery_timeout_ms`` is over."""
        created = now - self._options.delivery_timeout
        late = []
        for queue in self.active:
            # One that was put back is older than those in flight: each of the two has its order.
            for batches in (queue.in_flight, queue.waiting):
                for batch in batches:
                    if batch.created > created:
                        break
                    if not batch.done:
                        late.append((queue, batch))
        return late

    # Batches out

    def sendable(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the first waiting batch of a partition may be sent at this moment."""
        if not queue.waiting or now < queue.muted_until or not self.identity.settled:
            return False
        batch = queue.waiting[0]
        if batch.compressing or (batch is queue.open and not batch.due):
            return False
        if not queue.in_flight:
            return True
        if not self.identity.numbering:
            return len(queue.in_flight) < self._unnumbered_window
        # A batch that is sent again goes alone, so that those behind it cannot be refused for it.
        sequences = queue.sequences
        if batch.attempts or sequences is None or sequences.stale or not sequences.confirmed:
            return False
        return len(queue.in_flight) < self._options.max_in_flight

    def seal(self, queue: PartitionQueue) -> ProducerBatch:
        """Close the first waiting batch of a partition and make its bytes; it stays where it is."""
        batch = queue.waiting[0]
        if batch is queue.open:
            self._cut_short(queue, batch)
        numbered = self.identity.numbering and self._number(queue, batch)
        if batch.payload is None or numbered:
            producer_id, epoch = batch.producer or (-1, -1)
            batch.payload = batch.builder.seal(
                self._options.compression,
                self._options.compression_level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.base_sequence,
            )
            batch.size = len(batch.payload)
        return batch

    def compress_elsewhere(self, queue: PartitionQueue) -> bool:
        """Have another thread compress the first waiting batch, if it is large; whether it does.

        The batch is closed, and not sendable until then. Should it be resolved meanwhile (it is
        overdue, or the producer stops), its buffer may be reused under the thread's hands: what
        comes out is thrown away.
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
        if batch is queue.open:
            self._cut_short(queue, batch)
        batch.compressing = True
        work = self.loop.run_in_executor(
            None, batch.builder.seal, options.compression, options.compression_level
        )
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
            batch.last_error = error  # sealing it here and now will tell the same, or succeed
        else:
            batch.payload = work.result()
            batch.size = len(batch.payload)
        self._on_ready(queue)

    def _number(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Give the batch a number of the partition's present numbering; whether it had none."""
        sequences = queue.sequences
        if sequences is None:
            kept = self._numberings.pop(queue.topic_partition, None)
            sequences = queue.sequences = kept or Sequences(self.identity)
        if sequences.stale:
            if batch.may_be_stored and not sequences.broken and batch.producer == sequences.stamp:
                return False  # the id changed for another partition's sake: ask under the old one
            sequences.restart()
        if batch.producer == sequences.stamp:
            return False
        batch.producer = sequences.stamp
        batch.base_sequence = sequences.take(batch.remaining)
        return True

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Move the first waiting batch, which is sealed, to those in flight."""
        batch = queue.waiting.popleft()
        batch.attempts += 1
        queue.in_flight.append(batch)
        return batch

    def land(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch is no longer in flight: its request was answered, or never will be."""
        queue.in_flight.remove(batch)
        self._maybe_idle(queue)

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Wait again, before everything that was sent, or came, after it."""
        self.active.add(queue)
        place = 0
        for other in queue.waiting:
            if other.created > batch.created or not other.attempts:
                break
            place += 1
        queue.waiting.insert(place, batch)

    # Outcomes

    def acknowledge(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
        woken: list[ProducerBatch] | None = None,
    ) -> None:
        """The broker stored it; its memory is free. If it goes in pieces, the next one is next.

        Args:
            woken: Gets the batch, if those who wait for it are to be woken: by whoever calls, as
                soon as nothing is half done. None: the loop wakes them in its next pass.
        """
        if batch.pieces is not None:
            sequence = (batch.base_sequence + batch.count) & LAST_SEQUENCE
            self._settle_piece(
                queue, batch, sequence, base_offset, log_append_time, log_start_offset
            )
            return
        buffer = batch.buffer
        batch.acknowledge(base_offset, log_append_time, log_start_offset, woken)
        self._recycle(buffer)

    def confirm_sent(self, batch: ProducerBatch) -> None:
        """It was written with acks=0; its memory is free."""
        buffer = batch.buffer
        batch.confirm_sent()
        self._recycle(buffer)

    def fail_piece(self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException) -> None:
        """The present piece is refused for good; the next one takes its place, and its number."""
        self._settle_piece(queue, batch, batch.base_sequence, -1, -1, -1, error)

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
        else:
            self._recycle(buffer)

    def split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The broker finds the batch too large: send it in pieces of half that size (KIP-126).

        They go one after the other, in the batch's place and under its numbers. Their memory is
        their own; the budget goes on counting the batch's.
        """
        limit = batch.builder.size // 2
        batch.split(pieces([batch.builder, *batch.rest], queue.topic_partition, limit))
        self.put_back(queue, batch)

    def fail(self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException) -> None:
        """It will not be sent (again); its memory is free."""
        if batch is queue.open:
            queue.open = None
        if batch in queue.waiting:
            queue.waiting.remove(batch)
        buffer = batch.buffer
        batch.fail(error)
        self._recycle(buffer)
        self._maybe_idle(queue)

    def _recycle(self, buffer: bytearray | None) -> None:
        if buffer is not None:
            self.pool.give(buffer)

    def _maybe_idle(self, queue: PartitionQueue) -> None:
        if queue.empty:
            self.active.discard(queue)

    # Topics

    def adopt(self, topic: str, partitions: Mapping[int, Partition]) -> TopicQueues:
        """Know a topic's partitions, and which of them have a leader."""
        count = max(partitions) + 1
        queues = self.topics.get(topic)
        if queues is not None and count < len(queues.queues):
            self.forget(topic)  # deleted, and made again with fewer
            queues = self.topics.get(topic)
        if queues is None:
            queues = TopicQueues(topic, count, random.randrange(count))
            self.topics[topic] = queues
        else:
            queues.grow(count)
        queues.available = sorted(
            number for number, known in partitions.items() if known.leader != NO_LEADER
        )
        if queues.sticky.topic_partition.partition >= count:
            queues.move_on()  # made again with fewer, while something was queued
        return queues

    def forget(self, topic: str) -> None:
        """A topic that nothing is queued for; a record sent to it makes it known again."""
        queues = self.topics.get(topic)
        if queues is not None and all(queue.empty for queue in queues.queues):
            del self.topics[topic]
            for queue in queues.queues:
                if queue.sequences is not None:
                    self._numberings[queue.topic_partition] = queue.sequences
