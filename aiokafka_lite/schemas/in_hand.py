"""A consumer's record that is being deserialized.

The consumer's position is already after such a record. So the record counts as in progress, like a
batch in a block of `batches`: an auto-commit does not include it. If its deserializer fails, the
consumer returns to it.
"""

from __future__ import annotations

from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState

__all__ = ["InHand"]


class InHand:
    """One record. Create it before anything else may run after the read.

    Args:
        core: The consumer's parts.
        state: The record's partition.
        record: The record's offset.
    """

    __slots__ = ("_core", "_state", "_work")

    def __init__(self, core: ConsumerCore, state: PartitionState, record: int) -> None:
        self._core = core
        self._state = state
        self._work = state.begin_work(record, UNKNOWN_EPOCH)

    def give_back(self) -> None:
        """Let the consumer read the record again; see `Positioning.give_back`."""
        work = self._work
        self._core.positioning.give_back(self._state, work.generation, work.first, UNKNOWN_EPOCH)

    def end(self) -> None:
        """The record is deserialized or given back."""
        self._state.end_work(self._work)
        if self._state.at_work is None:
            self._core.reader.on_free()
