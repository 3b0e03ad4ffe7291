"""Acknowledgements of records by a member, and the other ends of an acquisition. No I/O, no clock.

Source: Kafka's `SharePartition.acknowledge`, `releaseAcquiredRecords` and its lock timeouts. The
acknowledgements of a request are atomic for each partition: if one is invalid, none has an effect,
except that locks which were renewed before it stay renewed (KIP-932, KIP-1222).
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from aiokafka_lite.errors import BrokerResponseError, InvalidRecordStateError, InvalidRequestError
from aiokafka_lite.testing.share.in_flight_records import (
    Delivery,
    InFlightBatch,
    InFlightRecords,
    RecordState,
    Span,
)

__all__ = ["AcknowledgeType", "AcknowledgedRange", "Acknowledgement", "Change", "release_all"]


class AcknowledgeType(IntEnum):
    """The acknowledgement of a record."""

    GAP = 0  # there is no record at this offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedRange(NamedTuple):
    """Acknowledgements of adjacent offsets.

    Attributes:
        first: The first offset.
        last: The last offset, inclusive.
        types: One type for all offsets, or one for each.
    """

    first: int
    last: int
    types: Sequence[int]


class Change(NamedTuple):
    """A change of state to store.

    Attributes:
        span: The offsets with their new state.
        rejected: True if the member rejected them, which a dead letter says.
    """

    span: Span
    rejected: bool = False


class Acknowledgement:
    """The acknowledgements of one request for one partition.

    Args:
        records: The records in flight.
        member_id: The member that sends the request.
        delivery_limit: The most deliveries of a record.
        with_dead_letters: True if the group writes archived records to a topic.
        renewed_until_ms: When renewed locks expire; None if the group does not allow it.

    Attributes:
        changes: The changes that took place.
    """

    def __init__(
        self,
        records: InFlightRecords,
        member_id: str,
        *,
        delivery_limit: int,
        with_dead_letters: bool,
        renewed_until_ms: int | None,
    ) -> None:
        self._records = records
        self._member_id = member_id
        self._limit = delivery_limit
        self._with_dead_letters = with_dead_letters
        self._renewed_until_ms = renewed_until_ms
        self._undo: list[tuple[Delivery, Delivery]] = []
        self.changes: list[Change] = []

    def run(self, ranges: Sequence[AcknowledgedRange]) -> None:
        """Apply all acknowledgements, or none.

        Raises:
            InvalidRecordStateError: The member does not hold a record, or may not renew its lock.
            InvalidRequestError: The records in flight do not include a range.
        """
        try:
            for asked in ranges:
                if asked.last >= self._records.start_offset:
                    self._apply(asked)
        except BrokerResponseError:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Restore the states before the request."""
        for delivery, before in reversed(self._undo):
            delivery.assign(before)
        self.changes = []

    def _apply(self, asked: AcknowledgedRange) -> None:
        for batch in self._batches(asked):
            if batch.last < self._records.start_offset:
                continue
            if batch.whole is not None:
                self._check_holder(batch.whole)
                if not (
                    batch.is_within(asked.first, asked.last)
                    and len(asked.types) == 1
                    and batch.first >= self._records.start_offset
                ):
                    batch.split()
            if batch.whole is not None:
                self._end(Span(batch.first, batch.last, batch.whole), asked.types[0])
                continue
            for span in batch.spans(max(asked.first, self._records.start_offset), asked.last):
                self._check_holder(span.delivery)
                at = span.first - asked.first if len(asked.types) > 1 else 0
                self._end(span, asked.types[at])

    def _batches(self, asked: AcknowledgedRange) -> list[InFlightBatch]:
        """Return the batches in flight that a range covers."""
        records = self._records
        floor = records.floor(asked.first)
        if floor is None and asked.first < records.start_offset <= asked.last:
            floor = records.floor(records.start_offset)
        if floor is None:
            raise InvalidRecordStateError(f"offset {asked.first} is not in flight")
        batches = records.between(floor.first, asked.last)
        if batches[-1].last < asked.first:
            raise InvalidRequestError(f"offset {asked.first} is after the acquired records")
        if batches[-1].last < asked.last:
            raise InvalidRequestError(f"offset {asked.last} is after the acquired records")
        return batches

    def _check_holder(self, delivery: Delivery) -> None:
        if delivery.state is not RecordState.ACQUIRED:
            raise InvalidRecordStateError("the record is not acquired")
        if delivery.member_id != self._member_id:
            raise InvalidRecordStateError("another member has acquired the record")

    def _end(self, span: Span, kind: int) -> None:
        """End the acquisition of some offsets, or renew their lock."""
        delivery = span.delivery
        if kind == AcknowledgeType.RENEW:
            if self._renewed_until_ms is None:
                raise InvalidRecordStateError("the group does not allow renewing locks")
            delivery.deadline_ms = self._renewed_until_ms
            return
        self._undo.append((delivery, delivery.copy()))
        if kind == AcknowledgeType.ACCEPT:
            delivery.leave(RecordState.ACKNOWLEDGED)
        elif kind == AcknowledgeType.RELEASE:
            release(delivery, self._limit, with_dead_letters=self._with_dead_letters)
        elif kind == AcknowledgeType.REJECT and self._with_dead_letters:
            delivery.leave(RecordState.ARCHIVING)
        else:
            delivery.leave(RecordState.ARCHIVED)
        self.changes.append(Change(span, rejected=kind == AcknowledgeType.REJECT))


def release(delivery: Delivery, limit: int, *, with_dead_letters: bool) -> None:
    """Make records available again, or archive them after their last delivery."""
    if delivery.count < limit:
        delivery.leave(RecordState.AVAILABLE)
    elif with_dead_letters:
        delivery.leave(RecordState.ARCHIVING)
    else:
        delivery.leave(RecordState.ARCHIVED)


def release_all(
    records: InFlightRecords,
    is_meant: Callable[[Delivery], bool],
    limit: int,
    *,
    with_dead_letters: bool,
) -> list[Change]:
    """End acquisitions without an acknowledgement; return the changes.

    Args:
        records: The records in flight.
        is_meant: Returns True for the acquired records to release.
        limit: The most deliveries of a record.
        with_dead_letters: True if the group writes archived records to a topic.
    """
    changes = []
    for span in _acquired(records, is_meant):
        if span.last < records.start_offset:
            span.delivery.leave(RecordState.ARCHIVED)  # the log no longer has it
        else:
            release(span.delivery, limit, with_dead_letters=with_dead_letters)
        changes.append(Change(span))
    return changes


def _acquired(records: InFlightRecords, is_meant: Callable[[Delivery], bool]) -> Iterator[Span]:
    for batch in records:
        whole = batch.whole
        spans_start = batch.first < records.start_offset <= batch.last
        is_acquired = whole is not None and whole.state is RecordState.ACQUIRED
        if spans_start and is_acquired and whole is not None and is_meant(whole):
            batch.split()
        for span in batch.spans():
            delivery = span.delivery
            if delivery.state is RecordState.ACQUIRED and is_meant(delivery):
                yield span
