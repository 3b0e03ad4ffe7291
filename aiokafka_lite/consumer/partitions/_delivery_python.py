"""Delivery of records to `async for`: the readable twin of `_delivery_native.pyx`.

A `Chunk` is the run of decoded records of one partition that the application is working through;
its `index` is the only thing that moves when a record is handed out, so the partition's position
is derived from it and never written per record. The chunk that `async for` and `getone()` take
from stands in `Delivery.current`; everything that must stop the hand-out at once (a seek, a pause,
a new assignment, stop) simply puts `EMPTY` there.

Non-obvious:

- A record leaves its chunk in the step that hands it over, never before an await. So cancelling
  whoever waits loses nothing.
- Past the instant `Delivery.until` the slow path is taken, and lets the event loop run: an
  application whose loop body never suspends would starve it otherwise. The clock is looked at
  every `LOOK_EVERY` records, which costs a few nanoseconds each.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeAlias

from aiokafka_lite._consumer_record import ConsumerRecord

# What an application's deserializers return, only the application can say.
Record: TypeAlias = ConsumerRecord[Any, Any]


class Chunk:
    """Decoded records of one partition, in offset order, on their way to the application.

    Attributes:
        records: The records; the first `index` of them were handed out.
        start: The partition's position before the first record.
        end: Its position after the last one (past control records and gaps behind it).
        closes: Whether these are the last records of their fetch response.
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
        """The offset after the last record handed out."""
        if self.index == self.count:
            return self.end
        if self.index == 0:
            return self.start
        return self.records[self.index - 1].offset + 1

    def take_many(self, limit: int) -> list[Record]:
        """Hand out the next records, at most `limit` of them."""
        first = self.index
        if limit < 0:
            raise ValueError(f"limit must not be negative: {limit}")
        self.index = min(self.count, first + limit)
        if first == 0 and self.index == self.count:
            return self.records
        return self.records[first : self.index]


EMPTY = Chunk([], -1, -1)
"""No records: what stands in `Delivery.current` when the slow path must decide."""

LOOK_EVERY = 16
"""Records handed out between two looks at the clock."""


class Delivery:
    """What the streams of one consumer share.

    Attributes:
        current: The chunk to take from.
        until: The instant (`time.monotonic`) from which on the slow path is taken.
        loop: The consumer's: a call of `take` outside of it takes the slow path, which refuses it.
            None for any.
    """

    __slots__ = ("_credit", "current", "loop", "until")

    def __init__(self) -> None:
        self.current: Chunk = EMPTY
        self.until = 0.0
        self.loop: AbstractEventLoop | None = None
        self._credit = 0  # records to hand out before the next look at the clock

    def take(self) -> Record | None:
        """Hand out one record, or None: the slow path has to find one, let the loop run, or refuse
        the call."""
        if self.loop is not None and _get_running_loop() is not self.loop:
            return None
        return self.take_ready()

    def take_ready(self) -> Record | None:
        """`take` for a stream, whose beginning was in the consumer's loop."""
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
        slow: Coroutine function of the next record; raises StopAsyncIteration at the end.
        owner: Kept alive for as long as somebody iterates.
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
