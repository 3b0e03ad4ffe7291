"""A request that a broker completes although its client has disconnected."""

import asyncio
from collections.abc import Callable

from aiokafka_lite.testing.context import Delayed

__all__ = ["AbandonedWait"]


class AbandonedWait:
    """Waits for the response of a request whose connection is closed, and drops the response.

    Kafka does not read from a connection while one of its requests waits, and so learns only when
    it sends the response that the client has gone. Until then a ShareFetch may acquire records.

    Args:
        delayed: The request.
        ends_at: When it times out, on the event loop's clock; None if it has no timeout.
        on_end: Called once the request is complete, or failed with the exception.
    """

    def __init__(
        self,
        delayed: Delayed,
        ends_at: float | None,
        on_end: "Callable[[AbandonedWait, Exception | None], None]",
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._delayed = delayed
        self._on_end = on_end
        self._check_handle: asyncio.Handle | None = None
        self._timer = None if ends_at is None else self._loop.call_at(ends_at, self._time_out)
        for watchers in delayed.watched:
            watchers.add(self._wake)

    def cancel(self) -> None:
        """End the wait without completing the request, when the broker is killed."""
        self._stop()
        self._delayed.cancel()

    def _wake(self) -> None:
        if self._check_handle is None:
            self._check_handle = self._loop.call_soon(self._check)

    def _check(self) -> None:
        self._check_handle = None
        self._complete(lambda: self._delayed.take_if_ready() is not None)

    def _time_out(self) -> None:
        def take() -> bool:
            self._delayed.take_now()
            return True

        self._complete(take)

    def _complete(self, take: Callable[[], bool]) -> None:
        try:
            is_complete = take()
        except Exception as failure:  # a bug: the owner reports it
            self._stop()
            self._on_end(self, failure)
            return
        if is_complete:
            self._stop()
            self._on_end(self, None)

    def _stop(self) -> None:
        for watchers in self._delayed.watched:
            watchers.remove(self._wake)
        for handle in (self._check_handle, self._timer):
            if handle is not None:
                handle.cancel()
