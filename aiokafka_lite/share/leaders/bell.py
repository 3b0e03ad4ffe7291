"""The awaitables of a leader link's task: a bell for changes, and the response to its fetch.

Both can run the task within the callback that received the response. A future would cost another
iteration of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka_lite.reading.waiter import Waiter

__all__ = ["Answer", "Bell"]


class Bell:
    """An `asyncio.Event` for one task, which can wake it at once.

    Attributes:
        rung: True since `ring`, until `clear`.
    """

    __slots__ = ("_loop", "_waiter", "rung")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: Waiter | None = None
        self.rung = False

    def ring(self) -> None:
        """Let the task continue in the next iteration of the event loop."""
        self.rung = True
        if self._waiter is not None:
            self._waiter.wake()

    def ring_now(self) -> None:
        """Let the task continue before this returns, if it waits; see `Waiter.wake_now`."""
        self.rung = True
        if self._waiter is not None:
            self._waiter.wake_now()

    def clear(self) -> None:
        """Reset it."""
        self.rung = False

    async def wait(self) -> None:
        """Wait until it rings, or has rung since `clear`."""
        if self.rung:
            return
        self._waiter = Waiter(self._loop)
        try:
            await self._waiter
        finally:
            self._waiter = None


class Answer(Waiter):
    """The future of one response.

    Args:
        loop: The task's event loop.
        on_answer: Called with this object once it has its response; it must wake the task.
    """

    __slots__ = ("_error", "_on_answer", "_response")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_answer: Callable[[Waiter], None]
    ) -> None:
        super().__init__(loop)
        self._on_answer = on_answer
        self._response: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: Any, /) -> None:
        self._response = result
        self._on_answer(self)

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self.wake()

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        super().result()
        if self._error is not None:
            raise self._error
        return self._response
