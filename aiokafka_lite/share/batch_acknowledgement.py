"""The awaitable of several acknowledgements."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar

from aiokafka_lite.share.records.record_marks import Acknowledgement

__all__ = ["BatchAcknowledgement"]

_Callback = Callable[["BatchAcknowledgement"], object]


class BatchAcknowledgement:
    """The acknowledgements of several records; awaiting it waits for all of them.

    asyncio accepts it as a future: `wait`, `gather`, `wait_for`, `shield` and `as_completed` take
    it as it is.

    Raises:
        KafkaError: The first failure, in the order of the records, once all have a result.
            `failures` has the others.

    Cancellation: stops the wait, never the acknowledgements.
    """

    __slots__ = ("_acknowledgements", "_callbacks", "_cancelled", "_waiters", "_watches")

    _asyncio_future_blocking: ClassVar[bool] = False  # this makes it a future for asyncio

    def __init__(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        self._acknowledgements = acknowledgements
        self._callbacks: list[tuple[_Callback, contextvars.Context]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._cancelled = False
        self._watches = False  # one of the acknowledgements calls `_look`

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self.get_loop()

    @property
    def _cancel_message(self) -> None:
        return None  # asyncio.gather() reads it

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the consumer's event loop; the running one if there are no records."""
        if self._acknowledgements:
            return self._acknowledgements[0].get_loop()
        return asyncio.get_running_loop()

    def done(self) -> bool:
        """True if all results are known, or the waits were cancelled."""
        return self._cancelled or all(each.done() for each in self._acknowledgements)

    def cancelled(self) -> bool:
        """True if `cancel` has stopped the waits."""
        return self._cancelled

    def result(self) -> None:
        """Return None once all records are acknowledged.

        Raises:
            asyncio.InvalidStateError: A result is missing.
            asyncio.CancelledError: The waits were cancelled.
            KafkaError: As with `await`.
        """
        if self._cancelled:
            raise asyncio.CancelledError
        if not self.done():
            raise asyncio.InvalidStateError("some acknowledgements have no result yet")
        for each in self._acknowledgements:
            each.result()

    def exception(self) -> BaseException | None:
        """Return what `await` raises, or None.

        Raises:
            asyncio.InvalidStateError: A result is missing.
            asyncio.CancelledError: The waits were cancelled.
        """
        try:
            self.result()
        except asyncio.InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    @property
    def failures(self) -> dict[int, Exception]:
        """The failures known so far, by index of the record."""
        failures: dict[int, Exception] = {}
        for index, each in enumerate(self._acknowledgements):
            if each.done():
                try:
                    each.result()
                except Exception as error:
                    failures[index] = error
        return failures

    def cancel(self, msg: object = None) -> bool:
        """Cancel all waits for this batch, whose acknowledgements are sent nevertheless.

        Returns:
            False if it was already done.
        """
        if self.done():
            return False
        self._cancelled = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.cancel()
        self._finish()
        return True

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        return asyncio.CancelledError()

    def add_done_callback(
        self, callback: _Callback, /, *, context: contextvars.Context | None = None
    ) -> None:
        """Call back in the event loop once it is done."""
        if context is None:
            context = contextvars.copy_context()
        if self.done():
            self.get_loop().call_soon(callback, self, context=context)
        else:
            self._callbacks.append((callback, context))
            self._watch()

    def remove_done_callback(self, callback: _Callback, /) -> int:
        """Remove a callback; returns how often it was there."""
        before = len(self._callbacks)
        self._callbacks = [each for each in self._callbacks if each[0] != callback]
        return before - len(self._callbacks)

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done():
            waiter = self.get_loop().create_future()
            self._waiters.append(waiter)
            self._watch()
            try:
                yield from waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        self.result()

    __iter__ = __await__

    def _watch(self) -> None:
        if not self._watches:
            self._watches = True
            self._look()

    def _look(self, _: Acknowledgement | None = None) -> None:
        """Watch the first acknowledgement without a result: most share one outcome."""
        for each in self._acknowledgements:
            if not each.done():
                each.add_done_callback(self._look)
                return
        if not self._cancelled:
            self._finish()

    def _finish(self) -> None:
        """All results are known: wake the waiting tasks, and schedule the callbacks."""
        waiters, self._waiters = self._waiters, []
        callbacks, self._callbacks = self._callbacks, []
        loop = self.get_loop()
        if loop.is_closed():
            return
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback, context in callbacks:
            loop.call_soon(callback, self, context=context)

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "done" if self.done() else "pending"
        return f"<BatchAcknowledgement of {len(self._acknowledgements)} records, {state}>"
