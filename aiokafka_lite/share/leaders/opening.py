"""Waits, for `start` or a later assignment, until the leaders have initialized the group's
partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from aiokafka_lite.structs import TopicPartition

__all__ = ["Opening"]


class Opening:
    """Waits until the leaders have initialized the share partitions of a group.

    A leader does that with the first fetch. It looks up the end of the partition if the group is
    new and starts at `latest`, so the group skips records that were sent before. The first response
    of a session contains all initialized partitions, even without records. A later one does not, so
    a session whose first response lacks a partition is opened again.

    Args:
        loop: The consumer's event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._missing: set[TopicPartition] = set()
        self._done: asyncio.Future[None] | None = None

    @property
    def missing(self) -> Collection[TopicPartition]:
        """The partitions that the wait concerns."""
        return self._missing

    async def wait(
        self, partitions: Collection[TopicPartition], deadline: float, on_begin: Callable[[], None]
    ) -> set[TopicPartition]:
        """Wait for these partitions.

        Args:
            partitions: The assigned ones.
            deadline: In loop time.
            on_begin: Called once it waits.

        Returns:
            The partitions that are not initialized by the deadline.
        """
        self._missing = set(partitions)
        if not self._missing:
            return set()
        self._done = self._loop.create_future()
        on_begin()
        try:
            async with asyncio.timeout_at(deadline):
                await self._done
        except TimeoutError:
            return set(self._missing)
        finally:
            self._missing.clear()
        return set()

    def on_served(self, partitions: Collection[TopicPartition]) -> None:
        """A leader serves these partitions."""
        self._missing.difference_update(partitions)
        self._look()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """The assignment changed: stop waiting for partitions that other members have."""
        self._missing.intersection_update(partitions)
        self._look()

    def end(self) -> None:
        """Stop waiting."""
        self._missing.clear()
        self._look()

    def _look(self) -> None:
        if not self._missing and self._done is not None and not self._done.done():
            self._done.set_result(None)
