"""A share group in memory: records with locks, redelivery and delivery counts."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiokafka_lite.errors import InvalidRecordStateError, KafkaError

__all__ = ["FakeQueue", "FakeRecord"]


class FakeRecord:
    """One delivery of a record."""

    def __init__(
        self, queue: "FakeQueue", offset: int, key: Any, count: int, topic: str = "work"
    ) -> None:
        self.topic, self.partition = topic, 0
        self.offset = offset
        self.key = key
        self.value = b"%d" % offset
        self.delivery_count = count
        self.lock_deadline = queue.loop.time() + queue.lock
        self._lock_duration = queue.lock
        self.outcome: str | None = None
        self._queue = queue

    @property
    def settled(self) -> bool:
        return self.outcome is not None

    def _settle(self, outcome: str) -> asyncio.Future[None]:
        assert self.outcome is None, f"{self.offset}: {self.outcome}, then {outcome}"
        self.outcome = outcome
        self._queue.on_outcome(self, outcome)
        future: asyncio.Future[None] = self._queue.loop.create_future()
        future.set_result(None)
        return future

    def accept(self) -> asyncio.Future[None]:
        return self._settle("accepted")

    def _accept_undecided(self) -> None:
        if not self.settled:
            self.accept()

    def release(self) -> asyncio.Future[None]:
        return self._settle("released")

    def reject(self) -> asyncio.Future[None]:
        return self._settle("rejected")

    def renew(self) -> asyncio.Future[None]:
        assert self.outcome is None, f"{self.offset}: {self.outcome}, then renewed"
        queue = self._queue
        queue.renewals.append((self.offset, queue.loop.time()))
        future: asyncio.Future[None] = queue.loop.create_future()
        error = queue.renewal_errors.pop(0) if queue.renewal_errors else None

        def answer() -> None:
            if error is not None:
                future.set_exception(error)
            else:
                self.lock_deadline = queue.loop.time() + queue.lock
                future.set_result(None)
            future.exception()  # the caller may not read it

        queue.loop.call_later(queue.round_trip, answer)
        return future

    def __hash__(self) -> int:
        raise TypeError("a ConsumerRecord is not hashable, either")


class FakeQueue:
    """The source that `run` reads from.

    Args:
        keys: The records' keys; their offsets count from 0.
        lock: The lock duration in seconds.

    Attributes:
        outcomes: (offset, outcome, time) in order.
        requests: `max_records` of each call of getmany.
        renewals: (offset, time) of each.
        renewal_errors: Consumed by the next renewals; None: succeeds.
        errors: Raised by the next calls of getmany.
        outstanding: Acquired and neither settled nor lost.
    """

    def __init__(self, keys: Sequence[Any] = (), *, lock: float = 30.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.lock = lock
        self.round_trip = 0.01
        self.limit = 5
        self.available: list[tuple[int, Any, int]] = [(n, key, 0) for n, key in enumerate(keys)]
        self.outcomes: list[tuple[int, str, float]] = []
        self.requests: list[int] = []
        self.renewals: list[tuple[int, float]] = []
        self.renewal_errors: list[KafkaError | None] = []
        self.errors: list[BaseException] = []
        self.delivered: list[FakeRecord] = []
        self.outstanding: dict[int, FakeRecord] = {}
        self.most_outstanding = 0
        self._arrived = asyncio.Event()

    def add(self, key: Any = None) -> int:
        offset = len({offset for offset, _, _ in self.available} | {*self.outstanding}) + len(
            {offset for offset, _, _ in self.outcomes}
        )
        self.available.append((offset, key, 0))
        self._arrived.set()
        return offset

    async def getmany(self, *, timeout_ms: float, max_records: int) -> list[FakeRecord]:
        assert max_records >= 1
        self.requests.append(max_records)
        await asyncio.sleep(self.round_trip)
        if self.errors:
            raise self.errors.pop(0)
        if not self.available:
            self._arrived.clear()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._arrived.wait()
            except TimeoutError:
                return []
            if self.errors:
                raise self.errors.pop(0)
        taken, self.available = self.available[:max_records], self.available[max_records:]
        records = [FakeRecord(self, offset, key, count + 1) for offset, key, count in taken]
        self.delivered += records
        for record in records:
            self.outstanding[record.offset] = record
        self.most_outstanding = max(self.most_outstanding, len(self.outstanding))
        return records

    def on_outcome(self, record: FakeRecord, outcome: str) -> None:
        self.outcomes.append((record.offset, outcome, self.loop.time()))
        self.outstanding.pop(record.offset, None)
        if outcome == "released" and record.delivery_count < self.limit:
            self.available.insert(0, (record.offset, record.key, record.delivery_count))
            self._arrived.set()

    def fail(self, error: BaseException) -> None:
        """Let getmany raise."""
        self.errors.append(error)
        self._arrived.set()

    def lose(self, record: FakeRecord) -> None:
        """Move the record to another member."""
        record.lock_deadline = float("-inf")
        self.outstanding.pop(record.offset, None)

    def counts(self) -> Counter[str]:
        return Counter(outcome for _, outcome, _ in self.outcomes)

    def of(self, outcome: str) -> list[int]:
        return [offset for offset, each, _ in self.outcomes if each == outcome]


REFUSED = InvalidRecordStateError("not the owner")

Handler = Callable[[FakeRecord], Awaitable[object]]
