"""What a partition's log knows of transactions: those that are open, and those that were aborted.

Source: Kafka's `ProducerStateManager` (ongoing transactions, first unstable offset) and
`TransactionIndex`/`AbortedTxn`. Appends count as replicated at once, so a transaction is
decided as soon as its marker is in the log.
"""

from bisect import bisect_left
from typing import NamedTuple

__all__ = ["AbortedTransaction", "EndMarker", "OpenTransactions"]


class EndMarker(NamedTuple):
    """How a transaction ended, and who said so."""

    committed: bool
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """Records of one producer that a read_committed consumer must not see.

    Attributes:
        producer_id: Whose.
        first_offset: Where the transaction began in this partition.
        last_offset: The marker's.
        last_stable_offset: Everything before it was decided when the marker was written.
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
        # By producer id. What begins later begins at a larger offset, so the first is the oldest.
        self._first_offsets: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    @property
    def first_undecided(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._first_offsets.values()), None)

    def first_offset(self, producer_id: int) -> int | None:
        """Where a producer's open transaction begins, if it has one."""
        return self._first_offsets.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """A producer's transactional batch went to `offset`; later ones change nothing."""
        self._first_offsets.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, *, committed: bool) -> None:
        """A marker went to `offset`; one that ends no transaction changes nothing."""
        first_offset = self._first_offsets.pop(producer_id, None)
        if first_offset is not None and not committed:
            undecided = self.first_undecided
            stable = offset + 1 if undecided is None else undecided
            self.aborted.append(AbortedTransaction(producer_id, first_offset, offset, stable))

    def aborted_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that reach into
        `first <= offset < end`, in the order of their markers."""
        found = []
        begin = bisect_left(self.aborted, first, key=lambda aborted: aborted.last_offset)
        for aborted in self.aborted[begin:]:
            if aborted.first_offset < end:
                found.append((aborted.producer_id, aborted.first_offset))
            if aborted.last_stable_offset >= end:
                break  # all later ones began after that
        return found
