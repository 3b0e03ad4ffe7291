"""Which partitions' large compressed batches are read in a thread now, and which wait. Sans-IO.

A set that is being read holds a whole batch decompressed: many times what the memory budget counts
of it. So only `AT_ONCE` partitions have a place; the next one gets it when the set was handed out
to its end, or is given up.

Non-obvious: a place is no use to a partition whose records nobody takes. So a paused one gives its
place up, and who waits for certain partitions of which none has a place gets one more; nor does it
count for who waits that a partition has one that a block of `batches` is at work on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition

__all__ = ["HeavySets"]

AT_ONCE: Final = 2
"""One is handed out while a thread is at the other."""


class HeavySets:
    """The heavy sets of one consumer.

    Args:
        read: Asked to read the next records of a partition's set in a thread.
        awaited: The partitions that are waited for, a collection each waiter; empty is any.
    """

    def __init__(
        self,
        read: Callable[[PartitionState, RecordSet], None],
        awaited: Callable[[], Iterable[Collection[TopicPartition]]],
    ) -> None:
        self._read = read
        self._awaited = awaited
        self._open: set[PartitionState] = set()  # have a place
        self._waiting: dict[PartitionState, RecordSet] = {}

    @property
    def waiting(self) -> list[PartitionState]:
        """Those without a place, a new list."""
        return list(self._waiting)

    def serves(self, among: Collection[TopicPartition]) -> bool:
        """Whether records of one of these partitions, or of any, are about to come."""
        return any(
            state.at_work is None and (not among or state.tp in among) for state in self._open
        )

    def go_on(self, state: PartitionState, records: RecordSet) -> None:
        """Read on in a partition's set, now or when there is a place. Nobody is at it."""
        if state in self._open:
            self._read(state, records)
        else:
            self._waiting[state] = records
            self.fill()

    def leave(self, state: PartitionState) -> None:
        """A partition's set was handed out, or is given up."""
        self._waiting.pop(state, None)
        self.give_up_place(state)

    def give_up_place(self, state: PartitionState) -> None:
        """A partition is paused; what a thread is at is finished all the same."""
        if state in self._open:
            self._open.remove(state)
            self.fill()

    def fill(self) -> None:
        """Give places away: there may be one, or somebody who waits for certain partitions."""
        if not self._waiting:
            return
        while len(self._open) < AT_ONCE and self._begin(()):
            pass
        for among in self._awaited():
            if not self.serves(among):
                self._begin(among)

    def clear(self) -> None:
        """Read nothing more."""
        self._waiting.clear()
        self._open.clear()

    def _begin(self, among: Collection[TopicPartition]) -> bool:
        """Give a place to the first that is not paused, of these partitions or of all."""
        for state, records in self._waiting.items():
            if not state.paused and (not among or state.tp in among):
                del self._waiting[state]
                self._open.add(state)
                self._read(state, records)
                return True
        return False
