"""The pure-Python twin of ShareRecord: the specification, and the build without a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.share.handling.processing import Processing
from aiokafka_lite.share.handling.run_options import TRANSIENT, retry_types
from aiokafka_lite.share.records.offset_states import ACCEPT, REJECT, RELEASE
from aiokafka_lite.share.records.record_marks import Acknowledgement, Marks

__all__ = ["AcquiredPicker", "AcquiredRange", "ShareRecord", "all_locked"]

KT = TypeVar("KT")
VT = TypeVar("VT")

if TYPE_CHECKING:
    from aiokafka_lite.record.record_set import RecordSet

    class _Record(ConsumerRecord[KT, VT], Generic[KT, VT]):
        """Allows the base to be generic or native."""
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

    _acquisition: Marks | None
    delivery_count: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: KT | None,
        value: VT | None,
        checksum: int | None,
        serialized_key_size: int,
        serialized_value_size: int,
        headers: tuple[tuple[str, bytes | None], ...],
        *,
        leader_epoch: int = -1,
    ) -> None:
        super().__init__(
            topic,
            partition,
            offset,
            timestamp,
            timestamp_type,
            key,
            value,
            checksum,
            serialized_key_size,
            serialized_value_size,
            headers,
            leader_epoch=leader_epoch,
        )
        self._acquisition = None  # it was not delivered
        self.delivery_count = 0

    @property
    def _marks(self) -> Marks:
        if self._acquisition is None:
            raise not_delivered()
        return self._acquisition

    @property
    def lock_deadline(self) -> float:
        """Loop time, in seconds, until which the record is certainly locked for this consumer,
        unless the connection to its broker is lost; 0.0 once the lock is known to be gone."""
        return self._marks.deadline_of(self.offset)

    @property
    def _lock_duration(self) -> float:
        return self._marks.duration

    @property
    def settled(self) -> bool:
        """True once the record was accepted, released or rejected."""
        return self._marks.is_marked(self.offset)

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
            TypeError: `retry` is neither an exception class nor a tuple of them.
            IllegalStateError: On entry: the record is acknowledged already.
            InvalidRecordStateError: On entry or at the end: the lock is lost.
        """
        return Processing(self, retry_types(retry))

    def accept(self) -> Acknowledgement:
        """Acknowledge the record as processed.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        return self._marks.mark(self.offset, ACCEPT)

    def _accept_undecided(self) -> None:
        """Accept the record unless it is settled, at a lower cost than `accept`."""
        self._marks.accept_undecided(self.offset)

    def release(self) -> Acknowledgement:
        """Give the record back for another delivery; otherwise like `accept`."""
        return self._marks.mark(self.offset, RELEASE)

    def reject(self) -> Acknowledgement:
        """Refuse the record, which is never delivered again; otherwise like `accept`."""
        return self._marks.mark(self.offset, REJECT)

    def renew(self) -> Acknowledgement:
        """Restart the time of the record's lock (KIP-1222). Awaiting it returns the new
        `lock_deadline`; if a terminal acknowledgement replaced it, the unchanged one.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        return self._marks.renew(self.offset)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle a plain ConsumerRecord: the lock stays with this object."""
        return plain, fields_of(self)


def fields_of(record: ConsumerRecord[Any, Any]) -> tuple[Any, ...]:
    """The fields of a record, in the order of `ConsumerRecord`; the leader epoch is the last."""
    return (
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
        record.leader_epoch,
    )


def plain(*fields: Any) -> ConsumerRecord[Any, Any]:
    """Make a ConsumerRecord of the fields of another record."""
    return ConsumerRecord(*fields[:-1], leader_epoch=fields[-1])


def not_delivered() -> IllegalStateError:
    """The error of a record that the application made itself."""
    return IllegalStateError("this record was not delivered by a share consumer: it has no lock")


class AcquiredRange(NamedTuple):
    """Acquired offsets with the same delivery count."""

    first: int
    last: int
    delivery_count: int


class AcquiredPicker:
    """Picks the acquired records out of one partition of a response, and holds their offsets.

    Args:
        ranges: The acquired offsets, ascending and disjoint.
        acquisitions: Of these ranges, ascending and disjoint.
    """

    __slots__ = ("_acquisitions", "_at", "_owner", "_ranges")

    def __init__(self, ranges: Sequence[AcquiredRange], acquisitions: Sequence[Marks]) -> None:
        self._ranges = ranges
        self._acquisitions = acquisitions
        self._at = 0  # the first range that the next record can be in
        self._owner = 0  # likewise, the first acquisition

    def read(self, records: RecordSet, most: int) -> list[ShareRecord[Any, Any]]:
        """Decode the next records of a set, and return the acquired ones.

        Args:
            records: Of the partition, read from the start.
            most: Records to decode, at most.

        Raises:
            KafkaError: As `RecordSet.read` does.
        """
        return self.pick(records.read(most))

    def pick(self, records: Sequence[ConsumerRecord[Any, Any]]) -> list[ShareRecord[Any, Any]]:
        """Return the acquired ones of further decoded records, which are ascending."""
        ranges, acquisitions = self._ranges, self._acquisitions
        acquired: list[ShareRecord[Any, Any]] = []
        for record in records:
            offset = record.offset
            while self._at < len(ranges) and ranges[self._at].last < offset:
                self._at += 1
            if self._at == len(ranges):
                break
            if ranges[self._at].first > offset:
                continue
            marks = acquisitions[self._owner]
            while marks.base + len(marks.states) <= offset:
                self._owner += 1
                marks = acquisitions[self._owner]
            if marks.hold(offset):
                fields = fields_of(record)
                shared: ShareRecord[Any, Any] = ShareRecord(*fields[:-1], leader_epoch=fields[-1])
                shared._acquisition = marks
                shared.delivery_count = ranges[self._at].delivery_count
                acquired.append(shared)
        return acquired


def all_locked(items: Sequence[object], now: float) -> bool:
    """True if all are records whose locks exist at a loop time."""
    return all(isinstance(item, ShareRecord) and item.lock_deadline > now for item in items)
