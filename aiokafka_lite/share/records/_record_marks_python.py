"""The pure-Python twin of the marks and their awaitables: the specification, and the build without
a compiler."""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Final

from aiokafka_lite.share.records.offset_states import (
    ABSENT,
    ACCEPT,
    DONE,
    HELD,
    IN_FLIGHT,
    LOST,
    REJECT,
)

__all__ = ["Acknowledgement", "Marks", "OutcomeCore", "awaiting", "until_settled"]

_TERMINAL: Final = re.compile(rb"[\x00-\x03]+")
_TAKEN: Final = bytes(state | IN_FLIGHT if state <= REJECT else state for state in range(256))
_ENDED: Final = bytes((DONE, LOST, ABSENT))


class OutcomeCore:
    """The part of an outcome that marking a record uses; `Outcome` is its only subclass.

    Attributes:
        pending: Marks without a result yet.
        done: True once every mark has its result.
    """

    __slots__ = ("done", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.done = False

    # `Outcome` defines the rest.

    def result(self, offset: int) -> float | None:
        raise NotImplementedError

    def wait(self) -> asyncio.Future[None]:
        raise NotImplementedError

    def give_up(self, waiter: asyncio.Future[None]) -> None:
        raise NotImplementedError

    def watch(self, acknowledgement: Acknowledgement) -> None:
        raise NotImplementedError

    def unwatch(self, acknowledgement: Acknowledgement) -> None:
        raise NotImplementedError

    def describe(self, offset: int) -> str:
        raise NotImplementedError

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        raise NotImplementedError


class Acknowledgement:
    """The acknowledgement of one record; awaiting it waits for the broker's answer.

    `await` returns None, or for a renewal the new `lock_deadline`. An acknowledgement that is not
    awaited is sent nevertheless, with the next fetch or within a few milliseconds; if it fails, the
    failure is logged. asyncio accepts it as a future: `wait`, `gather`, `wait_for`, `shield` and
    `as_completed` take it as it is.

    Raises:
        InvalidRecordStateError: The record was no longer locked for this consumer: the time of the
            lock was over, or the session with the broker was lost. The group delivers the record
            again, unless it reached the limit of deliveries.
        KafkaError: The request failed; `ambiguous` is true if it may have taken effect.

    Cancellation: stops the wait, never the acknowledgement.
    """

    __slots__ = ("_callbacks", "_cancelled", "_offset", "_outcome", "_waiters")

    _asyncio_future_blocking: ClassVar[bool] = False  # this makes it a future for asyncio

    def __init__(self, outcome: OutcomeCore, offset: int) -> None:
        self._outcome = outcome
        self._offset = offset
        self._cancelled = False
        self._callbacks: list[tuple[Callable[[Any], object], contextvars.Context]] | None = None
        self._waiters: list[asyncio.Future[None]] | None = None

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._outcome.loop

    @property
    def _cancel_message(self) -> None:
        return None  # asyncio.gather() reads it

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the consumer's event loop."""
        return self._outcome.loop

    def done(self) -> bool:
        """True if the result is known, or the waits were cancelled."""
        return self._cancelled or self._outcome.done

    def cancelled(self) -> bool:
        """True if `cancel` has stopped the waits."""
        return self._cancelled

    def result(self) -> float | None:
        """Return what `await` returns.

        Raises:
            asyncio.InvalidStateError: There is no result yet.
            asyncio.CancelledError: The waits were cancelled.
            KafkaError: As with `await`.
        """
        if self._cancelled:
            raise asyncio.CancelledError
        return self._outcome.result(self._offset)

    def exception(self) -> BaseException | None:
        """Return what `await` raises, or None.

        Raises:
            asyncio.InvalidStateError: There is no result yet.
            asyncio.CancelledError: The waits were cancelled.
        """
        try:
            self.result()
        except asyncio.InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def cancel(self, msg: object = None) -> bool:
        """Cancel all waits for this acknowledgement, which is sent nevertheless.

        Returns:
            False if it was done already.
        """
        if self.done():
            return False
        self._cancelled = True
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            waiter.cancel()
        if self._callbacks is not None:
            self._outcome.unwatch(self)
            self._call_back()
        return True

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        return asyncio.CancelledError()

    def add_done_callback(
        self,
        callback: Callable[[Acknowledgement], object],
        /,
        *,
        context: contextvars.Context | None = None,
    ) -> None:
        """Call back in the event loop once it is done. It is sent at once then."""
        if context is None:
            context = contextvars.copy_context()
        if self.done():
            self._outcome.loop.call_soon(callback, self, context=context)
        elif self._callbacks is None:
            self._callbacks = [(callback, context)]
            self._outcome.watch(self)
        else:
            self._callbacks.append((callback, context))

    def remove_done_callback(self, callback: Callable[[Acknowledgement], object], /) -> int:
        """Remove a callback; returns how often it was there."""
        if self._callbacks is None:
            return 0
        before = len(self._callbacks)
        self._callbacks = [each for each in self._callbacks if each[0] != callback]
        removed = before - len(self._callbacks)
        if not self._callbacks:
            self._callbacks = None
            self._outcome.unwatch(self)
        return removed

    def _call_back(self) -> None:
        """It is done: schedule the callbacks."""
        callbacks, self._callbacks = self._callbacks, None
        loop = self._outcome.loop
        if callbacks is None or loop.is_closed():
            return
        for fn, context in callbacks:
            loop.call_soon(fn, self, context=context)

    def __await__(self) -> Generator[Any, None, float | None]:
        return awaiting(self)

    __iter__ = __await__

    # for `awaiting` and `until_settled`, which both builds share

    def _begin_wait(self) -> asyncio.Future[None]:
        waiter = self._outcome.wait()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        return waiter

    def _end_wait(self, waiter: asyncio.Future[None]) -> None:
        self._outcome.give_up(waiter)
        if self._waiters is not None and waiter in self._waiters:
            self._waiters.remove(waiter)

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "done" if self._outcome.done else "pending"
        return f"<Acknowledgement of {self._outcome.describe(self._offset)}, {state}>"


def awaiting(acknowledgement: Acknowledgement) -> Generator[Any, None, float | None]:
    """`await acknowledgement`. Each wait has its own future, so that cancelling one affects no
    other."""
    yield from until_settled(acknowledgement)
    return acknowledgement.result()


def until_settled(acknowledgement: Acknowledgement) -> Generator[Any, None, None]:
    """Wait for the result without raising it."""
    if not acknowledgement.done():
        waiter = acknowledgement._begin_wait()
        try:
            yield from waiter
        finally:
            acknowledgement._end_wait(waiter)


class Marks:
    """The states of the offsets of one acquisition; `Acquisition` is its only subclass.

    Args:
        base: The first offset.
        states: One of `offset_states` for each offset.
        deadline: Loop time when the locks may end, at the earliest.
        duration: Seconds that the broker locks records.

    Attributes:
        outcome: Of the terminal marks that were not taken yet, or None.
        refusal: Why the application may not acknowledge (the implicit mode), or None.
        renewed: Deadlines that differ, by offset.
    """

    __slots__ = ("base", "deadline", "duration", "outcome", "refusal", "renewed", "states")

    def __init__(
        self, base: int, states: bytearray, deadline: float, duration: float = 30.0
    ) -> None:
        self.base = base
        self.states = states
        self.deadline = deadline
        self.duration = duration
        self.outcome: OutcomeCore | None = None
        self.refusal: str | None = None
        self.renewed: dict[int, float] = {}

    def mark(self, offset: int, kind: int) -> Acknowledgement:
        """Acknowledge a record with a terminal type.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        index = offset - self.base
        outcome = self.outcome
        if (
            outcome is not None
            and self.refusal is None
            and ACCEPT <= kind <= REJECT
            and 0 <= index < len(self.states)
            and self.states[index] == HELD
        ):
            self.states[index] = kind
            outcome.pending += 1
            return Acknowledgement(outcome, offset)
        return self._mark_slowly(offset, kind)

    def accept_undecided(self, offset: int) -> None:
        """Accept a record unless it is marked, without an acknowledgement object."""
        index = offset - self.base
        outcome = self.outcome
        if (
            outcome is not None
            and self.refusal is None
            and 0 <= index < len(self.states)
            and self.states[index] == HELD
        ):
            self.states[index] = ACCEPT
            outcome.pending += 1
        elif not self.is_marked(offset):
            self._mark_slowly(offset, ACCEPT)

    def _mark_slowly(self, offset: int, kind: int) -> Acknowledgement:
        """Mark a record that is the first of an outcome, or refuse the mark."""
        raise NotImplementedError

    def renew(self, offset: int) -> Acknowledgement:
        """Restart the time of a record's lock."""
        raise NotImplementedError

    def mark_undecided(self, first: int, last: int, kind: int) -> int:
        """Mark all undecided records of a range."""
        raise NotImplementedError

    def hold(self, offset: int) -> bool:
        """Record that an offset has a record. Returns True if the offset was acquired."""
        index = offset - self.base
        if not 0 <= index < len(self.states) or self.states[index]:
            return False
        self.states[index] = HELD
        return True

    def take_marked(self) -> list[tuple[int, bytes]]:
        """Take the terminal marks and gaps for a request.

        Returns:
            The first offset, and the type of each, of all consecutive ones.
        """
        runs = [
            (self.base + found.start(), found.group()) for found in _TERMINAL.finditer(self.states)
        ]
        self.states = self.states.translate(_TAKEN)
        return runs

    def end(self, first: int, last: int, state: int) -> int:
        """Settle the offsets of a range, all of which belong to this acquisition, with a state.

        Returns:
            The number of offsets that were not settled before.
        """
        start, stop = first - self.base, last + 1 - self.base
        if not 0 <= start <= stop <= len(self.states):
            raise IndexError(f"offsets {first} to {last} were not acquired here")
        open_before = len(self.states[start:stop].translate(None, _ENDED))
        self.states[start:stop] = bytes([state]) * (stop - start)
        return open_before

    def is_marked(self, offset: int) -> bool:
        """True if a record has a terminal acknowledgement, sent or to be sent."""
        state = self.states[offset - self.base]
        return state == DONE or ACCEPT <= state & ~IN_FLIGHT <= REJECT

    def deadline_of(self, offset: int) -> float:
        """Loop time when a record's lock may end; 0.0 if it is gone."""
        if self.states[offset - self.base] == LOST:
            return 0.0
        return self.renewed.get(offset, self.deadline) if self.renewed else self.deadline
