"""Schedules the decoding of large compressed batches in threads, for a few partitions. Sans-IO.

A set that is being read holds a whole decompressed batch: many times the size that the memory
budget counts. So only `AT_ONCE` partitions have a slot; the next one gets it when the set has been
delivered completely, or dropped.

Non-obvious: a slot is wasted on a partition whose records are not taken. So a paused partition
gives up its slot, and a waiter whose partitions have no slot gets an extra one; the slot of a
partition with a batch in progress in a block of `batches` does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition

__all__ = ["HeavySets"]

AT_ONCE: Final = 2
"""One is delivered while a thread decodes the other."""


class HeavySets:
    """The heavy sets of one consumer.

    Args:
        read: Called to read the next records of a partition's set in a thread.
        awaited: The partitions that reads wait for, one collection per waiter; empty means any.
    """

    def __init__(
        self,
        read: Callable[[PartitionState, RecordSet], None],
        awaited: Callable[[], Iterable[Collection[TopicPartition]]],
    ) -> None:
        self._read = read
        self._awaited = awaited
        self._open: set[PartitionState] = set()  # with a slot
        self._waiting: dict[PartitionState, RecordSet] = {}

    @property
    def waiting(self) -> list[PartitionState]:
        """A new list of the partitions without a slot."""
        return list(self._waiting)

    def serves(self, among: Collection[TopicPartition]) -> bool:
        """True if records of one of these partitions, or of any if empty, are being decoded."""
        return any(
            state.at_work is None and (not among or state.tp in among) for state in self._open
        )

    def continue_set(self, state: PartitionState, records: RecordSet) -> None:
        """Continue a partition's set, now or when there is a slot. No thread may be reading it."""
        if state in self._open:
            self._read(state, records)
        else:
            self._waiting[state] = records
            self.fill()

    def leave(self, state: PartitionState) -> None:
        """A partition's set was delivered completely or dropped."""
        self._waiting.pop(state, None)
        self.release_slot(state)

    def release_slot(self, state: PartitionState) -> None:
        """Release the slot of a paused partition; a thread that is decoding it still finishes."""
        if state in self._open:
            self._open.remove(state)
            self.fill()

    def fill(self) -> None:
        """Assign free slots, and extra ones for waiters whose partitions have none."""
        if not self._waiting:
            return
        while len(self._open) < AT_ONCE and self._begin(()):
            pass
        for among in self._awaited():
            if not self.serves(among):
                self._begin(among)

    def clear(self) -> None:
        """Stop all decoding."""
        self._waiting.clear()
        self._open.clear()

    def _begin(self, among: Collection[TopicPartition]) -> bool:
        """Assign a slot to the first partition that is not paused, among these or all."""
        for state, records in self._waiting.items():
            if not state.paused and (not among or state.tp in among):
                del self._waiting[state]
                self._open.add(state)
                self._read(state, records)
                return True
        return False
