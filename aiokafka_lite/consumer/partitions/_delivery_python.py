"""Delivery of records to `async for`: the readable twin of `_delivery_native.pyx`.

A `Chunk` is the run of decoded records of one partition that is being delivered. Only its `index`
changes when a record is delivered, so the partition's position is derived from it and never written
per record. `async for` and `getone()` take records from the chunk in `Delivery.current`. Everything
that must stop the delivery at once (a seek, a pause, a new assignment, stop) sets it to `EMPTY`.

Non-obvious:

- A record leaves its chunk in the step that delivers it, never before an await. So cancelling a
  reader loses no record.
- After the instant `Delivery.until`, reads take the slow path, which lets the event loop run: an
  application whose loop body never suspends would starve it otherwise. The clock is read every
  `LOOK_EVERY` records, which costs a few nanoseconds per record.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeAlias

from aiokafka_lite._consumer_record import ConsumerRecord

# Only the application knows the types that its deserializers return.
Record: TypeAlias = ConsumerRecord[Any, Any]


class Chunk:
    """Decoded records of one partition, in offset order, on their way to the application.

    Attributes:
        records: The records; the first `index` of them were delivered.
        start: The partition's position before the first record.
        end: Its position after the last record (past the control records and gaps that follow).
        closes: True if these are the last records of their fetch response.
    """

    __slots__ = ("closes", "count", "end", "index", "records", "start")

    def __init__(self, records: list[Record], start: int, end: int, closes: bool = False) -> None:
        self.records = records
        self.start = start
        self.end = end
        self.closes = closes
        self.index = 0
        self.count = len(records)

    @property
    def position(self) -> int:
        """The offset after the last delivered record."""
        if self.index == self.count:
            return self.end
        if self.index == 0:
            return self.start
        return self.records[self.index - 1].offset + 1

    def take_many(self, limit: int) -> list[Record]:
        """Return the next records, at most `limit` of them."""
        first = self.index
        if limit < 0:
            raise ValueError(f"limit must not be negative: {limit}")
        self.index = min(self.count, first + limit)
        if first == 0 and self.index == self.count:
            return self.records
        return self.records[first : self.index]


EMPTY = Chunk([], -1, -1)
"""No records: the value of `Delivery.current` when the slow path must decide."""

LOOK_EVERY = 16
"""Records delivered between two reads of the clock."""


class Delivery:
    """The state shared by all streams of one consumer.

    Args:
        loop: The consumer's event loop. Outside it, `take` returns None, and the slow path raises.
            None for any.

    Attributes:
        current: The chunk to take from.
        until: The instant (`time.monotonic`) from which reads take the slow path.
    """

    __slots__ = ("_credit", "_loop", "current", "until")

    def __init__(self, loop: AbstractEventLoop | None = None) -> None:
        self.current: Chunk = EMPTY
        self.until = 0.0
        self._loop = loop
        self._credit = 0  # records to deliver before the next read of the clock

    def take(self) -> Record | None:
        """Return one record, or None: the slow path must find one, let the loop run, or raise."""
        if self._loop is not None and _get_running_loop() is not self._loop:
            return None
        return self.take_ready()

    def take_ready(self) -> Record | None:
        """`take` for a stream, which was created in the consumer's loop."""
        chunk = self.current
        if chunk.index >= chunk.count:
            return None
        if self._credit <= 0:
            if monotonic() >= self.until:
                return None
            self._credit = LOOK_EVERY
        self._credit -= 1
        record = chunk.records[chunk.index]
        chunk.index += 1
        return record


class RecordStream:
    """The asynchronous iterator behind `async for record in consumer`.

    Args:
        delivery: Shared by all streams of the consumer: each record goes to one of them.
        slow: Coroutine function that returns the next record; raises StopAsyncIteration at the end.
        owner: Kept alive during the iteration.
    """

    __slots__ = ("_delivery", "_owner", "_slow")

    def __init__(
        self, delivery: Delivery, slow: Callable[[], Awaitable[Record]], owner: object
    ) -> None:
        self._delivery = delivery
        self._slow = slow
        self._owner = owner

    def __aiter__(self) -> RecordStream:
        return self

    async def __anext__(self) -> Record:
        record = self._delivery.take_ready()
        if record is not None:
            return record
        return await self._slow()
