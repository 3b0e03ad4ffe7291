"""Makes the leaders look up where a new share group starts to read: at `start`, and in added
partitions.

Brokers initialize the share partitions of a group with the first fetch. A group that starts at
`latest` would skip records that are sent before that, so the consumer does not wait for a read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.share.group_beginning import begins_at_latest
from aiokafka_lite.share.leaders.opening import Opening
from aiokafka_lite.share.share_options import ShareOptions
from aiokafka_lite.structs import TopicPartition

__all__ = ["BeginningLookup"]

log: Final = logging.getLogger(__name__)

LOOK_WITHIN: Final = 5.0
"""Seconds that `start` waits for the leaders."""


class BeginningLookup:
    """The lookups of one share consumer: one by `start`, then a task whenever partitions are added.

    Args:
        cluster: The cluster of the leaders.
        options: The consumer's options.
        opening: Waits for the leaders' answers.
        tasks: Owner of the task.
        wake_leaders: Called once fetches are needed.
        reads_wait: Returns True while a read waits; its fetches reach all partitions.
        loop: The consumer's event loop.

    Attributes:
        looked: Assigned partitions whose start was looked up, or is being looked up.
        looking: True while the task looks up added partitions.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ShareOptions,
        opening: Opening,
        tasks: TaskOwner,
        *,
        wake_leaders: Callable[[], None],
        reads_wait: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster: Final = cluster
        self._options: Final = options
        self._opening: Final = opening
        self._tasks: Final = tasks
        self._wake_leaders: Final = wake_leaders
        self._reads_wait: Final = reads_wait
        self._loop: Final = loop
        self.looked: frozenset[TopicPartition] = frozenset()
        self.looking = False
        self._assignment: frozenset[TopicPartition] = frozenset()
        self._topics: set[str] = set()  # that `_look` was called for
        self._follows = False  # True once `start` has looked up the first ones
        self._ended = False

    async def look_up(self) -> None:
        """Look up where the group starts to read in the assigned partitions."""
        self.looked = partitions = self._assignment
        self._warn_of_unopened(await self._look(partitions))

    def follow(self) -> None:
        """Look up added partitions from now on."""
        self._follows = True
        self._look_at_added()

    def on_assigned(self, assignment: frozenset[TopicPartition]) -> None:
        """The assignment changed."""
        self._assignment = assignment
        self._look_at_added()

    def end(self) -> None:
        """Stop waiting and looking up."""
        self._ended = True
        self._opening.end()

    async def _look(self, partitions: frozenset[TopicPartition]) -> set[TopicPartition]:
        """Make the leaders look up where the group starts to read, so that it gets records sent
        from now on.

        Returns:
            The partitions whose leaders may not have completed the lookup.
        """
        deadline = self._loop.time() + min(LOOK_WITHIN, self._options.request_timeout)
        topics = {tp.topic for tp in partitions}
        warns = not topics <= self._topics
        self._topics |= topics
        if await begins_at_latest(
            self._cluster,
            self._options.group_id,
            partitions,
            deadline,
            self._options.log_name,
            warns=warns,
        ):
            return await self._opening.wait(
                partitions & self._assignment, deadline, self._wake_leaders
            )
        return set()

    def _look_at_added(self) -> None:
        """Look up where the group starts to read in partitions that were assigned after `start`."""
        self.looked &= self._assignment
        if not self._follows or self.looking or self._ended:
            return
        if self._assignment - self.looked:
            self.looking = True
            self._tasks.spawn(self._open_added(), "look where the group begins")

    async def _open_added(self) -> None:
        try:
            while not self._ended and (added := self._assignment - self.looked):
                self.looked |= added
                missing = await self._look(added)
                if missing and not self._reads_wait():
                    self._warn_of_unopened(missing)
        finally:
            self.looking = False

    def _warn_of_unopened(self, missing: set[TopicPartition]) -> None:
        if missing and not self._ended:
            log.warning(
                "%s: no share session was opened for %s-%d%s yet; records that are sent before the "
                "next read may be skipped",
                self._options.log_name,
                *min(missing),
                f" and {len(missing) - 1} more partitions" if len(missing) > 1 else "",
                extra=log_extra(self._options.log_name, min(missing)),
            )
