"""ShareRecord, a record that a share group delivered, and ShareRecords, several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, overload

from aiokafka_lite._build import pick
from aiokafka_lite._consumer_record import K, V
from aiokafka_lite.share.batch_acknowledgement import BatchAcknowledgement

if TYPE_CHECKING:
    from aiokafka_lite.share.records._share_record_python import (
        AcquiredPicker,
        ShareRecord,
        all_locked,
    )
else:
    _picked = pick(
        "aiokafka_lite.share.records._share_record_native",
        "aiokafka_lite.share.records._share_record_python",
    )
    AcquiredPicker = _picked.AcquiredPicker
    ShareRecord = _picked.ShareRecord
    all_locked = _picked.all_locked

__all__ = ["AcquiredPicker", "ShareRecord", "ShareRecords", "all_locked"]


class ShareRecords(Sequence[ShareRecord[K, V]], Generic[K, V]):
    """The records of one `getmany`: a sequence, with the four acknowledgements for all of them.

    Each of the four marks every record at once and returns an awaitable that waits for all results.
    """

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[ShareRecord[K, V]] = ()) -> None:
        self._records = list(records)

    @classmethod
    def _of(cls, records: list[ShareRecord[K, V]]) -> ShareRecords[K, V]:
        """Make one that keeps the list itself."""
        self = cls.__new__(cls)
        self._records = records
        return self

    @overload
    def __getitem__(self, index: int) -> ShareRecord[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> ShareRecords[K, V]: ...

    def __getitem__(self, index: int | slice) -> ShareRecord[K, V] | ShareRecords[K, V]:
        if isinstance(index, slice):
            return ShareRecords(self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        return iter(self._records)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ShareRecords):
            return self._records == other._records
        return self._records == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __repr__(self) -> str:
        return f"ShareRecords({self._records!r})"

    def accept(self) -> BatchAcknowledgement:
        """Accept all records.

        Raises:
            IllegalStateError: A record was acknowledged before; those before it are marked.
        """
        return BatchAcknowledgement([record.accept() for record in self._records])

    def release(self) -> BatchAcknowledgement:
        """Release all records; otherwise like `accept`."""
        return BatchAcknowledgement([record.release() for record in self._records])

    def reject(self) -> BatchAcknowledgement:
        """Reject all records; otherwise like `accept`."""
        return BatchAcknowledgement([record.reject() for record in self._records])

    def renew(self) -> BatchAcknowledgement:
        """Renew the locks of all records; otherwise like `accept`."""
        return BatchAcknowledgement([record.renew() for record in self._records])
