"""Acquired records that the application has not read, and the reads that wait for records."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Sequence
from itertools import islice
from typing import Any, Protocol, cast

from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.share_record import ShareRecord, all_locked

__all__ = ["Feeder", "ShareBuffer"]

Record = ShareRecord[Any, Any]


class Feeder(Protocol):
    """A read that continues: records reach it as they arrive."""

    def room(self) -> int:
        """Return how many records may be acquired for it now. Once there may be more, it makes
        the links check again."""

    def takes(self, count: int) -> bool:
        """True if it can take this many acquired records."""

    def add(self, records: Sequence[Any]) -> None:
        """Take records. `begin` follows."""

    def begin(self) -> None:
        """Start to handle them: at once, or soon if a task calls this."""


class ShareBuffer:
    """Acquired records that were not delivered yet.

    Args:
        loop: The consumer's event loop.
        on_expired: Called with the number of records whose locks ended before their delivery.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._whole: list[Item] | None = None  # the items of one response, if there are no others
        self._items: deque[Item] = deque()
        self._waiters: dict[asyncio.Future[bool], int | Feeder] = {}  # with their limits
        self._fed: Feeder | None = None  # has records that it has not begun to handle

    def __len__(self) -> int:
        return len(self._items) if self._whole is None else len(self._whole)

    def add(self, items: Sequence[Item]) -> None:
        """Records were acquired: reads may continue. A list must not change afterwards."""
        if isinstance(items, list) and not len(self):
            self._whole = items
        else:
            self._separate().extend(items)
        self.wake()

    def feed(self, items: Sequence[Item]) -> bool:
        """Pass records to the only waiting read, if it is a continuing one and can take them
        unchanged; otherwise return False, and do nothing."""
        if len(self._waiters) != 1 or not isinstance(items, list) or len(self):
            return False
        for waiter, reader in self._waiters.items():
            if isinstance(reader, int) or waiter.done() or not reader.takes(len(items)):
                return False
            if not all_locked(items, self._loop.time()):
                return False
            reader.add(items)
            self._fed = reader
        return True

    def begin(self) -> None:
        """Let the read begin to handle the records that it was fed."""
        fed, self._fed = self._fed, None
        if fed is not None:
            fed.begin()

    def _separate(self) -> deque[Item]:
        """Return all items as a queue."""
        if self._whole is not None:
            self._items.extend(self._whole)
            self._whole = None
        return self._items

    def take_locked(self) -> Record | None:
        """Return the next item if it is a record that is still locked; otherwise leave it."""
        items = self._items if self._whole is None else self._separate()
        if items:
            item = items[0]
            if type(item) is ShareRecord and item.lock_deadline > self._loop.time():
                items.popleft()
                return item
        return None

    def take(self) -> Record | None:
        """Return the next record whose lock exists, or None.

        Raises:
            Exception: The next record could not be decoded.
        """
        items = self._separate()
        self._drop_expired(items, self._loop.time())
        if not items:
            return None
        item = items.popleft()
        if isinstance(item, BaseException):
            raise item
        return item

    def _drop_expired(self, items: deque[Item], now: float) -> None:
        """Drop records at the front whose locks have expired."""
        expired = 0
        while items:
            item = items[0]
            if isinstance(item, BaseException) or item.lock_deadline > now:
                break
            items.popleft()
            expired += 1
        if expired:
            self._on_expired(expired)

    def take_many(self, limit: int) -> list[Record]:
        """Return the next records, at most `limit` of them.

        Raises:
            Exception: The next record could not be decoded.
        """
        whole, now = self._whole, self._loop.time()
        if whole is not None and len(whole) <= limit and all_locked(whole, now):
            self._whole = None
            return cast(list[Record], whole)
        items = self._separate()
        count = min(limit, len(items))
        first = list(items) if count == len(items) else list(islice(items, count))
        if all_locked(first, now):
            if count == len(items):
                items.clear()
            else:
                for _ in range(count):
                    items.popleft()
            return cast(list[Record], first)
        records: list[Record] = []
        while len(records) < limit:
            self._drop_expired(items, now)
            # A separate read raises an error, so that the records before it are not lost.
            if not items or (records and isinstance(items[0], BaseException)):
                break
            item = items.popleft()
            if isinstance(item, BaseException):
                raise item
            records.append(item)
        return records

    def clear(self) -> None:
        """Drop everything, and let the waiting reads check again."""
        self.drop()
        self.wake()

    def drop(self) -> None:
        """Drop everything. The records refer to the consumer, and the garbage collector does not
        track them."""
        self._whole = None
        self._items.clear()

    def take_others(self, topics: Container[str]) -> list[Record]:
        """Remove and return the records of all other topics."""
        others = [
            item
            for item in self._separate()
            if not isinstance(item, BaseException) and item.topic not in topics
        ]
        if others:
            gone = {id(item) for item in others}
            self._items = deque(item for item in self._items if id(item) not in gone)
        return others

    # waiting

    @property
    def limits(self) -> list[int]:
        """The number of records that each waiting read could take, if any."""
        limits = []
        for reader in self._waiters.values():
            room = reader if isinstance(reader, int) else reader.room()
            if room > 0:
                limits.append(room)
        return limits

    @property
    def awaited(self) -> bool:
        """True if a read waits."""
        return bool(self._waiters)

    async def wait(
        self, limit: int | Feeder, deadline: float | None, on_wait: Callable[[], None]
    ) -> bool:
        """Wait for a change.

        Args:
            limit: Records that the read can take, or the read itself, if it continues.
            deadline: In loop time; None for no limit.
            on_wait: Called once the read waits.

        Returns:
            False if the deadline passed.

        Cancellation: safe; no record is lost.
        """
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters[waiter] = limit
        timer = None if deadline is None else self._loop.call_at(deadline, _resolve, waiter, False)
        try:
            on_wait()
            return await waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Let the waiting reads check again."""
        for waiter in self._waiters:
            _resolve(waiter, True)


def _resolve(waiter: asyncio.Future[bool], changed: bool) -> None:
    if not waiter.done():
        waiter.set_result(changed)
