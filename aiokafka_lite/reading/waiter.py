"""The future of a task that may be woken at once.

An asyncio future wakes its task in the next iteration of the event loop. With its poll of the
sockets, that iteration may cost more than what the task does then. This future can run the task
within the callback that wakes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

__all__ = ["Waiter"]


class Waiter:
    """The future that a waiting task awaits, with only the methods that a task uses.

    Args:
        loop: The task's event loop.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_cancelled",
        "_context",
        "_done",
        "_loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._callback: Callable[[Waiter], object] | None = None  # the task's next step
        self._context: Context | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._done = False

    def wake(self) -> None:
        """Resume the task in the next iteration of the event loop."""
        if not self._done:
            self._done = True
            if self._callback is not None:  # otherwise the task has not suspended, and will not
                self._loop.call_soon(self._callback, self, context=self._context)

    def wake_now(self) -> None:
        """Run the task until it suspends again or ends. Call it from an event loop callback whose
        state is consistent. (Not from a task: only one task runs at a time.)
        """
        if self._done:
            return
        self._done = True
        callback, context = self._callback, self._context
        if callback is None or context is None:
            return
        try:
            context.run(callback, self)
        except (SystemExit, KeyboardInterrupt) as error:
            # This stops the loop, but not here, where callers may be in the middle of an update.
            self._loop.call_soon(_raise, error)

    # The methods that a task calls

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context) -> None:
        self._callback, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:
        if self._done:
            return False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self.wake()
        return True

    def result(self) -> Any:
        if self._cancelled is not None:
            raise self._cancelled


def _raise(error: BaseException) -> None:
    raise error
