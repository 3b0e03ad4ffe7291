"""The accumulator: records in, batches out, a queue for each partition (seed 0). No socket.

What runs for every record is `AppendCore`, for every batch `BatchCore`, each native or a
twin, chosen here. `Accumulator`, the same Python over both, is the rest: it lets batches go that
have lingered, takes a batch back that has to be sent again, takes one apart that is too large, and
fails what is not sent. Times are handed in (seconds of the loop's clock).

Non-obvious:
- The open batch of a partition is the last of its queue. It stays open, and grows, until the
  sender takes it: with `linger_ms=0` records batch up behind the requests in flight.
- All batches linger equally long, so the one that lingers longest is always the first of one list.
- While anybody waits for memory no batch lingers: what lingers is what holds the memory.
- A large batch is compressed by another thread before it is sealed; until then its partition waits
  (its order depends on it), and only its.
- Nothing here is O(partitions) but `adopt`, which runs when metadata changes.
"""

import asyncio
import copy
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from aiokafka_lite._build import pick
from aiokafka_lite._threads import codec_threads
from aiokafka_lite.cluster.metadata import NO_LEADER, Partition
from aiokafka_lite.errors import IllegalOperation
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.batching.split import pieces
from aiokafka_lite.producer.batching.sticky_partitioning import stick_to_the_least_pressed
from aiokafka_lite.producer.idempotence import LAST_SEQUENCE, ProducerIdentity
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression

if TYPE_CHECKING:
    from aiokafka_lite.producer.batching._accumulator_python import (
        AppendCore,
        Blocked,
        PartitionQueue,
        TopicQueues,
    )
    from aiokafka_lite.producer.batching._ack_python import Ack, ProducerBatch
    from aiokafka_lite.producer.batching._batches_python import BatchCore
else:
    _acks = pick(
        "aiokafka_lite.producer.batching._ack_native",
        "aiokafka_lite.producer.batching._ack_python",
    )
    _core = pick(
        "aiokafka_lite.producer.batching._accumulator_native",
        "aiokafka_lite.producer.batching._accumulator_python",
    )
    BatchCore = pick(
        "aiokafka_lite.producer.batching._batches_native",
        "aiokafka_lite.producer.batching._batches_python",
    ).BatchCore
    Ack, ProducerBatch = _acks.Ack, _acks.ProducerBatch
    AppendCore, Blocked = _core.AppendCore, _core.Blocked
    PartitionQueue, TopicQueues = _core.PartitionQueue, _core.TopicQueues

__all__ = ["Accumulator", "Ack", "Blocked", "PartitionQueue", "ProducerBatch", "TopicQueues"]

COMPRESS_ELSEWHERE_FROM: Final = 64 * 1024
"""Bytes from which a batch is compressed outside the event loop's thread; handing a smaller one
over would cost about as much as compressing it."""


class Accumulator(BatchCore):
    """All partitions' queues of one producer.

    Args:
        loop: Whose acks these are.
        options: The producer's.
        pool: Where the batches' memory comes from.
        identity: The producer's, for the batches' sequence numbers.
        on_ready: Called with a queue that may have something to send.
        on_opened: The same, for a batch that was just begun: it may be sent inside this call.
        on_lingering: Called with the loop time at which the first lingering batch is due.
        on_held: Called when a batch is held while `watched` is False; `watched` is True then.
        on_unsendable: Called with a queue, its first waiting batch, and why that cannot be put
            into bytes.
    """

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
        on_unsendable: Callable[[PartitionQueue, ProducerBatch, BaseException], None],
    ) -> None:
        super().__init__(loop, options, pool, identity, on_ready, on_opened, on_lingering, on_held)
        self.whole: set[ProducerBatch] = set()
        """Batches filled by hand: their one ack is all their records', so they are not split."""
        self.transaction = 0
        """Counts those that were begun: what was to be sent in one is not sent in another."""
        self._on_unsendable = on_unsendable
        self._topic_ids: dict[str, UUID] = {}  # of the known topics, where it is told

    # Records in

    def append_again(
        self, blocked: Blocked, memory: bytearray | None = None, transaction: int | None = None
    ) -> Ack | Blocked:
        """Try a blocked record once more.

        Args:
            memory: What it waited for, `size_for` bytes. It is given back if somebody else has
                opened a batch meanwhile that has room for the record.
            transaction: What was open when it was tried first, if that is some time ago.

        Raises:
            BaseException: The refusal; or that transaction is over.
        """
        self._granted = memory
        try:
            self._check_open(transaction)
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

    def _check_open(self, transaction: int | None) -> None:
        if self.refusal is not None:
            raise copy.copy(self.refusal)
        if transaction is not None and transaction != self.transaction:
            raise IllegalOperation("Can't send: the transaction that this was for has ended")

    def add_batch(
        self,
        topic: str,
        partition: int,
        builder: BatchBuilder,
        memory: bytearray,
        transaction: int | None = None,
    ) -> Ack:
        """Append a whole batch to a partition that is known; the Ack of its first record.

        Args:
            memory: What the budget counts for it, `memory_for` bytes; its records lie elsewhere.
            transaction: As of `append_again`.

        Raises:
            BaseException: The refusal, or that transaction is over; `memory` is given back.
        """
        try:
            self._check_open(transaction)
        except BaseException:
            self.pool.give(memory)
            raise
        queue = self.topics[topic].queues[partition]
        if queue.open is not None:
            self.close_batch(queue)
        batch = ProducerBatch(self.loop, queue.topic_partition, builder, memory, self.next_time())
        batch.due = True
        self.whole.add(batch)
        batch.watch(self.whole.discard)
        queue.waiting.append(batch)
        self.hold(queue)
        self._on_ready(queue)
        return batch.ack(0, builder.first_timestamp)

    # Partitions

    def leave_sticky(self, topic_queues: TopicQueues) -> PartitionQueue:
        options = self._options
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

    def close_old(self, now: float) -> None:
        """Close open batches that could have been sent and are half as old as they may become.

        A record's time runs from the first record of its batch. A record that comes this late
        begins another batch, or it would fail with the old one moments after it was sent. The
        order of the partition stays as it is. Another batch takes memory, so this leaves the
        batches open while memory is short.
        """
        pool = self.pool
        if pool.waiting or pool.unused < pool.total // 2:
            return
        created = now - self._options.delivery_timeout / 2
        for queue in self.active:
            batch = queue.open
            if batch is not None and batch.due and batch.created <= created:
                self.cut_short(queue, batch)

    def overdue(self, now: float) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches whose `delivery_timeout_ms` is over."""
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
            self.cut_short(queue, batch)
        batch.compressing = True
        work = codec_threads.run(
            self.loop, batch.builder.seal, options.compression, options.compression_level
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

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Wait again, before everything that was sent, or came, after it."""
        self.hold(queue)
        place = 0
        for other in queue.waiting:
            if other.created > batch.created or not other.attempts:
                break
            place += 1
        queue.waiting.insert(place, batch)

    # Outcomes

    def on_unsendable(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException
    ) -> None:
        self._on_unsendable(queue, batch, error)

    def settle_piece(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int,
        log_append_time: int,
        log_start_offset: int,
    ) -> None:
        sequence = (batch.base_sequence + batch.count) & LAST_SEQUENCE
        self._settle_piece(queue, batch, sequence, base_offset, log_append_time, log_start_offset)

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
        self.maybe_idle(queue)

    def _recycle(self, buffer: bytearray | None) -> None:
        if buffer is not None:
            self.pool.give(buffer)

    # Topics

    def adopt(
        self, topic: str, partitions: Mapping[int, Partition], topic_id: UUID | None = None
    ) -> TopicQueues:
        """Know a topic's partitions, and which of them have a leader.

        Args:
            topic_id: None where it is not told.
        """
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
        if topic_id is not None and self._topic_ids.setdefault(topic, topic_id) != topic_id:
            self._topic_ids[topic] = topic_id
            for queue in queues.queues:
                if queue.sequences is not None:
                    queue.sequences.doubt()
        return queues

    def forget(self, topic: str) -> None:
        """A topic that nothing is queued for; a record sent to it makes it known again."""
        queues = self.topics.get(topic)
        if queues is not None and all(queue.empty for queue in queues.queues):
            del self.topics[topic]
            self._topic_ids.pop(topic, None)
            for queue in queues.queues:
                if queue.sequences is not None:
                    queue.sequences.doubt()
                    self._numberings[queue.topic_partition] = queue.sequences
