"""Sends a task's rows as records: takes Arrow batches and awaits every record's result.

Runs in the runtime's event loop; the task's own thread reads the rows from Spark.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final
from zlib import crc32

import pyarrow as pa

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.producer.batching.accumulator import Ack
from aiokafka_lite.producer.columns_ack import ColumnsAck
from aiokafka_lite.producer.sent_records import SentRecords
from aiokafka_lite.spark.sink.exactly_once import MARK_LAYOUT
from aiokafka_lite.spark.write_options import RowLayout

__all__ = ["RowDigest", "RowSender", "topic_of"]

_Headers = Sequence[tuple[str, bytes | None]]
_Sent = list[Ack] | SentRecords | ColumnsAck
_Row = tuple[str | None, bytes | None, bytes | None, int | None, _Headers | None]

_UNSETTLED: Final = 40_000
"""Maximum number of unacknowledged records; more would only use memory, because the producer's
buffer is then full."""

_BREATH: Final = 1_000
"""Number of records after which to yield to the event loop."""

_MASK: Final = (1 << 64) - 1


class RowDigest:
    """The number of rows and an order-independent digest of them.

    It lets a replayed task check that it has the rows written before: the same keys, values,
    headers, topics and partitions. It detects accidents (`rand()`, another number of tasks,
    another topic), not deliberate forgery.

    Args:
        layout: Layout of the marker that contains the digest.
    """

    def __init__(self, layout: int = MARK_LAYOUT) -> None:
        self.rows = 0
        self.sum = 0
        self._whole = layout >= 2

    def add(
        self, topic: str, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        """Add rows of one topic, without partitions or headers."""
        if not self._whole:
            self._add_values(keys, values)
            return
        place = _place_of(topic, None, None)
        if keys is None:
            found = sum(place if value is None else crc32(value, place) + 1 for value in values)
        else:
            pairs = zip(keys, values, strict=True)
            found = sum(_hash(key, value, place) for key, value in pairs)
        self.rows += len(values)
        self.sum = (self.sum + found * (place | 1)) & _MASK

    def add_rows(self, rows: Sequence[_Row]) -> None:
        """Add rows with their own topic, partition or headers; equal rows have the same digest as
        with `add`."""
        if not self._whole:
            self._add_values([row[2] for row in rows], [row[1] for row in rows])
            return
        found = 0
        for topic, value, key, partition, headers in rows:
            place = _place_of(topic, partition, headers)
            found += _hash(key, value, place) * (place | 1)
        self.rows += len(rows)
        self.sum = (self.sum + found) & _MASK

    def add_batch(self, batch: pa.RecordBatch, layout: RowLayout) -> None:
        """Add the rows of a batch."""
        values = _binary(batch.column(layout.value))
        keys = _keys(batch, layout)
        if not self._whole:
            self._add_values(keys, values)
        elif layout.only_topic is not None:
            self.add(layout.only_topic, keys, values)
        else:
            self.add_rows(list(_rows(batch, layout, keys, values)))

    def _add_values(
        self, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        self.rows += len(values)
        if keys is None:
            found = sum(crc32(value or b"") for value in values)
        else:
            pairs = zip(keys, values, strict=True)
            found = sum(crc32(value or b"", crc32(key or b"") + 1) for key, value in pairs)
        self.sum = (self.sum + found) & _MASK


def _place_of(topic: str | None, partition: int | None, headers: _Headers | None) -> int:
    """Return the part of a row's hash that does not depend on its key and value."""
    place = crc32((topic or "").encode())
    if partition is not None:
        place = crc32(b"%d" % partition, place) + 1
    if headers is not None:
        # ascii() returns the same text in every Python version, repr() does not.
        place = crc32(ascii(headers).encode(), place) + 2
    return place


def _hash(key: bytes | None, value: bytes | None, place: int) -> int:
    start = place if key is None else crc32(key, place) + 1
    return start if value is None else crc32(value, start) + 1


class RowSender:
    """Sends the rows of one task.

    Args:
        producer: A started producer; exclusive to this task while it runs.
        layout: The layout of the rows.
        digest: Collects the rows' digest, if needed.
    """

    def __init__(
        self, producer: AIOKafkaProducer, layout: RowLayout, digest: RowDigest | None = None
    ) -> None:
        self._producer = producer
        self._layout = layout
        self._digest = digest
        self._sent: deque[tuple[int, _Sent]] = deque()  # number of rows, and their results
        self._unsettled = 0
        self.rows = 0

    async def append(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch in order.

        Returns when they are in the producer's buffer.

        Raises:
            KafkaError: One of these or the earlier records failed.
            IllegalArgumentError: A row has no topic, an unknown partition, or a header without a
                name.
            KafkaTimeoutError: The brokers stopped accepting records.
        """
        count = batch.num_rows
        self._sent.append((count, await self._send(batch)))
        self.rows += count
        self._unsettled += count
        while self._unsettled > _UNSETTLED:
            await self._settle_oldest()

    async def _send(self, batch: pa.RecordBatch) -> _Sent:
        layout = self._layout
        topic = layout.only_topic
        if topic is not None and self._digest is None:
            keys = None if layout.key is None else batch.column(layout.key)
            return await self._producer.send_columns(topic, batch.column(layout.value), keys=keys)
        values = _binary(batch.column(layout.value))
        keys = _keys(batch, layout)
        if topic is not None:
            if self._digest is not None:
                self._digest.add(topic, keys, values)
            return await self._producer.send_many(topic, values, keys=keys)
        rows: Iterable[_Row] = _rows(batch, layout, keys, values)
        if self._digest is not None:
            rows = list(rows)
            self._digest.add_rows(rows)
        return await self._send_each(rows)

    async def finish(self) -> None:
        """Wait for the result of every row.

        Raises:
            KafkaError: The error of the first failed record.
        """
        flushing = asyncio.ensure_future(self._producer.flush())  # skips linger_ms
        try:
            while self._sent:
                await self._settle_oldest()
            await flushing
        finally:
            flushing.cancel()

    async def _settle_oldest(self) -> None:
        count, sent = self._sent.popleft()
        if isinstance(sent, list):
            for ack in sent:
                if not ack.done():
                    await ack
                # Half the cost of awaiting it, which also returns the record's metadata.
                elif (error := ack.exception()) is not None:
                    raise error
        else:
            await sent
        self._unsettled -= count

    async def _send_each(self, rows: Iterable[_Row]) -> list[Ack]:
        acks: list[Ack] = []
        send = self._producer.send
        for topic, value, key, partition, headers in rows:
            if topic is None:
                raise _no_topic()
            acks.append(await send(topic, value, key, partition, None, headers))
            if not len(acks) % _BREATH:
                await asyncio.sleep(0)
        return acks


def _rows(
    batch: pa.RecordBatch,
    layout: RowLayout,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
) -> Iterator[_Row]:
    topics: Iterator[str | None] = repeat(layout.constant_topic)
    if layout.constant_topic is None and layout.topic is not None:
        topics = iter(batch.column(layout.topic).to_pylist())
    partitions: Iterator[int | None] = repeat(None)
    if layout.partition is not None:
        partitions = iter(batch.column(layout.partition).to_pylist())
    headers: Iterator[_Headers | None] = repeat(None)
    if layout.headers is not None:
        headers = map(_headers, batch.column(layout.headers).to_pylist())
    return zip(topics, values, keys or repeat(None), partitions, headers, strict=False)


def topic_of(batch: pa.RecordBatch, layout: RowLayout) -> str:
    """Return the topic of the first row.

    Raises:
        IllegalArgumentError: The row has no topic.
    """
    if layout.constant_topic is not None:
        return layout.constant_topic
    found = None if layout.topic is None else batch.column(layout.topic)[0].as_py()
    if not isinstance(found, str):
        raise _no_topic()
    return found


def _no_topic() -> IllegalArgumentError:
    return IllegalArgumentError(
        "null topic present in the data. Use the topic option for setting a topic."
    )


def _keys(batch: pa.RecordBatch, layout: RowLayout) -> list[bytes | None] | None:
    return None if layout.key is None else _binary(batch.column(layout.key))


def _binary(column: pa.Array) -> list[bytes | None]:
    """Return a column of strings or bytes as bytes."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    # Via numpy: to_pylist creates a pyarrow scalar per value, at five times the cost.
    found: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def _headers(found: list[dict[str, object] | None] | None) -> _Headers | None:
    if not found:
        return None
    if any(each is None or each["key"] is None for each in found):
        raise IllegalArgumentError("null header or null header key present in the data")
    return [(each["key"], each["value"]) for each in found]  # type: ignore[misc, index]  # as the schema says
