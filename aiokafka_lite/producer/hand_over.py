"""Records from other threads: handed over to the event loop many at a time.

A thread puts its record into a line and wakes the loop only if nobody has since the loop looked
last; so a burst of a thousand records costs one wake-up. The loop takes the whole line at once.

Non-obvious:
- The line is served strictly in order: while its first record waits for memory or a topic, one
  task waits with it and everybody behind it.
- The line is bounded; a thread waits for room in it, so that it cannot outrun the producer. The
  loop's own thread must not wait for itself: it is refused instead.
- The line knows the producer's face weakly, so that a dropped producer is collected at once.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakMethod

from aiokafka_lite.errors import BufferExhaustedError, KafkaTimeoutError, ProducerClosed
from aiokafka_lite.producer.accumulator import Ack, Blocked
from aiokafka_lite.structs import Acknowledged

__all__ = ["HandOver"]

LONGEST_LINE: Final = 10_000  # records

Outcome = Future[Acknowledged]


class _Handed(NamedTuple):
    fields: tuple[Any, ...]  # the arguments of `append`
    outcome: Outcome


class HandOver:
    """The line of one producer. Owns the task that waits for its first record, if one does.

    Args:
        loop: The producer's.
        append: Takes a record; called in the loop.
        wait: Waits for what a record lacks; called in the loop.
        max_block: Seconds that a thread waits for room in the line.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        append: Callable[..., Ack | Blocked],
        wait: Callable[[Blocked], Coroutine[Any, Any, Ack]],
        max_block: float,
    ) -> None:
        self._loop = loop
        self._append = append
        self._wait = WeakMethod(wait)
        self._max_block = max_block
        self._line: deque[_Handed] = deque()
        self._room = threading.Condition()
        self._woken = False  # the loop was told to look, and has not yet
        self._task: asyncio.Task[None] | None = None

    def put(self, fields: tuple[Any, ...]) -> Outcome:
        """Put a record into the line; from any thread.

        Raises:
            KafkaTimeoutError: There was no room in the line within `max_block`.
            BufferExhaustedError: There is none, and this is the loop's own thread.
            ProducerClosed: The producer's loop is closed.
        """
        outcome: Outcome = Future()
        with self._room:
            if len(self._line) >= LONGEST_LINE:
                self._wait_for_room()
            self._line.append(_Handed(fields, outcome))
            if not self._woken:
                self._woken = True
                self._wake()
        return outcome

    def _wait_for_room(self) -> None:
        if _running_loop() is self._loop:
            raise BufferExhaustedError("too many records wait to be handed over to this very loop")
        if not self._room.wait_for(lambda: len(self._line) < LONGEST_LINE, self._max_block):
            raise KafkaTimeoutError(
                f"{LONGEST_LINE} records waited to be handed over for {self._max_block:g} s"
                " (max_block_ms)"
            )

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._on_woken)
        except RuntimeError as error:
            self._line.clear()
            raise ProducerClosed("the producer's event loop is closed") from error

    # In the loop

    def _on_woken(self) -> None:
        """Append all that stand in line, until one has to wait."""
        with self._room:
            self._woken = False
        self.serve()

    def serve(self) -> None:
        """Append what stands in line now, without being woken: the producer flushes, or stops."""
        if self._task is not None:
            return  # it goes on from there
        while (handed := self._next()) is not None:
            blocked = self._try(handed)
            if blocked is not None:
                self._task = self._loop.create_task(
                    self._serve_slowly(handed, blocked), name="aiokafka_lite: hand over"
                )
                return

    async def _serve_slowly(self, handed: _Handed, blocked: Blocked) -> None:
        try:
            wait = self._wait()
            if wait is None:
                raise ProducerClosed("the producer was dropped")
            ack = await wait(blocked)
        except BaseException as error:  # it is the record's, whatever it is
            handed.outcome.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._follow(ack, handed.outcome)
        finally:
            self._task = None
        self.serve()

    def _next(self) -> _Handed | None:
        """The first in line whose sender did not give up, or None."""
        with self._room:
            while self._line:
                handed = self._line.popleft()
                if len(self._line) == LONGEST_LINE - 1:
                    self._room.notify_all()
                if handed.outcome.set_running_or_notify_cancel():
                    return handed
        return None

    def _try(self, handed: _Handed) -> Blocked | None:
        try:
            result = self._append(*handed.fields)
        except Exception as error:  # told to the thread that sent it
            handed.outcome.set_exception(error)
            return None
        if not isinstance(result, Ack):
            return result
        self._follow(result, handed.outcome)
        return None

    def _follow(self, ack: Ack, outcome: Outcome) -> None:
        ack.add_done_callback(partial(_tell, outcome))


def _tell(outcome: Outcome, ack: Ack) -> None:
    error = ack.exception()
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(ack.result())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
