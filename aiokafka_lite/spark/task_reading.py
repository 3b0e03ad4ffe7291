"""Reads a task's offset ranges as Arrow record batches.

Two threads share the work. In the runtime's event loop, a coroutine takes columns from a consumer
and gathers their rows. The task's own thread creates Arrow objects from them and passes them to
Spark. At most `AHEAD` batches wait between them, so memory does not depend on the amount of data.
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
"""Maximum number of batches waiting for the task: one to take next, and one more behind it."""

_END_WITHIN: Final = 1.0
"""Seconds that a task which stops early waits for its reading to end."""


@dataclass(frozen=True)
class ReadSettings:
    """The settings of a task's reading; pickled and sent to the executors.

    Attributes:
        consumer_arguments: Arguments of `AIOKafkaConsumer`, including `isolation_level`.
        include_headers: True to add a column of headers.
        fail_on_data_loss: True to raise an error for lost records, False to log a warning.
        columns: The columns in order; None for all columns of Spark's Kafka sources.
        rows_per_batch: Maximum number of rows of an Arrow batch.
        bytes_per_batch: Maximum bytes of its keys, values and headers; a larger record is a batch
            of its own.
        poll_timeout: Seconds to wait for records that should exist
            (`kafkaConsumer.pollTimeoutMs`).
    """

    consumer_arguments: Mapping[str, object] = field(default_factory=dict, repr=False)  # passwords
    include_headers: bool = False
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] | None = None
    rows_per_batch: int = 10_000
    bytes_per_batch: int = 8 * 1024 * 1024
    poll_timeout: float = 120.0

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the columns of the batches, in order."""
        if self.columns is not None:
            return self.columns
        return column_names(include_headers=self.include_headers)


def read_ranges(ranges: Sequence[OffsetRange], settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Yield all records of some ranges once, in order within each partition.

    Offsets without a record are skipped: those of compacted records, transaction markers and, with
    "read_committed", aborted transactions. Partitions are read concurrently, so their rows mix.

    Args:
        ranges: Offset ranges [start, end).
        settings: The settings.

    Raises:
        DataLossError: Offsets are lost and `fail_on_data_loss` is true.
        KafkaTimeoutError: Records that should exist did not arrive.
        KafkaError: A broker returned an error, or a batch is corrupt; a note names the place.

    Closing the generator early stops the reading.
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
    """The reading of one task. The task's thread creates and queries it; the loop runs it."""

    def __init__(self, ranges: Sequence[OffsetRange], settings: ReadSettings) -> None:
        self._ranges = ranges
        self._settings = settings
        self._rows = ArrowRows(
            settings.column_names, settings.rows_per_batch, settings.bytes_per_batch
        )
        self._ready: SimpleQueue[ArrowBuffers | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: asyncio.Semaphore | None = None
        self._left = False  # True once the task has stopped reading

    # --- in the task's thread

    def next(self) -> ArrowBuffers | None:
        """Wait for and return the next batch, or None if there are no more."""
        rows = self._ready.get()
        if rows is not None:
            self._wake()
        return rows

    def on_done(self, done: Future[None]) -> None:
        """Handle the end of the reading, whether it failed or not."""
        self._ready.put(None)

    def leave(self, done: Future[None]) -> None:
        """Let the reading end normally after the task's end, so that its client can be reused."""
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
                poll_timeout=settings.poll_timeout,
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
