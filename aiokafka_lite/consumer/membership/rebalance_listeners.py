"""Calls the rebalance listener: plain or coroutine methods, errors logged, limited in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol, TypeAlias

from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

SHARE: Final = 0.6
"""The share of the remaining time that a listener or the last commit may take during `stop`: the
following steps, such as LeaveGroup, need the rest."""

ListenerMethod: TypeAlias = Callable[[set[TopicPartition]], Awaitable[None] | None]
"""A listener's method."""


class Work(Protocol):
    """Processing of records in steps that a rebalance must not interrupt."""

    async def before_going(self, partitions: set[TopicPartition]) -> None:
        """Wait until no step involves these partitions, or until that takes too long.

        They are about to be revoked: withheld, but still assigned.
        """


class ListenerCalls:
    """Calls the listeners of one consumer, one at a time.

    Args:
        log_name: Names the consumer and its group in the log.
        loop: The event loop.
        ended: Returns True once the membership has ended, and with it the calls in progress.
    """

    def __init__(
        self,
        log_name: str,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[], bool] = lambda: True,
    ) -> None:
        self._log_name = log_name
        self._loop = loop
        self._ended = ended
        self._end_by: float | None = None
        self._limit: asyncio.Timeout | None = None  # of the listener that runs

    async def call(self, method: ListenerMethod, partitions: Collection[TopicPartition]) -> None:
        """Call a listener's method, and log what it raises."""
        try:
            result = method(set(partitions))
            if result is not None:
                await self._limited(result)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or (task.cancelling() and self._ended()):
                raise
            # Something that the listener awaited was cancelled; or the application cancelled this
            # task, but not the rebalance: its next steps remove or release the partitions.
            while task.cancelling():
                task.uncancel()
            self._log_failed(method)
        except Exception:
            self._log_failed(method)

    def end_by(self, deadline: float) -> None:
        """Limit the running listener, and all later ones, to their share of the remaining time.

        Args:
            deadline: In loop time.
        """
        self._end_by = deadline
        if self._limit is not None and not self._limit.expired():  # otherwise already cancelled
            self._limit.reschedule(self._deadline())

    async def _limited(self, call: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout_at(self._deadline()) as limit:
                self._limit = limit
                try:
                    await call
                finally:
                    self._limit = None
        except TimeoutError:
            if not limit.expired():
                raise  # the listener's own
            log.warning(
                "%s: A rebalance listener had not returned when the consumer stopped",
                self._log_name,
                extra=log_extra(self._log_name),
            )

    def _deadline(self) -> float | None:
        """The deadline of a listener; None unless the consumer is stopping."""
        if self._end_by is None:
            return None
        now = self._loop.time()
        return now + SHARE * max(0.0, self._end_by - now)

    def _log_failed(self, method: ListenerMethod) -> None:
        log.exception(
            "%s: Rebalance listener %r failed",
            self._log_name,
            method,
            extra=log_extra(self._log_name),
        )
