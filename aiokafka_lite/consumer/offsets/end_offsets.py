"""Looks up the end offsets of partitions that are not being fetched, for their lag.

A fetch response carries the end of its partition. But a partition is not fetched while it is
paused or while its buffered records are not read, which is when its lag matters most. So each call
that reads the metrics starts a lookup of such ends in the background, and the next call returns the
result. If the application does not read the metrics, the consumer sends none of these requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from math import inf
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.offsets.offset_lookup import LATEST, Found, list_offsets
from aiokafka_lite.consumer.partitions.positions import Ends, Positions
from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.structs import TopicPartition

__all__ = ["EndOffsets"]

log: Final = logging.getLogger(__name__)

REFRESH_AFTER: Final = 2.0
"""Seconds after which a known end is looked up again, and between two lookups."""

GIVE_UP_AFTER: Final = 5.0
"""Seconds after which a lookup that is not answered ends."""


class EndOffsets:
    """The lookups of one consumer; at most one is in progress.

    Args:
        cluster: The consumer's cluster.
        positions: Where the ends are stored.
        options: The consumer's options.
        tasks: Owner of the task.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        options: ConsumerOptions,
        tasks: TaskOwner,
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._options = options
        self._tasks = tasks
        self._next_at = -inf  # monotonic; infinite while a lookup is in progress

    def refresh(self, ends: Iterable[Ends]) -> None:
        """Look up the ends that are outdated, in the background.

        Args:
            ends: The partitions whose metrics are read.
        """
        if time.monotonic() < self._next_at:
            return
        outdated = [
            state.tp
            for state, _, _, age in ends
            if age > REFRESH_AFTER and state.position is not None
        ]
        if outdated:
            self._next_at = inf
            self._tasks.spawn(self._look_up(outdated), "look up end offsets")

    async def _look_up(self, partitions: list[TopicPartition]) -> None:
        deadline = asyncio.get_running_loop().time() + GIVE_UP_AFTER

        def on_found(tp: TopicPartition, found: Found | KafkaError) -> None:
            state = self._positions.get(tp)
            if state is not None and not isinstance(found, KafkaError):
                state.source.listed_end = found.offset
                state.source.listed_at = time.time()

        try:
            await list_offsets(
                self._cluster,
                dict.fromkeys(partitions, LATEST),
                deadline,
                isolation=self._options.isolation_level,
                on_found=on_found,
            )
        except (KafkaError, IllegalStateError) as error:  # the lag stays unknown
            log.debug("%s: end offsets are unknown: %s", self._options.log_name, error)
        finally:
            self._next_at = time.monotonic() + REFRESH_AFTER
