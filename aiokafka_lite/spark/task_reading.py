"""What a task reads: ranges of offsets as Arrow record batches.

Two threads share the work. On the loop of the runtime a coroutine takes columns from a consumer
and gathers their rows; the task's own thread makes Arrow's objects of what was gathered and gives
them to Spark. Between them stand at most `AHEAD` batches, so that memory does not depend on how
much there is to read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

import pyarrow as pa

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.record.columnar.arrow import ArrowBuffers, ArrowRows
from aiokafka_lite.spark import runtime
from aiokafka_lite.spark.arrow_batches import arrow_schema, column_names, to_record_batch
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.spark.range_consumer import RangeConsumer

__all__ = ["ReadSettings", "read_ranges"]

log = logging.getLogger(__name__)

AHEAD: Final = 2
"""Batches that wait for the task: one is there when it comes, another while it takes that one."""

_END_WITHIN: Final = 1.0
"""Seconds that a task which reads no further waits for its reading to end in order."""


@dataclass(frozen=True)
class ReadSettings:
    """How a task reads. It goes to the executors, so it is pickled.

    Attributes:
        consumer_arguments: `AIOKafkaConsumer`'s, `isolation_level` among them.
        include_headers: Whether there is a column of headers.
        fail_on_data_loss: Whether records that are gone are an error, or a warning.
        columns: Which columns, in which order; None for all of Spark's Kafka sources.
        rows_per_batch: Most rows of an Arrow batch.
        bytes_per_batch: Most bytes of its keys, values and headers; a larger record goes alone.
        poll_timeout: Seconds to wait for records that should be there
            (`kafkaConsumer.pollTimeoutMs`).
    """

    consumer_arguments: Mapping[str, object] = field(default_factory=dict, repr=False)  # a password
    include_headers: bool = False
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] | None = None
    rows_per_batch: int = 10_000
    bytes_per_batch: int = 8 * 1024 * 1024
    poll_timeout: float = 120.0

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of the batches, in order."""
        if self.columns is not None:
            return self.columns
        return column_names(include_headers=self.include_headers)


def read_ranges(ranges: Sequence[OffsetRange], settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """All records of some ranges, each partition's in order, none twice.

    Offsets without a record (compaction, markers of transactions and, with "read_committed",
    aborted ones) are passed over. The partitions are read together, so that their rows mix.

    Args:
        ranges: [start, end) by offset.
        settings: How.

    Raises:
        DataLossError: Offsets are gone, where that is an error.
        KafkaTimeoutError: Records that should be there did not come.
        KafkaError: A broker's refusal, or a batch that is corrupt; a note says where.

    A generator that is closed early ends the reading behind it.
    """
    runtime.prepare_worker()
    schema = arrow_schema(settings.column_names)
    reading = _Reading(ranges, settings)
    done = runtime.submit(reading.run())
    done.add_done_callback(reading.on_done)
    try:
        while (rows := reading.next()) is not None:
            yield to_record_batch(rows, schema)
        done.result()
    finally:
        reading.leave(done)


class _Reading:
    """One task's reading. Made and asked by the task's thread, run on the loop."""

    def __init__(self, ranges: Sequence[OffsetRange], settings: ReadSettings) -> None:
        self._ranges = ranges
        self._settings = settings
        self._rows = ArrowRows(
            settings.column_names, settings.rows_per_batch, settings.bytes_per_batch
        )
        self._ready: SimpleQueue[ArrowBuffers | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: asyncio.Semaphore | None = None
        self._left = False  # the task wants no more

    # --- in the task's thread

    def next(self) -> ArrowBuffers | None:
        """The next batch, waiting for it; None when none comes any more."""
        rows = self._ready.get()
        if rows is not None:
            self._wake()
        return rows

    def on_done(self, done: Future[None]) -> None:
        """In order or not, nothing comes any more."""
        self._ready.put(None)

    def leave(self, done: Future[None]) -> None:
        """The task is over: let the reading end by itself, so that its client can be used again."""
        if done.done():
            return
        self._left = True
        self._wake()
        try:
            done.exception(_END_WITHIN)
        except TimeoutError:
            done.cancel()

    def _wake(self) -> None:
        if self._loop is not None and self._room is not None:
            self._loop.call_soon_threadsafe(self._room.release)

    # --- on the loop

    async def run(self) -> None:
        """Read all of the ranges."""
        settings = self._settings
        self._room = asyncio.Semaphore(AHEAD)
        self._loop = asyncio.get_running_loop()
        arguments = settings.consumer_arguments
        async with runtime.lease(
            "ranges", arguments, lambda: RangeConsumer(**arguments)
        ) as consumer:
            consumer.begin(
                self._ranges,
                fail_on_data_loss=settings.fail_on_data_loss,
                patience=settings.poll_timeout,
            )
            try:
                await self._read(consumer)
            except KafkaError as error:
                error.add_note(f"while reading {consumer.where()}")
                raise
            finally:
                consumer.leave()

    async def _read(self, consumer: RangeConsumer) -> None:
        gathered = self._rows
        limit = self._settings.rows_per_batch
        while not self._left and (rows := await consumer.next_rows(limit)) is not None:
            at = 0
            while (at := gathered.add(rows.columns, at, rows.stop)) < rows.stop:
                await self._hand_over()
            if gathered.count >= limit or gathered.size >= self._settings.bytes_per_batch:
                await self._hand_over()
        if gathered.count:
            await self._hand_over()

    async def _hand_over(self) -> None:
        rows = self._rows.take()
        if self._room is not None and not self._left:
            await self._room.acquire()
        self._ready.put(rows)
