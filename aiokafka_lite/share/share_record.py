"""ShareRecord, a record that a share group delivered, and ShareRecords, several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.share.acknowledgement import Acknowledgement
from aiokafka_lite.share.acquisition import ACCEPT, REJECT, RELEASE, Acquisition
from aiokafka_lite.share.batch_acknowledgement import BatchAcknowledgement
from aiokafka_lite.share.handling.processing import Processing
from aiokafka_lite.share.handling.run_options import TRANSIENT, retry_types

__all__ = ["ShareRecord", "ShareRecords", "share_record"]

KT = TypeVar("KT")
VT = TypeVar("VT")

if TYPE_CHECKING:

    class _Record(ConsumerRecord[KT, VT], Generic[KT, VT]):
        """So that the base may be generic or native."""
else:

    class _Record(ConsumerRecord, Generic[KT, VT]):
        __slots__ = ()


class ShareRecord(_Record[KT, VT], Generic[KT, VT]):
    """One record that a share group delivered, locked for this consumer until it is acknowledged.

    It has the fields of a `ConsumerRecord`. Each of the four methods marks the record at once and
    returns a light awaitable; see `Acknowledgement`. They may be called in any order of records,
    and from any task of the consumer's event loop.

    Attributes:
        delivery_count: How often the group has delivered the record, this time included.
    """

    __slots__ = ("_acquisition", "delivery_count")

    _acquisition: Acquisition
    delivery_count: int

    @property
    def lock_deadline(self) -> float:
        """Loop time, in seconds, until which the record is certainly locked for this consumer,
        unless the connection to its broker is lost; 0.0 once the lock is known to be gone."""
        return self._acquisition.deadline_of(self.offset)

    @property
    def settled(self) -> bool:
        """True once the record was accepted, released or rejected."""
        return self._acquisition.is_marked(self.offset)

    def process(
        self, retry: tuple[type[Exception], ...] | type[Exception] = TRANSIENT
    ) -> Processing[Self]:
        """Return a context manager whose block processes the record.

            async with record.process(retry=(TimeoutError,)):
                await charge(record.value)

        The end of the block accepts the record. An exception of `retry` releases it for another
        delivery and is suppressed; any other exception rejects it and propagates; a cancellation
        releases it. A record that the block acknowledged itself stays as it is. The lock is renewed
        while the block runs. If the lock is lost, the block is cancelled, because another member
        may process the record.

        Args:
            retry: Exceptions after which the record is delivered again, at once, until it reaches
                the group's limit of deliveries.

        Raises:
            TypeError: `retry` is no exception class and no tuple of them.
            IllegalStateError: On entry: the record is acknowledged already.
            InvalidRecordStateError: On entry or at the end: the lock is lost.
        """
        return Processing(self, retry_types(retry))

    def accept(self) -> Acknowledgement:
        """Acknowledge the record as processed.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        return self._acquisition.mark(self.offset, ACCEPT)

    def _accept_undecided(self) -> None:
        """Accept the record unless it is settled, at a lower cost than `accept`."""
        self._acquisition.accept_undecided(self.offset)

    def release(self) -> Acknowledgement:
        """Give the record back for another delivery; otherwise like `accept`."""
        return self._acquisition.mark(self.offset, RELEASE)

    def reject(self) -> Acknowledgement:
        """Refuse the record, which is never delivered again; otherwise like `accept`."""
        return self._acquisition.mark(self.offset, REJECT)

    def renew(self) -> Acknowledgement:
        """Restart the time of the record's lock (KIP-1222). Awaiting it returns the new
        `lock_deadline`; if a terminal acknowledgement replaced it, the unchanged one.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        return self._acquisition.renew(self.offset)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle a plain ConsumerRecord: the lock stays with this object."""
        fields = (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.checksum,
            self.serialized_key_size,
            self.serialized_value_size,
            self.headers,
            self.leader_epoch,
        )
        return _plain, fields


def share_record(
    record: ConsumerRecord[Any, Any], acquisition: Acquisition, delivery_count: int
) -> ShareRecord[Any, Any]:
    """Make a ShareRecord of a decoded record."""
    shared: ShareRecord[Any, Any] = ShareRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        record.checksum,
        record.serialized_key_size,
        record.serialized_value_size,
        record.headers,
        leader_epoch=record.leader_epoch,
    )
    shared._acquisition = acquisition
    shared.delivery_count = delivery_count
    return shared


def _plain(*fields: Any) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(*fields[:-1], leader_epoch=fields[-1])


class ShareRecords(Sequence[ShareRecord[Any, Any]]):
    """The records of one `getmany`: a sequence, with the four acknowledgements for all of them.

    Each of the four marks every record at once and returns an awaitable that waits for all results.
    """

    __slots__ = ("_records",)

    def __init__(self, records: Iterable[ShareRecord[Any, Any]] = ()) -> None:
        self._records = list(records)

    @overload
    def __getitem__(self, index: int) -> ShareRecord[Any, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> ShareRecords: ...

    def __getitem__(self, index: int | slice) -> ShareRecord[Any, Any] | ShareRecords:
        if isinstance(index, slice):
            return ShareRecords(self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ShareRecord[Any, Any]]:
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
