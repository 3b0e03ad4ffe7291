"""The outcome that the acknowledgements of many records share.

All marks of an acquisition that are sent in one request share an `Outcome`. An `Acknowledgement`
adds only the record's offset, so marking a record costs one light object and neither a future nor a
task.

Non-obvious:
- Each `await` has its own future: cancelling one waiter affects no other, and never the
  acknowledgement, which is sent in any case.
- A failure that the application has not seen is reported when the last reference to the outcome is
  gone, as asyncio does with futures.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Protocol

from aiokafka_lite.share.records.record_marks import Acknowledgement, OutcomeCore
from aiokafka_lite.structs import TopicPartition

__all__ = ["Acknowledgement", "Outcome", "OutcomeOwner"]


class OutcomeOwner(Protocol):
    """The connection that sends the acknowledgements of an outcome."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The consumer's event loop."""

    def on_awaited(self) -> None:
        """A task awaits an acknowledgement: send it now."""

    def on_unseen_failure(self, topic_partition: TopicPartition, failures: Failures) -> None:
        """Acknowledgements failed, and the application did not await them."""


Failures = list[tuple[int, int, BaseException]]
"""(first offset, last offset, error) of acknowledgements that failed."""


class Outcome(OutcomeCore):
    """The outcome of the marks of one partition that were sent together.

    Args:
        owner: Sends the marks.
        topic_partition: The partition.

    Attributes:
        failures: The marks that failed.
        deadlines: The new lock deadlines (loop time) of renewals by offset range, once done.
    """

    __slots__ = (
        "_owner",
        "_seen",
        "_waiters",
        "_watchers",
        "deadlines",
        "failures",
        "topic_partition",
    )

    def __init__(self, owner: OutcomeOwner, topic_partition: TopicPartition) -> None:
        super().__init__()
        self._owner = owner
        self._waiters: list[asyncio.Future[None]] = []
        self._watchers: list[Acknowledgement] = []  # with callbacks
        self._seen = False
        self.topic_partition = topic_partition
        self.failures: Failures = []
        self.deadlines: list[tuple[int, int, float]] = []

    @property
    def awaited(self) -> bool:
        """True if a task waits for it."""
        return bool(self._waiters or self._watchers)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The consumer's event loop."""
        return self._owner.loop

    def settle(self, count: int) -> None:
        """Record that this many marks have their result; the last one ends the waits."""
        self.pending -= count
        if self.pending > 0 or self.done:
            return
        self.done = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        watchers, self._watchers = self._watchers, []
        for acknowledgement in watchers:
            acknowledgement._call_back()

    def fail(self, first: int, last: int, error: BaseException, count: int) -> None:
        """The marks of these offsets failed, `count` of them (the others are gaps)."""
        if not count:
            return
        previous = self.failures[-1] if self.failures else None
        if previous is not None and previous[1] + 1 == first and previous[2] is error:
            self.failures[-1] = (previous[0], last, error)
        else:
            self.failures.append((first, last, error))
        self.settle(count)

    def renewed(self, first: int, last: int, deadline: float, count: int) -> None:
        """These locks were renewed."""
        self.deadlines.append((first, last, deadline))
        self.settle(count)

    def result(self, offset: int) -> float | None:
        """Return the new deadline of a renewed lock, otherwise None.

        Raises:
            KafkaError: The mark failed; a new copy for each call.
            InvalidStateError: There is no result yet.
        """
        if not self.done:
            raise asyncio.InvalidStateError("the acknowledgement has no result yet")
        self._seen = True
        for first, last, error in self.failures:
            if first <= offset <= last:
                # One exception for all records would collect the tracebacks of all.
                raise copy.copy(error)
        for first, last, deadline in self.deadlines:
            if first <= offset <= last:
                return deadline
        return None

    def wait(self) -> asyncio.Future[None]:
        """Return a future for one waiter, which resolves once all results are known."""
        waiter: asyncio.Future[None] = self._owner.loop.create_future()
        self._waiters.append(waiter)
        self._owner.on_awaited()
        return waiter

    def give_up(self, waiter: asyncio.Future[None]) -> None:
        """A waiter was cancelled."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def watch(self, acknowledgement: Acknowledgement) -> None:
        """An acknowledgement has callbacks."""
        self._watchers.append(acknowledgement)
        self._owner.on_awaited()

    def unwatch(self, acknowledgement: Acknowledgement) -> None:
        """An acknowledgement no longer has callbacks."""
        self._watchers = [each for each in self._watchers if each is not acknowledgement]

    def describe(self, offset: int) -> str:
        """Name a record of the partition."""
        topic, partition = self.topic_partition
        return f"{topic}-{partition} offset {offset}"

    def __del__(self) -> None:
        if self.failures and not self._seen:
            self._owner.on_unseen_failure(self.topic_partition, self.failures)
