"""Which transactional batches a read_committed consumer must not see (KIP-98).

A fetch response lists the aborted transactions that its data touches: (producer id, first offset).
A transaction is open from its first offset until its producer's abort marker, a control batch.
Source: org.apache.kafka.clients.consumer.internals.CompletedFetch.
"""

import struct
from collections.abc import Iterable
from typing import Final

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_ABORT: Final = 0


def is_abort_marker(control_key: bytes | None) -> bool:
    """Whether the key of a control record says that the transaction was aborted.

    Raises:
        ValueError: The key is no control record's.
    """
    if control_key is None or len(control_key) < _CONTROL_KEY.size:
        raise ValueError("a control record without a type")
    _version, kind = _CONTROL_KEY.unpack_from(control_key)
    return bool(kind == _ABORT)


class AbortedTransactions:
    """Told of every batch in offset order, it knows which of them to hide.

    Args:
        aborted: (producer id, first offset) pairs in any order: brokers did not always sort them.
    """

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda pair: pair[1], reverse=True)
        self._open: set[int] = set()  # producer ids whose aborted transaction has begun

    def hides(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """Whether a data batch belongs to an aborted transaction.

        Called for control batches too, where the answer does not matter but the progress does.
        """
        while self._coming and self._coming[-1][1] <= last_offset:
            self._open.add(self._coming.pop()[0])
        return transactional and producer_id in self._open

    def on_abort_marker(self, producer_id: int) -> None:
        """The producer's transaction ends here."""
        self._open.discard(producer_id)
