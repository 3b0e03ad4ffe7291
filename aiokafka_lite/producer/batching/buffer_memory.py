"""The producer's memory: a budget in bytes for which coroutines wait, and its buffers.

Kafka's `BufferPool` without its lock. Exactly one size, the batch size, is pooled: a returned
buffer of that size is kept and reused, so that a busy producer touches the same memory again and
again (it stays in cache and causes no page faults). A buffer of any other size is allocated,
counted in the budget, and dropped after use; pooled buffers are dropped if it does not fit.

Non-obvious:
- The pool starts empty: `_available` counts the bytes that are in no buffer at all, and
  available + pooled buffers + handed out + gathered by the first waiter is always the total.
- Waiters are served first in, first out. While there are waiters, every request has to wait: a
  small one never starves a larger one that came first.
- Only the first waiter gathers memory, piece by piece, as it is released. When a waiter leaves the
  queue, served or not, the next one checks the pool, so no wake-up is lost.
- Memory belongs to a waiter from the moment its future is resolved. A waiter cancelled between that
  moment and its next step gives the buffer back itself.
- All waiters share one timer, because a timeout for each would cost more than the wait. The timer
  is not cancelled when the last waiter is served, because another one is likely to follow at once.
"""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Callable

from aiokafka_lite.errors import KafkaTimeoutError

__all__ = ["MemoryPool"]


class _Waiter:
    """A queued request: its size, the bytes gathered for it, and the future to resolve."""

    __slots__ = ("began", "deadline", "future", "gathered", "size")

    def __init__(
        self, size: int, began: float, deadline: float, future: "asyncio.Future[bytearray]"
    ) -> None:
        self.size = size
        self.began = began
        self.deadline = deadline
        self.future = future
        self.gathered = 0


class MemoryPool:
    """An awaitable semaphore in bytes that hands out buffers.

    Args:
        total: Budget in bytes for all buffers together (`buffer_memory`).
        poolable_size: The one size in bytes that is kept for reuse (`max_batch_size`).
        why_short: Explains why no memory is released, for the error of a waiter that timed out.

    Source: Kafka's `BufferPool` (`buffer.memory`, `max.block.ms`).
    """

    def __init__(self, total: int, poolable_size: int, why_short: Callable[[], str]) -> None:
        self.total = total
        self.poolable_size = poolable_size
        self._why_short = why_short
        self.exhausted = 0
        """The number of requests that had to wait since the pool was created."""
        self._available = total  # bytes that are in no buffer
        self.pooled: list[bytearray] = []
        """The buffers that are kept for reuse: a stack, because the last one is the warmest.

        Native code takes and gives buffers here while there are no waiters.
        """
        self.waiters: OrderedDict[_Waiter, None] = OrderedDict()
        """The waiters in order. The first one is served; any waiter may leave."""
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0  # not `_timer.when()`: uvloop's handle of a past time has none
        self._closed: BaseException | None = None

    @property
    def unused(self) -> int:
        """Bytes that are free: pooled buffers, and bytes that are in no buffer."""
        return self._available + len(self.pooled) * self.poolable_size

    @property
    def used(self) -> int:
        """Bytes handed out or gathered for the first waiter."""
        return self.total - self.unused

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self.waiters)

    def try_take(self, size: int) -> bytearray | None:
        """Take a buffer of `size` bytes at once; None if too little is free or others wait.

        Raises:
            ValueError: `size` is more than the whole pool will ever have.
        """
        if self._closed is not None or size > self.total:
            raise self._refusal(size)
        if self.waiters:
            return None
        if size == self.poolable_size and self.pooled:
            return self.pooled.pop()
        if self.unused < size:
            return None
        self._free_up(size)
        buffer = bytearray(size)
        self._available -= size
        return buffer

    async def take(self, size: int, deadline: float) -> bytearray:
        """Take a buffer of `size` bytes, waiting in turn until enough memory is free.

        Args:
            size: Bytes.
            deadline: Loop time until which to wait.

        Raises:
            KafkaTimeoutError: The deadline passed; gathered memory is given back.
            ValueError: `size` is more than the whole pool will ever have.

        Cancellation: gives all memory back, even if it was granted already.
        """
        buffer = self.try_take(size)
        if buffer is not None:
            return buffer
        loop = asyncio.get_running_loop()
        waiter = _Waiter(size, loop.time(), deadline, loop.create_future())
        self.waiters[waiter] = None
        self.exhausted += 1
        self._serve()  # the first waiter may be able to gather memory already
        if not waiter.future.done():
            self._arm(loop, deadline)
        try:
            return await waiter.future
        except BaseException:
            if waiter in self.waiters:
                self._leave(waiter)
            elif not waiter.future.cancelled() and waiter.future.exception() is None:
                self.give(waiter.future.result())  # granted, but not received
            raise

    def give(self, buffer: bytearray) -> None:
        """Give a buffer back and serve the next waiter. The caller must not use the buffer
        afterwards."""
        if len(buffer) == self.poolable_size:
            self.pooled.append(buffer)
        else:
            self._available += len(buffer)
        if self.waiters:
            self._serve()

    def close(self, error: BaseException) -> None:
        """Fail all waiters and all later requests with `error`. Buffers can still be given back."""
        self._closed = error
        while self.waiters:
            waiter = next(iter(self.waiters))
            self._remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(copy.copy(error))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refusal(self, size: int) -> BaseException:
        if self._closed is not None:
            return copy.copy(self._closed)
        return ValueError(f"{size} bytes are more than all of buffer_memory ({self.total} bytes)")

    def _free_up(self, size: int) -> None:
        """Drop pooled buffers until `size` bytes are in no buffer, or no pooled one is left."""
        while self._available < size and self.pooled:
            self.pooled.pop()
            self._available += self.poolable_size

    def _serve(self) -> None:
        """Serve the waiters in order, until one cannot be satisfied."""
        while self.waiters:
            waiter = next(iter(self.waiters))
            if waiter.future.done():  # cancelled: its task has not run yet, but its place is free
                self._remove(waiter)
                continue
            if waiter.size == self.poolable_size and not waiter.gathered and self.pooled:
                self.waiters.pop(waiter)
                waiter.future.set_result(self.pooled.pop())
                continue
            missing = waiter.size - waiter.gathered
            self._free_up(missing)
            piece = min(missing, self._available)
            self._available -= piece
            waiter.gathered += piece
            if waiter.gathered < waiter.size:
                return
            try:
                buffer = bytearray(waiter.size)
            except MemoryError as error:  # the machine has less memory than the budget
                self._remove(waiter)
                waiter.future.set_exception(error)
                continue
            self.waiters.pop(waiter)
            waiter.gathered = 0
            waiter.future.set_result(buffer)

    def _leave(self, waiter: _Waiter) -> None:
        self._remove(waiter)
        self._serve()

    def _remove(self, waiter: _Waiter) -> None:
        """Remove a waiter from the queue; the memory it gathered is free again."""
        self.waiters.pop(waiter)
        self._available += waiter.gathered
        waiter.gathered = 0

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            if self._fires_at <= deadline:
                return
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail all waiters whose deadline has passed, then set the timer for the next deadline."""
        self._timer = None
        now = loop.time()
        earliest = float("inf")
        for waiter in list(self.waiters):
            if waiter.deadline > now:
                earliest = min(earliest, waiter.deadline)
                continue
            self._remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(self._too_late(waiter.size, now - waiter.began))
        self._serve()
        if self.waiters:
            self._arm(loop, earliest)

    def _too_late(self, size: int, passed: float) -> KafkaTimeoutError:
        error = KafkaTimeoutError(
            f"{size} bytes of buffer_memory ({self.total} bytes) did not become free within "
            f"{passed:.3g} s: {self._why_short()}"
        )
        error.ambiguous = False  # a record that waits for memory is in no batch
        return error
