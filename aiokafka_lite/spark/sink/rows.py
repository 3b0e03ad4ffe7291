"""Rows of a task to records: Arrow batches in, every record's outcome awaited.

Runs in the event loop of the runtime; what reads the rows from Spark is the task's own thread.
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
from aiokafka_lite.spark.sink.exactly_once import MARK_LAYOUT
from aiokafka_lite.spark.write_options import RowLayout

__all__ = ["RowDigest", "RowSender", "topic_of"]

_Headers = Sequence[tuple[str, bytes | None]]
_Row = tuple[str | None, bytes | None, bytes | None, int | None, _Headers | None]

_UNSETTLED: Final = 40_000
"""Records without an outcome that are let stand: more would hold memory for nothing, as the
producer's own is used up by then."""

_BREATH: Final = 1_000
"""Records after which the event loop may do other things."""

_MASK: Final = (1 << 64) - 1


class RowDigest:
    """How many rows there were, and a sum over them that does not depend on their order.

    Tells a replayed task whether it has the rows that were written before it: the same keys,
    values, headers, topics and partitions. It guards against accidents (`rand()`, another number
    of tasks, another topic), not against forgers.

    Args:
        layout: Of the mark that the digest is for.
    """

    def __init__(self, layout: int = MARK_LAYOUT) -> None:
        self.rows = 0
        self.sum = 0
        self._whole = layout >= 2

    def add(
        self, topic: str, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        """Count in rows of one topic, without partitions or headers."""
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
        """Count in rows that say more about where they go; `add` has the same sum for the same
        rows."""
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
        """Count the rows of a batch in."""
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
    """What of a row's hash does not depend on its key and its value."""
    place = crc32((topic or "").encode())
    if partition is not None:
        place = crc32(b"%d" % partition, place) + 1
    if headers is not None:
        # ascii() writes the same text under every version of Python, repr() does not.
        place = crc32(ascii(headers).encode(), place) + 2
    return place


def _hash(key: bytes | None, value: bytes | None, place: int) -> int:
    start = place if key is None else crc32(key, place) + 1
    return start if value is None else crc32(value, start) + 1


class RowSender:
    """Sends the rows of one task.

    Args:
        producer: Started; of this task alone while it runs.
        layout: Of the rows.
        digest: Counts the rows in, if anybody asks for it.
    """

    def __init__(
        self, producer: AIOKafkaProducer, layout: RowLayout, digest: RowDigest | None = None
    ) -> None:
        self._producer = producer
        self._layout = layout
        self._digest = digest
        self._acks: deque[list[Ack]] = deque()
        self._unsettled = 0
        self.rows = 0

    async def append(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a batch, in their order.

        Returns when they are in the producer's memory.

        Raises:
            KafkaError: A record was refused, of these or of those before.
            IllegalArgumentError: A row has no topic, a partition that is not there, or a header
                without a name.
            KafkaTimeoutError: The brokers take nothing any more.
        """
        layout = self._layout
        values = _binary(batch.column(layout.value))
        keys = _keys(batch, layout)
        topic = layout.only_topic
        if topic is not None:
            if self._digest is not None:
                self._digest.add(topic, keys, values)
            acks = await self._producer.send_many(topic, values, keys=keys)
        else:
            rows: Iterable[_Row] = _rows(batch, layout, keys, values)
            if self._digest is not None:
                rows = list(rows)
                self._digest.add_rows(rows)
            acks = await self._send_each(rows)
        self.rows += len(values)
        self._acks.append(acks)
        self._unsettled += len(acks)
        while self._unsettled > _UNSETTLED:
            await self._settle_oldest()

    async def finish(self) -> None:
        """Wait for the outcome of every row.

        Raises:
            KafkaError: Of the first that was refused.
        """
        flushing = asyncio.ensure_future(self._producer.flush())  # so that nothing lingers
        try:
            while self._acks:
                await self._settle_oldest()
            await flushing
        finally:
            flushing.cancel()

    async def _settle_oldest(self) -> None:
        acks = self._acks.popleft()
        for ack in acks:
            if not ack.done():
                await ack
            # Half the cost of awaiting it, which tells where the record was stored, too.
            elif (error := ack.exception()) is not None:
                raise error
        self._unsettled -= len(acks)

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
    """The topic of the first row.

    Raises:
        IllegalArgumentError: It has none.
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
    """A column of strings or bytes as bytes."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    # By way of numpy: to_pylist makes a pyarrow scalar of each value first, five times the cost.
    found: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def _headers(found: list[dict[str, object] | None] | None) -> _Headers | None:
    if not found:
        return None
    if any(each is None or each["key"] is None for each in found):
        raise IllegalArgumentError("null header, or name of one, present in the data")
    return [(each["key"], each["value"]) for each in found]  # type: ignore[misc, index]  # as the schema says
