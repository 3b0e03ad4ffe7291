"""The producer's memory: a budget in bytes that coroutines wait for, and the buffers made of it.

Seed 0's `BufferPool` without its lock. Exactly one size, the batch size, is pooled: a buffer of
it that comes back is kept and handed out again, so that a busy producer touches the same memory
over and over (it stays in cache, and costs no page fault). Any other size is counted, made, and
dropped after use; where one does not fit beside the pooled buffers, pooled ones are dropped for it.

Non-obvious:
- The pool grows from nothing: `available` counts bytes that are in no buffer at all, and
  available + pooled buffers + handed out + gathered by the head of the line is always the total.
- Waiters are served first in, first out. While anybody waits, nobody takes without waiting: a
  small request never starves a large one that came first.
- Only the head of the line gathers, piece by piece, as memory comes back. Whoever leaves the line,
  served or not, lets the next one look, so no wake-up is lost.
- Memory belongs to a waiter from the moment its future is resolved. A waiter cancelled between that
  moment and its next step gives the buffer back itself.
- All waiters share one timer. A timeout for each would cost more than the wait. It is not cancelled
  when the last of them is served: the next one is likely to come at once.
"""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Callable

from aiokafka_lite.errors import KafkaTimeoutError

__all__ = ["MemoryPool"]


class _Waiter:
    """One place in the line: what it wants, what it has gathered, and whom to wake."""

    __slots__ = ("deadline", "future", "gathered", "size")

    def __init__(self, size: int, deadline: float, future: "asyncio.Future[bytearray]") -> None:
        self.size = size
        self.deadline = deadline
        self.future = future
        self.gathered = 0


class MemoryPool:
    """An awaitable semaphore in bytes that hands out buffers.

    Args:
        total: Budget in bytes for all buffers together (`buffer_memory`).
        poolable_size: The one size in bytes that is kept for reuse (`max_batch_size`).
        why_short: Says why no memory comes free, for the error of a waiter whose time ran out.

    Source: Kafka's `BufferPool` (`buffer.memory`, `max.block.ms`).
    """

    def __init__(self, total: int, poolable_size: int, why_short: Callable[[], str]) -> None:
        self.total = total
        self.poolable_size = poolable_size
        self._why_short = why_short
        self.exhausted = 0
        """How often somebody had to wait, since the pool was made."""
        self._available = total  # bytes that are in no buffer
        self._pooled: list[bytearray] = []  # a stack: the last one returned is the warmest
        # An OrderedDict because both ends matter: the head is served, and anyone may leave.
        self._waiters: OrderedDict[_Waiter, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._closed: BaseException | None = None

    @property
    def unused(self) -> int:
        """Bytes nobody holds: pooled buffers and what was never made into one."""
        return self._available + len(self._pooled) * self.poolable_size

    @property
    def used(self) -> int:
        """Bytes handed out, or set aside for the head of the line."""
        return self.total - self.unused

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._waiters)

    def try_take(self, size: int) -> bytearray | None:
        """Take a buffer of `size` bytes at once, or None: too little is free, or others wait.

        Raises:
            ValueError: `size` is more than the whole pool will ever have.
        """
        if self._closed is not None or size > self.total:
            raise self._refusal(size)
        if self._waiters:
            return None
        if size == self.poolable_size and self._pooled:
            return self._pooled.pop()
        if self.unused < size:
            return None
        self._free_up(size)
        buffer = bytearray(size)
        self._available -= size
        return buffer

    async def take(self, size: int, deadline: float) -> bytearray:
        """Take a buffer of `size` bytes, in turn, waiting for others to give theirs back.

        Args:
            size: Bytes.
            deadline: Loop time until which to wait.

        Raises:
            KafkaTimeoutError: The deadline passed; whatever was gathered is given back.
            ValueError: `size` is more than the whole pool will ever have.

        Cancellation: gives back all, also what was granted but not yet seen.
        """
        buffer = self.try_take(size)
        if buffer is not None:
            return buffer
        loop = asyncio.get_running_loop()
        waiter = _Waiter(size, deadline, loop.create_future())
        self._waiters[waiter] = None
        self.exhausted += 1
        self._serve()  # being first in line may already be enough to gather something
        if not waiter.future.done():
            self._arm(loop, deadline)
        try:
            return await waiter.future
        except BaseException:
            if waiter in self._waiters:
                self._leave(waiter)
            elif not waiter.future.cancelled() and waiter.future.exception() is None:
                self.give(waiter.future.result())  # granted, but not seen
            raise

    def give(self, buffer: bytearray) -> None:
        """Give a buffer back; the next in line is served from it. The caller must forget it."""
        if len(buffer) == self.poolable_size:
            self._pooled.append(buffer)
        else:
            self._available += len(buffer)
        if self._waiters:
            self._serve()

    def close(self, error: BaseException) -> None:
        """Fail all in line, and all who come later, with `error`. Giving back still works."""
        self._closed = error
        while self._waiters:
            waiter = next(iter(self._waiters))
            self._remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(copy.copy(error))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refusal(self, size: int) -> BaseException:
        if self._closed is not None:
            return copy.copy(self._closed)
        return ValueError(f"{size} bytes will never fit in buffer_memory of {self.total} bytes")

    def _free_up(self, size: int) -> None:
        """Drop pooled buffers until `size` bytes, or all there are, are in no buffer."""
        while self._available < size and self._pooled:
            self._pooled.pop()
            self._available += self.poolable_size

    def _serve(self) -> None:
        """Give to the head of the line, and on down it, until one is not satisfied."""
        while self._waiters:
            waiter = next(iter(self._waiters))
            if (
                waiter.future.done()
            ):  # cancelled: its own step has not run yet, but its place is free
                self._remove(waiter)
                continue
            if waiter.size == self.poolable_size and not waiter.gathered and self._pooled:
                self._waiters.pop(waiter)
                waiter.future.set_result(self._pooled.pop())
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
            except MemoryError as error:  # the machine has less than the budget promised
                self._remove(waiter)
                waiter.future.set_exception(error)
                continue
            self._waiters.pop(waiter)
            waiter.gathered = 0
            waiter.future.set_result(buffer)

    def _leave(self, waiter: _Waiter) -> None:
        self._remove(waiter)
        self._serve()

    def _remove(self, waiter: _Waiter) -> None:
        """Take one out of the line; what it gathered is nobody's again."""
        self._waiters.pop(waiter)
        self._available += waiter.gathered
        waiter.gathered = 0

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Turn away all whose time is over, then look at the clock again for the next of them."""
        self._timer = None
        now = loop.time()
        earliest = float("inf")
        for waiter in list(self._waiters):
            if waiter.deadline > now:
                earliest = min(earliest, waiter.deadline)
                continue
            self._remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(self._too_late(waiter.size))
        self._serve()
        if self._waiters:
            self._arm(loop, earliest)

    def _too_late(self, size: int) -> KafkaTimeoutError:
        error = KafkaTimeoutError(
            f"no {size} bytes of the producer's buffer_memory ({self.total}) came free in time: "
            f"{self._why_short()}"
        )
        error.ambiguous = False  # what waits for memory is in no batch
        return error
