"""Checks positions after new metadata, divided among iterations of the event loop.

A new leader may have another log, so the positions of its partitions are validated. A position that
is being looked up may need another lookup. After a full refresh, all partitions are checked again:
for 100,000 partitions, that would take about 10 ms in one iteration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from aiokafka_lite.consumer.offsets.offset_validation import Validation
from aiokafka_lite.consumer.offsets.position_resolver import PositionResolver
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions

CHECKED_AT_ONCE: Final = 5000
"""Number of partitions checked in one iteration of the event loop, in less than 1 ms."""


class PositionChecks:
    """Calls the validation and the resolver for the partitions that need them.

    Args:
        positions: The assigned partitions.
        validation: Validates positions against the logs of new leaders.
        resolver: Looks up missing positions.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        positions: Positions,
        validation: Validation,
        resolver: PositionResolver,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._positions = positions
        self._validation = validation
        self._resolver = resolver
        self._loop = loop
        self._rest: list[PartitionState] = []  # to be checked; some may have been revoked
        self._scheduled = False
        self._lacks_positions = False  # placed partitions need a lookup once all are placed

    def check_all(self) -> None:
        """Check all partitions: the first ones now, the others in later iterations."""
        self._rest = list(self._positions)
        if not self._scheduled:
            self._check_more()

    def _check_more(self) -> None:
        self._scheduled = False
        some = self._rest[-CHECKED_AT_ONCE:]
        del self._rest[-CHECKED_AT_ONCE:]
        if self._validate(some):
            self._resolver.wake()
        if self._rest:
            self._scheduled = True
            self._loop.call_soon(self._check_more)

    def on_placed(self, states: Collection[PartitionState], *, more: bool) -> None:
        """Check partitions that have been placed.

        Args:
            more: True if other partitions follow: their positions are then looked up together.
        """
        self._lacks_positions |= self._validate(states)
        if self._lacks_positions and not more:
            self._lacks_positions = False
            self._resolver.wake()

    def _validate(self, states: Collection[PartitionState]) -> bool:
        """Validate positions; return True if one of them is being looked up: the topic may have
        been recreated, so it may need another lookup."""
        self._validation.on_metadata(states)
        return any(state.reset is not None for state in states)
