"""Filters the batches of aborted transactions for read_committed consumers (KIP-98).

A fetch response lists the aborted transactions within its data: (producer id, first offset).
A transaction is open from its first offset until its producer's abort marker, a control batch.
Source: org.apache.kafka.clients.consumer.internals.CompletedFetch.
"""

import struct
from collections.abc import Iterable
from typing import Final

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_ABORT: Final = 0


def is_abort_marker(control_key: bytes | None) -> bool:
    """True if the key of a control record is that of an abort marker.

    Raises:
        ValueError: The key is not that of a control record.
    """
    if control_key is None or len(control_key) < _CONTROL_KEY.size:
        raise ValueError("a control record without a type")
    _version, kind = _CONTROL_KEY.unpack_from(control_key)
    return bool(kind == _ABORT)


class AbortedTransactions:
    """Tracks aborted transactions across batches, which must be passed in offset order.

    Args:
        aborted: (producer id, first offset) pairs in any order: brokers did not always sort them.
    """

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda pair: pair[1], reverse=True)
        self._open: set[int] = set()  # producer ids whose aborted transaction has started

    def hides(self, producer_id: int, last_offset: int, *, transactional: bool) -> bool:
        """True if a data batch belongs to an aborted transaction.

        Call it for control batches, too: their result does not matter, but the tracking does.
        """
        while self._coming and self._coming[-1][1] <= last_offset:
            self._open.add(self._coming.pop()[0])
        return transactional and producer_id in self._open

    def on_abort_marker(self, producer_id: int) -> None:
        """End the producer's aborted transaction."""
        self._open.discard(producer_id)
