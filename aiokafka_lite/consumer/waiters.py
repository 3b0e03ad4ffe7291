"""Those who wait for records: calls of getone(), getmany() and ``async for``.

A waiter is woken when something it may want has come, and then looks for itself: nothing is
handed to a waiter, so cancelling one at any moment loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from aiokafka_lite.structs import TopicPartition


class Waiters:
    """The waiters of one consumer. True while there are any.

    Args:
        on_wait: Called when somebody has begun to wait.
    """

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._futures: dict[asyncio.Future[None], Collection[TopicPartition]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def awaited(self) -> Iterable[Collection[TopicPartition]]:
        """The partitions that each waiter wants; empty for all."""
        return self._futures.values()

    def wake(self) -> bool:
        """Let all of them look.

        Returns:
            Whether there was anybody.
        """
        woken = bool(self._futures)
        for future in self._futures:
            if not future.done():
                future.set_result(None)
        return woken

    async def wait(self, among: Collection[TopicPartition], deadline: float | None) -> bool:
        """Wait to be woken.

        Args:
            among: The partitions wanted; empty for all.
            deadline: In loop time, or None.

        Returns:
            False if the deadline passed first.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = None
        if deadline is not None:
            timer = loop.call_at(deadline, _expire, future)
        self._futures[future] = among
        try:
            self._on_wait()
            await future
        except TimeoutError:
            return False
        finally:
            del self._futures[future]
            if timer is not None:
                timer.cancel()
        return True


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
