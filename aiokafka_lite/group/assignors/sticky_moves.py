"""The moves of partitions while a sticky assignment is balanced.

Two members must not swap partitions of a topic: instead of a partition that moves back, a member
gets one that it gave away before.
"""

from __future__ import annotations

from typing import NamedTuple

from aiokafka_lite.structs import TopicPartition

__all__ = ["Moves"]


class _Way(NamedTuple):
    giver: int
    taker: int


class Moves:
    """All moves so far; a partition that moved twice has moved from the first to the last."""

    def __init__(self) -> None:
        self._way_of: dict[TopicPartition, _Way] = {}
        self._moved: dict[tuple[str, _Way], dict[TopicPartition, None]] = {}

    def record(self, partition: TopicPartition, giver: int, taker: int) -> None:
        """Record that a partition has moved."""
        way = self._way_of.pop(partition, None)
        if way is not None:
            del self._moved[partition.topic, way][partition]
            giver = way.giver
        if giver != taker:  # otherwise its first owner has it again
            way = self._way_of[partition] = _Way(giver, taker)
            self._moved.setdefault((partition.topic, way), {})[partition] = None

    def instead_of(self, partition: TopicPartition, giver: int, taker: int) -> TopicPartition:
        """The partition to move instead: one of the same topic that moved the other way before."""
        way = self._way_of.get(partition)
        if way is not None:
            giver = way.giver
        came = self._moved.get((partition.topic, _Way(taker, giver)))
        return next(iter(came)) if came else partition
