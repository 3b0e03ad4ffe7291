"""Appends the rows of columns to the batches of their partitions, for `send_columns`.

Sans-IO: `go_on` appends what it can and returns what it waits for. Rows are taken in slices, so
that other tasks can run, and so that all partitions receive data while memory is scarce.
Within a slice, all rows of one partition are appended before those of the next one. The rows of a
partition keep their order.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from aiokafka_lite.producer.batching.accumulator import (
    Accumulator,
    Ack,
    PartitionQueue,
    ProducerBatch,
    TopicQueues,
)
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.columnar.column_rows import Rows
from aiokafka_lite.record.header import HEADER_SIZE

__all__ = ["HEADER_SIZE", "RowAppending", "Run", "Wants"]

_SLICE_ROWS: Final = 8192
_SLICE_BYTES: Final = 1024 * 1024
_STICKY: Final = -1  # the partition of rows without a key


class Wants(Enum):
    """What `RowAppending.go_on` waits for."""

    NOTHING = auto()
    """All rows are in their batches."""
    TURN = auto()
    """A slice is in its batches: let other tasks run before the next one."""
    TOPIC = auto()
    """The topic, or its partition `partition`, is not known."""
    MEMORY = auto()
    """A new batch needs `memory` bytes."""


class Run:
    """Consecutive rows in one batch.

    Attributes:
        ack: The ack of the first row.
        batch: The batch.
        index: The first row's index in the batch.
        count: Number of rows.
    """

    __slots__ = ("ack", "batch", "count", "index")

    def __init__(self, batch: ProducerBatch, index: int, count: int) -> None:
        self.batch = batch
        self.index = index
        self.count = count
        self.ack: Ack = batch.ack(index, -1)


class RowAppending:
    """The progress of one `send_columns` call.

    Args:
        accumulator: Takes the rows.
        topic: The topic.
        rows: The rows.
        partition: The partition of all rows; None: by their keys.
        keyed: True if rows without an explicit partition go to the partition of their key.

    Attributes:
        runs: The rows that are in their batches, in the order in which they were appended.
        memory: With `Wants.MEMORY`, the number of bytes needed.
        partition: With `Wants.TOPIC`, the missing partition; None if the topic is missing.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        topic: str,
        rows: Rows,
        partition: int | None,
        keyed: bool,
    ) -> None:
        self.runs: list[Run] = []
        self.memory = 0
        self.partition: int | None = None
        self._accumulator = accumulator
        self._transaction = accumulator.transaction
        self._topic = topic
        self._rows = rows
        self._explicit = partition
        self._keyed = keyed and partition is None
        self._next = 0  # the first row after the slice
        self._order: bytearray | None = None  # rows by partition; None: in order
        # Of the slice, in reverse: partition, first place, end.
        self._spans: list[tuple[int, int, int]] = []
        self._granted: bytearray | None = None

    def go_on(self, memory: bytearray | None = None) -> Wants:
        """Append rows until something is missing.

        Args:
            memory: The memory that the last call wanted. It is released if it is not needed.

        Raises:
            BaseException: The producer's refusal, or an error because the transaction of the first
                call has ended or the application changed a buffer. The `runs` are sent.
        """
        accumulator = self._accumulator
        self._granted = memory
        try:
            accumulator.check_open(self._transaction)
            while self._spans or self._next < self._rows.count:
                queues = accumulator.topics.get(self._topic)
                if queues is None:
                    self.partition = self._explicit
                    return Wants.TOPIC
                if not self._spans:
                    self._slice(queues.count)
                number, first, last = self._spans.pop()
                if number >= len(queues.queues):
                    self._spans.append((number, first, last))
                    self.partition = number
                    return Wants.TOPIC
                if number == _STICKY:
                    place = self._append_sticky(queues, first, last)
                else:
                    place = self._append_to(queues.queues[number], first, last)
                if place < last:
                    self._spans.append((number, place, last))
                    return Wants.MEMORY
                if not self._spans and self._next < self._rows.count:
                    return Wants.TURN
            return Wants.NOTHING
        finally:
            unused, self._granted = self._granted, None
            if unused is not None:
                accumulator.pool.give(unused)

    def _slice(self, partitions: int) -> None:
        first = self._next
        self._next = last = self._rows.slice_end(first, _SLICE_ROWS, _SLICE_BYTES)
        if self._keyed:
            self._order, self._spans = self._rows.group(first, last, partitions)
            self._spans.reverse()
        else:
            number = _STICKY if self._explicit is None else self._explicit
            self._spans = [(number, first, last)]

    def _append_sticky(self, queues: TopicQueues, first: int, last: int) -> int:
        place = self._fill(queues.sticky, first, last)
        while place < last:
            before = place
            place = self._append_to(self._accumulator.next_sticky(queues), place, last, batches=1)
            if place == before:
                break
        return place

    def _append_to(self, queue: PartitionQueue, first: int, last: int, batches: int = 0) -> int:
        """Append rows to a partition; return the first place that lacks memory.

        Args:
            batches: Maximum number of batches to begin; 0: as many as are needed.
        """
        place = self._fill(queue, first, last)
        while place < last:
            buffer = self._memory(place)
            if buffer is None:
                break
            place = self._open(queue, buffer, place, last)
            batches -= 1
            if not batches:
                break
        return place

    def _fill(self, queue: PartitionQueue, first: int, last: int) -> int:
        """Append rows to the open batch, if there is one; close it if it is full."""
        batch = queue.open
        if batch is None:
            return first
        index = batch.builder.count
        try:
            place = self._rows.fill(batch.builder, self._order, first, last)
        finally:
            if (count := batch.builder.count - index) > 0:
                self.runs.append(Run(batch, index, count))
        if place < last:
            self._accumulator.close_batch(queue)
        return place

    def _memory(self, place: int) -> bytearray | None:
        """Return memory for a batch that begins with a row; None if too little is free."""
        accumulator = self._accumulator
        size = accumulator.memory_for(HEADER_SIZE + self._rows.bound(self._order, place))
        granted = self._granted
        if granted is not None and len(granted) >= size:
            self._granted = None
            return granted
        self.memory = size
        return accumulator.pool.try_take(size)

    def _open(self, queue: PartitionQueue, buffer: bytearray, first: int, last: int) -> int:
        """Begin a batch with the rows that fit; return the next place."""
        accumulator = self._accumulator
        try:
            builder = BatchBuilder(len(buffer), buffer)
            place = self._rows.fill(builder, self._order, first, last)
            if place == first:
                raise RuntimeError("a row does not fit into a batch of its own")
        except BaseException:
            accumulator.pool.give(buffer)
            raise
        batch = accumulator.make_batch(queue, builder, buffer)
        self.runs.append(Run(batch, 0, place - first))
        accumulator.add_open(queue, batch, full=place < last)
        return place
