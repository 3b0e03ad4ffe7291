"""The open and the aborted transactions of a partition's log.

Source: Kafka's `ProducerStateManager` (ongoing transactions, first unstable offset) and
`TransactionIndex`/`AbortedTxn`. Appends count as replicated immediately, so a transaction is
decided as soon as its marker is in the log.
"""

from bisect import bisect_left
from typing import NamedTuple

__all__ = ["AbortedTransaction", "EndMarker", "OpenTransactions"]


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it."""

    committed: bool
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """Records of one producer that a read_committed consumer must skip.

    Attributes:
        producer_id: The producer's id.
        first_offset: First offset of the transaction in this partition.
        last_offset: Offset of the marker.
        last_stable_offset: The last stable offset when the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class OpenTransactions:
    """The transactions of one partition.

    Attributes:
        aborted: In the order of their markers.
    """

    __slots__ = ("_first_offsets", "aborted")

    def __init__(self) -> None:
        # By producer id, in order of their first offsets, so the first entry is the oldest.
        self._first_offsets: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    @property
    def first_undecided(self) -> int | None:
        """Return the first offset of the oldest open transaction, or None."""
        return next(iter(self._first_offsets.values()), None)

    def first_offset(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction, or None."""
        return self._first_offsets.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """Record a transactional batch at `offset`; only a transaction's first one counts."""
        self._first_offsets.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, *, committed: bool) -> None:
        """Record a marker at `offset`; a marker without an open transaction has no effect."""
        first_offset = self._first_offsets.pop(producer_id, None)
        if first_offset is not None and not committed:
            undecided = self.first_undecided
            stable = offset + 1 if undecided is None else undecided
            self.aborted.append(AbortedTransaction(producer_id, first_offset, offset, stable))

    def aborted_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that overlap
        `first <= offset < end`, in the order of their markers."""
        found = []
        begin = bisect_left(self.aborted, first, key=lambda aborted: aborted.last_offset)
        for aborted in self.aborted[begin:]:
            if aborted.first_offset < end:
                found.append((aborted.producer_id, aborted.first_offset))
            if aborted.last_stable_offset >= end:
                break  # all later ones began after that
        return found
