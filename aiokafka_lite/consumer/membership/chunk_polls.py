"""Counts records that are taken from a decoded chunk as polls.

A read from a decoded chunk does not call the membership, because a call would double the cost of
the read. It still counts as a poll, even if the application takes minutes per record: a timer
checks whether records were taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka_lite.consumer.partitions.delivery import Delivery

LOOKS = 8
"""Number of checks per max.poll.interval for records taken from a chunk."""


class ChunkPolls:
    """Checks periodically whether the application took records.

    Args:
        delivery: The source of reads.
        max_poll_interval: Seconds.
        on_taken: Called if records were taken since the last check.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        delivery: Delivery,
        max_poll_interval: float,
        on_taken: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._delivery = delivery
        self._interval = max_poll_interval / LOOKS
        self._on_taken = on_taken
        self._loop = loop
        self._taken = (0, 0)  # the chunk and its index at the last check
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the checks."""
        chunk = self._delivery.current
        taken = (id(chunk), chunk.index)
        if taken != self._taken:
            self._taken = taken
            if chunk.index:
                self._on_taken()
        self._timer = self._loop.call_later(self._interval, self.start)

    def stop(self) -> None:
        """Stop the checks. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
