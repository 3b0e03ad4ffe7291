"""The accumulator: records in, batches out, with a queue for each partition. No socket.

`AppendCore` runs for every record, `BatchCore` for every batch; both are native or a Python twin,
chosen here. `Accumulator` is Python over either and does the rest: it releases batches that have
lingered, splits batches that are too large, fails batches that are not sent, and adopts topics.
Callers pass the time (seconds of the loop's clock).

Non-obvious:
- The open batch of a partition is the last of its queue. It stays open, and grows, until the
  sender takes it: with `linger_ms=0` records batch up behind the requests in flight.
- All batches linger equally long, so the oldest lingering batch is always the first of one list.
- While a send waits for memory no batch lingers, because lingering batches hold the memory.
- Another thread compresses a large batch before it is sealed. Until then its partition waits, to
  keep its order; other partitions do not.
- What became ready is passed to a callback at once, not returned: a timer, a codec thread or the
  end of a transaction has no caller that could pass it on, and a caller that dropped it would
  strand batches. `tests/unit/producer/test_forgotten_dispatch.py` removes each call in turn.
- Only `adopt`, which runs when metadata changes, is O(partitions).
"""

import asyncio
import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from aiokafka_lite._build import pick
from aiokafka_lite.cluster.metadata import NO_LEADER, Node, Partition
from aiokafka_lite.errors import IllegalOperation
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.batching.split import pieces
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.record.batch import BatchBuilder

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

_NO_BROKERS: Final[Mapping[int, Node]] = {}

__all__ = ["Accumulator", "Ack", "Blocked", "PartitionQueue", "ProducerBatch", "TopicQueues"]


class Accumulator(BatchCore):
    """The queues of all partitions of one producer.

    Args:
        loop: The producer's event loop.
        options: The producer's options.
        pool: Provides the batches' memory.
        identity: The producer's identity, for the batches' sequence numbers.
        on_ready: Called with a queue that may have something to send.
        on_opened: Likewise for a batch that was just opened; the call may send it.
        on_lingering: Called with the loop time at which the first lingering batch is due.
        on_held: Called when a queue holds a batch and `watched` was False; it has then been set.
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
    ) -> None:
        super().__init__(loop, options, pool, identity, on_ready, on_opened, on_lingering, on_held)
        self.whole: set[ProducerBatch] = set()
        """Batches of `send_batch`: one ack stands for all their records, so they are not split."""
        self.transaction = 0
        """Counts the started transactions: a record for one transaction is not sent in another."""
        self._topic_ids: dict[str, UUID] = {}  # of the known topics, if the broker returned one
        self._rack = options.rack
        self.led = {}

    # Records in

    def append_again(
        self, blocked: Blocked, memory: bytearray | None = None, transaction: int | None = None
    ) -> Ack | Blocked:
        """Try a blocked record once more.

        Args:
            memory: The memory it waited for, `size_for` bytes. It is given back if another record
                has opened a batch meanwhile that has room for this one.
            transaction: The transaction at the first attempt, unless that was just now.

        Raises:
            BaseException: The `refusal`, or an error because that transaction has ended.
        """
        self._granted = memory
        try:
            self.check_open(transaction)
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

    def check_open(self, transaction: int | None) -> None:
        """Raise the `refusal`, if any, or an error if the transaction has ended.

        Args:
            transaction: The transaction in which the record was sent; None: the current one.
        """
        if self.refusal is not None:
            raise copy.copy(self.refusal)
        if transaction is not None and transaction != self.transaction:
            raise IllegalOperation(
                "Can't send: the transaction that this record was sent in has ended"
            )

    def has_partition(self, topic: str, partition: int | None) -> bool:
        """True if the topic, and the partition unless it is None, has a queue."""
        queues = self.topics.get(topic)
        return queues is not None and (partition is None or partition < len(queues.queues))

    def add_batch(
        self,
        topic: str,
        partition: int | None,
        builder: BatchBuilder,
        memory: bytearray,
        transaction: int | None = None,
    ) -> Ack:
        """Append a whole batch to a known partition; return the Ack of its first record.

        Args:
            partition: None: chosen as for one record without a key.
            memory: Counts for the batch in the budget, `memory_for` bytes; its records are stored
                elsewhere.
            transaction: As in `append_again`.

        Raises:
            BaseException: The `refusal`, an error because that transaction has ended, or an error
                of the application's partitioner; `memory` is given back.
        """
        try:
            self.check_open(transaction)
            queue = self._queue_for(self.topics[topic], partition, builder.size)
        except BaseException:
            self.pool.give(memory)
            raise
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

    def make_batch(
        self, queue: PartitionQueue, builder: BatchBuilder, memory: bytearray
    ) -> ProducerBatch:
        """Return a batch of records for `add_open`."""
        return ProducerBatch(self.loop, queue.topic_partition, builder, memory, self.next_time())

    def _queue_for(self, queues: TopicQueues, partition: int | None, size: int) -> PartitionQueue:
        if partition is None and self._options.partitioner is not None:
            partition = self._ask(self._options.partitioner, queues, None)
        if partition is not None:
            return queues.queues[partition]
        queue = self.next_sticky(queues)
        queues.produced += size
        return queue

    # Time

    def on_lingered(self, now: float) -> float | None:
        """Release batches that have lingered long enough; return the next one's time, if any."""
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
        """Release all open batches that linger."""
        while self._lingering:
            queue, batch = self._lingering.popleft()
            if queue.open is batch:
                batch.due = True
                self._on_ready(queue)

    def go_on_everywhere(self) -> None:
        """Batches may now be sent that could not be sent before: see `go_on`."""
        for queue in list(self.active):
            self.go_on(queue)

    def unresolved(self) -> Iterator[ProducerBatch]:
        """Return all batches without an outcome."""
        for queue in self.active:
            yield from (batch for batch in queue.in_flight if not batch.done)
            yield from queue.waiting

    def close_old(self, now: float) -> None:
        """Close open batches that are due and older than half of `delivery_timeout_ms`.

        A record's time runs from the first record of its batch. A record this late begins another
        batch; in the old one it could time out moments after `send`. The partition's order does
        not change. Another batch takes memory, so the batches stay open while memory is short.
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
        """Return the batches whose `delivery_timeout_ms` has passed."""
        created = now - self._options.delivery_timeout
        late = []
        for queue in self.active:
            # A batch that was put back is older than those in flight: each deque has its own order.
            for batches in (queue.in_flight, queue.waiting):
                for batch in batches:
                    if batch.created > created:
                        break
                    if not batch.done:
                        late.append((queue, batch))
        return late

    # Outcomes

    def confirm_sent(self, batch: ProducerBatch) -> None:
        """Resolve a batch that was written with acks=0, and free its memory."""
        buffer = batch.buffer
        batch.confirm_sent()
        self._recycle(buffer)

    def fail_piece(self, queue: PartitionQueue, batch: ProducerBatch, error: BaseException) -> None:
        """Fail the current piece for good; the next piece takes its place and its number."""
        self._settle_piece(queue, batch, batch.base_sequence, -1, -1, -1, error)

    def split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Split a batch that is too large for the broker into pieces of half its size (KIP-126).

        They are sent one after the other, in the batch's place and with its numbers. They have
        their own memory; the budget still counts that of the batch.
        """
        limit = batch.builder.size // 2
        batch.split(pieces([batch.builder, *batch.rest], queue.topic_partition, limit))
        self.put_back(queue, batch)

    def fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BaseException,
        runs: Sequence[tuple[int, BaseException]] = (),
    ) -> None:
        """Fail a batch that will not be sent (again), and free its memory.

        Args:
            runs: The errors of its records if they differ; see `ProducerBatch.fail_in_runs`.
        """
        if batch is queue.open:
            queue.open = None
        if batch in queue.waiting:
            queue.waiting.remove(batch)
        buffer = batch.buffer
        if runs:
            batch.fail_in_runs(runs, error)
        else:
            batch.fail(error)
        self._recycle(buffer)
        self.maybe_idle(queue)

    def _recycle(self, buffer: bytearray | None) -> None:
        if buffer is not None:
            self.pool.give(buffer)

    # Topics

    def adopt(
        self,
        topic: str,
        partitions: Mapping[int, Partition],
        topic_id: UUID | None = None,
        brokers: Mapping[int, Node] = _NO_BROKERS,
    ) -> TopicQueues:
        """Update a topic's partitions, and which of them have a leader.

        Args:
            topic_id: None if the broker did not return one.
            brokers: Those that may lead a partition, for their racks.
        """
        count = max(partitions) + 1
        queues = self.topics.get(topic)
        if queues is not None and count < len(queues.queues):
            self.forget(topic)  # deleted and recreated with fewer partitions
            queues = self.topics.get(topic)
        if queues is None:
            queues = TopicQueues(topic, count, random.randrange(count))
            self.topics[topic] = queues
            fresh = True
        else:
            queues.grow(count)
            fresh = False
        led = sorted(number for number, known in partitions.items() if known.leader != NO_LEADER)
        queues.available = self._in_rack(topic, led, partitions, brokers)
        sticky = queues.sticky.topic_partition.partition
        # The first partition was chosen before it was known which of them have a leader. Later,
        # there may be fewer because the topic was recreated while batches were queued.
        if sticky >= count or (fresh and queues.available and sticky not in queues.available):
            queues.move_on()
        if topic_id is not None and self._topic_ids.setdefault(topic, topic_id) != topic_id:
            self._topic_ids[topic] = topic_id
            for queue in queues.queues:
                if queue.sequences is not None:
                    queue.sequences.doubt()
        return queues

    def _in_rack(
        self,
        topic: str,
        led: list[int],
        partitions: Mapping[int, Partition],
        brokers: Mapping[int, Node],
    ) -> list[int]:
        """Return the partitions for records without a key: those that a broker in the producer's
        rack leads, if this is configured and there are any (KIP-1123)."""
        if self._rack is None:
            return led
        near = [
            number
            for number in led
            if (node := brokers.get(partitions[number].leader)) and node.rack == self._rack
        ]
        self.led[topic] = led
        return near or led

    def forget(self, topic: str) -> None:
        """Drop a topic without queued batches; the next record sent to it looks it up again."""
        queues = self.topics.get(topic)
        if queues is not None and all(queue.empty for queue in queues.queues):
            del self.topics[topic]
            queues.forgotten = True
            self._topic_ids.pop(topic, None)
            self.led.pop(topic, None)
            for queue in queues.queues:
                if queue.sequences is not None:
                    queue.sequences.doubt()
                    self._numberings[queue.topic_partition] = queue.sequences
