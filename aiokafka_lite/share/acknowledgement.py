"""The awaitable that acknowledging a record returns, and the outcome that many of them share.

All marks of an acquisition that leave in one request share an `Outcome`. An `Acknowledgement` adds
only the record's offset, so marking a record costs one light object and neither a future nor a
task.

Non-obvious:
- Each `await` has a future of its own: cancelling one waiter affects no other, and never the
  acknowledgement, which is sent in any case.
- A failure that the application has not seen is reported when the last reference to the outcome is
  gone, as asyncio does with futures.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Generator
from typing import Any, Protocol

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


class Outcome:
    """What became of the marks of one partition that were sent together.

    Args:
        owner: Sends the marks.
        topic_partition: The partition.

    Attributes:
        pending: Marks without a result yet.
        done: True once every mark has its result.
        failures: Those that failed.
        deadlines: Of renewals, once done: the new lock deadline (loop time) by offset range.
    """

    __slots__ = (
        "_owner",
        "_seen",
        "_waiters",
        "deadlines",
        "done",
        "failures",
        "pending",
        "topic_partition",
    )

    def __init__(self, owner: OutcomeOwner, topic_partition: TopicPartition) -> None:
        self._owner = owner
        self._waiters: list[asyncio.Future[None]] = []
        self._seen = False
        self.topic_partition = topic_partition
        self.pending = 0
        self.done = False
        self.failures: Failures = []
        self.deadlines: list[tuple[int, int, float]] = []

    @property
    def awaited(self) -> bool:
        """True if a task waits for it."""
        return bool(self._waiters)

    def settle(self, count: int) -> None:
        """So many of the marks have their result; the last one ends the waits."""
        self.pending -= count
        if self.pending > 0 or self.done:
            return
        self.done = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

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
        """Return the new deadline of a renewed lock, else None.

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
                duplicate = copy.copy(error)
                duplicate.__cause__ = error.__cause__
                raise duplicate
        for first, last, deadline in self.deadlines:
            if first <= offset <= last:
                return deadline
        return None

    def wait(self) -> asyncio.Future[None]:
        """Return a future of its end, which belongs to one waiter."""
        waiter: asyncio.Future[None] = self._owner.loop.create_future()
        self._waiters.append(waiter)
        self._owner.on_awaited()
        return waiter

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Call back in the next pass of the event loop."""
        self._owner.loop.call_soon(callback, *args)

    def give_up(self, waiter: asyncio.Future[None]) -> None:
        """A waiter was cancelled."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def __del__(self) -> None:
        if self.failures and not self._seen:
            self._owner.on_unseen_failure(self.topic_partition, self.failures)


class Acknowledgement:
    """The acknowledgement of one record; awaiting it waits for the broker's answer.

    `await` returns None, or for a renewal the new `lock_deadline`. An acknowledgement that is not
    awaited is sent nevertheless, with the next fetch or within a few milliseconds; if it fails, the
    failure is logged.

    Raises:
        InvalidRecordStateError: The record was no longer locked for this consumer: the time of the
            lock was over, or the session with the broker was lost. The group delivers the record
            again, unless it reached the limit of deliveries.
        KafkaError: The request failed; `ambiguous` is true if it may have taken effect.

    Cancellation: stops the wait, never the acknowledgement.
    """

    __slots__ = ("_offset", "_outcome")

    def __init__(self, outcome: Outcome, offset: int) -> None:
        self._outcome = outcome
        self._offset = offset

    def done(self) -> bool:
        """True if the result is known."""
        return self._outcome.done

    def result(self) -> float | None:
        """Return what `await` returns.

        Raises:
            asyncio.InvalidStateError: There is no result yet.
            KafkaError: As with `await`.
        """
        return self._outcome.result(self._offset)

    def exception(self) -> BaseException | None:
        """Return what `await` raises, or None.

        Raises:
            asyncio.InvalidStateError: There is no result yet.
        """
        try:
            self.result()
        except asyncio.InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[Acknowledgement], object], /) -> None:
        """Call back in the event loop once the result is known."""
        if self._outcome.done:
            self._outcome.call_soon(callback, self)
        else:
            self._outcome.wait().add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, None, float | None]:
        yield from self._until_settled()
        return self._outcome.result(self._offset)

    def _until_settled(self) -> Generator[Any, None, None]:
        """Wait for the result, without raising it."""
        outcome = self._outcome
        if not outcome.done:
            waiter = outcome.wait()
            try:
                yield from waiter
            finally:
                outcome.give_up(waiter)

    def __repr__(self) -> str:
        topic, partition = self._outcome.topic_partition
        state = "done" if self._outcome.done else "pending"
        return f"<Acknowledgement of {topic}-{partition} offset {self._offset}, {state}>"
