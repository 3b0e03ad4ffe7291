"""The records of consumers that are being deserialized.

A consumer's position is already after such a record. So it is at work, like a batch in a block of
`batches`: an auto-commit ends before it. If its deserializer fails, the consumer returns to it.

Several tasks may deserialize records of one partition. Then the first of them limits the
auto-commit. A return to one of them raises the position's generation, as a seek does, but must not
keep earlier ones from being given back: so these learn the new generation. Later ones are read
again anyway, so they no longer count.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import AtWork, PartitionState

__all__ = ["InHand"]


class InHand(AtWork):
    """A record that is being deserialized. Create it before anything else may run after the read.

    Args:
        core: The consumer's parts.
        state: The record's partition.
        record: The record's offset.
    """

    __slots__ = ("_core", "_generation", "_record", "_state")

    def __init__(self, core: ConsumerCore, state: PartitionState, record: int) -> None:
        super().__init__(record, UNKNOWN_EPOCH)
        self._core = core
        self._state = state
        self._record = record
        self._generation = state.generation
        _all.setdefault(core, {}).setdefault(state, []).append(self)
        self._limit_commits()

    def give_back(self) -> None:
        """Let the consumer read the record again; see `Positioning.give_back`."""
        state, before = self._state, self._state.generation
        self._core.positioning.give_back(state, self._generation, self._record, UNKNOWN_EPOCH)
        if state.generation != before:
            for each in _all[self._core][state]:
                if each._generation == before and each._record < self._record:
                    each._generation = state.generation

    def end(self) -> None:
        """The record is deserialized or given back."""
        of_consumer = _all[self._core]
        others = of_consumer[self._state]
        others.remove(self)
        if not others:
            del of_consumer[self._state]
        if self._state.at_work is self:
            self._state.at_work = None
        self._limit_commits()
        if self._state.at_work is None:
            self._core.reader.on_free()

    def _limit_commits(self) -> None:
        """Put the partition's first record in hand at work, unless a block's batch is."""
        state = self._state
        if state.at_work is None or isinstance(state.at_work, InHand):
            there = _all[self._core].get(state, ())
            current = [each for each in there if each._generation == state.generation]
            state.at_work = min(current, key=lambda each: each.offset, default=None)


_all: Final[WeakKeyDictionary[ConsumerCore, dict[PartitionState, list[InHand]]]] = (
    WeakKeyDictionary()
)
