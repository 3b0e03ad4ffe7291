"""The acquisition of fetched records for a member of a share group. No I/O, no clock.

Source: Kafka's `SharePartition.acquire`. New records are acquired in whole batches of the log, or
up to `max_records` in the mode record_limit (KIP-1206). Records that are delivered again come in
the batches of their first acquisition, which shrink from half of the delivery limit on; a last
attempt comes alone (KIP-932).
"""

from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.share.in_flight_records import (
    Delivery,
    InFlightBatch,
    InFlightRecords,
    RecordState,
    Span,
)

__all__ = ["AcquireLimits", "Acquired", "Acquisition"]

FEWEST_ATTEMPTS: Final = 2
"""The lowest delivery limit, and the lowest count from which redelivered batches shrink."""


class Acquired(NamedTuple):
    """A range of acquired records with the same delivery count.

    Attributes:
        first: The first offset.
        last: The last offset, inclusive.
        deliveries: How often the records have been delivered, including this time.
    """

    first: int
    last: int
    deliveries: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class AcquireLimits(NamedTuple):
    """What a request and its group allow.

    Attributes:
        max_records: The most records; whole batches may exceed it unless `strict`.
        batch_size: The records of a new range, beyond which another one begins.
        strict: True for the mode record_limit.
        max_locks: The most records in flight in the partition.
        delivery_limit: The most deliveries of a record.
    """

    max_records: int
    batch_size: int
    strict: bool
    max_locks: int
    delivery_limit: int


class Acquisition:
    """One acquisition from the batches of one read.

    Args:
        records: The records in flight.
        member_id: The member.
        deadline_ms: When its locks expire.
        limits: What the request and the group allow.
        headers: The headers of the read batches; there is at least one.

    Attributes:
        ranges: The acquired ranges.
        count: The number of acquired records.
    """

    def __init__(
        self,
        records: InFlightRecords,
        member_id: str,
        deadline_ms: int,
        limits: AcquireLimits,
        headers: Sequence[BatchHeader],
    ) -> None:
        self._records = records
        self._member_id = member_id
        self._deadline_ms = deadline_ms
        self._limits = limits
        self._headers = headers
        self._most = limits.max_records
        self._throttled_from = max(FEWEST_ATTEMPTS, ceil(limits.delivery_limit / 2))
        self.ranges: list[Acquired] = []
        self.count = 0

    def run(self, fetch_offset: int) -> None:
        """Acquire the available and the new records of the batches, as far as the limits allow.

        Args:
            fetch_offset: The offset from which the batches were read.
        """
        records = self._records
        last = self._headers[-1].last_offset
        if self._most <= 0 or last < records.start_offset:
            return
        room = self._limits.max_locks - records.count
        if min(self._most, room) > 0:
            self._most = min(self._most, room)
        elif fetch_offset <= records.end_offset:
            # No new records, but those in flight can be delivered again.
            self._most = min(self._most, records.end_offset - fetch_offset + 1)
            last = min(last, records.end_offset)
        else:
            return
        first_read = self._headers[0].base_offset
        if fetch_offset < first_read and records:
            self._archive_missing(fetch_offset, first_read)
        first = self._first(first_read)
        overlapping = records.between(min(first_read, first), last)
        if not overlapping:
            self._acquire_new(first, last)
        else:
            self._acquire_overlapping(overlapping, first_read, first, last)

    def _archive_missing(self, first: int, before: int) -> None:
        """Archive available records that the log no longer has, after compaction."""
        records = self._records
        floor = records.floor(first)
        start = floor.first if floor is not None and floor.last >= first else first
        batches = records.between(start, before - 1)
        if records.archive(batches, first, before - 1, RecordState.AVAILABLE):
            records.may_have_available = True

    def _first(self, first_read: int) -> int:
        """Return the first offset to consider: that of the batch in flight which contains it."""
        floor = self._records.floor(first_read)
        if floor is None:
            return max(first_read, self._records.start_offset)
        return floor.first if floor.last >= first_read else first_read

    def _acquire_overlapping(
        self, batches: Sequence[InFlightBatch], first_read: int, first: int, last: int
    ) -> None:
        records = self._records
        gap = first
        for batch in batches:
            if self.count >= self._most:
                break
            if records.has_gap:
                if gap < batch.first:
                    self._acquire_new(gap, batch.first - 1)
                gap = batch.last + 1
                if self.count >= self._most:
                    break
            throttled = self._is_throttled(batch, first_read, last)
            if throttled and self.count:
                self._most = 0
                break
            if self._acquire_batch(batch, first_read, last, throttled=throttled) and throttled:
                self._most = 0
                break
        end = batches[-1].last
        if self.count < self._most and end < last:
            self._acquire_new(end + 1, last)
        if self.ranges:
            records.on_acquired_until(self.ranges[-1].last + 1)

    def _acquire_batch(
        self, batch: InFlightBatch, first_read: int, last: int, *, throttled: bool
    ) -> bool:
        """Acquire the available records of a batch in flight; return True if there were any."""
        left = self._most - self.count
        whole = batch.whole
        if whole is not None:
            if whole.state is not RecordState.AVAILABLE:
                return False
            fits = batch.is_within(first_read, last) and not throttled
            if fits and not (self._limits.strict and len(batch) > left):
                whole.acquire(self._member_id, self._deadline_ms)
                self.ranges.append(Acquired(batch.first, batch.last, whole.count))
                self.count += len(batch)
                return True
            batch.split()
        spans = self._chosen(batch, first_read, last, left)
        for span in spans:
            span.delivery.acquire(self._member_id, self._deadline_ms)
        self.ranges += _joined(spans)
        self.count += len(spans)
        return bool(spans)

    def _chosen(self, batch: InFlightBatch, first: int, last: int, left: int) -> list[Span]:
        """Return the offsets of a split batch to acquire."""
        limit = self._limits.delivery_limit
        last_attempt_alone = limit > FEWEST_ATTEMPTS
        chosen: list[Span] = []
        most_throttled = -1
        for span in batch.spans(first, last):
            if span.delivery.state is not RecordState.AVAILABLE:
                continue
            count = span.delivery.count
            if last_attempt_alone and count == limit - 1 and chosen:
                break
            if count >= self._throttled_from and most_throttled < 0:
                most_throttled = max(1, len(batch) >> (count - self._throttled_from + 1))
            chosen.append(span)
            if last_attempt_alone and count + 1 == limit:
                break
            if self._limits.strict and len(chosen) == left:
                break
            if len(chosen) == most_throttled:
                break
        return chosen

    def _is_throttled(self, batch: InFlightBatch, first: int, last: int) -> bool:
        """Return True if the batch has available records that were delivered so often that it
        must shrink."""
        return any(
            span.delivery.state is RecordState.AVAILABLE
            and span.delivery.count >= self._throttled_from
            for span in batch.spans(first, last)
        )

    # New records

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire records for the first time."""
        records = self._records
        if not records and records.end_offset > first:
            first = records.end_offset
        most = self._most - self.count
        if most < last - first + 1:
            end = self._end_of_batch(first + most - 1)
            last = min(last, end) if records.has_gap else end
        ranges = self._add(first, last, most)
        if records.first.first == first:
            records.start_offset = first
        records.end_offset = max(records.end_offset, last)
        self.ranges += ranges
        self.count += ranges[-1].last - first + 1
        records.on_acquired_until(ranges[-1].last + 1)

    def _add(self, first: int, last: int, most: int) -> list[Acquired]:
        """Add one batch in flight for each new range; return the ranges."""
        records = self._records
        if self._limits.strict and last - first + 1 > most:
            batch = InFlightBatch(first, last, Delivery(RecordState.AVAILABLE, 0))
            batch.split()
            for span in batch.spans(first, first + most - 1):
                span.delivery.acquire(self._member_id, self._deadline_ms)
            records.add(batch)
            records.may_have_available = True
            return [Acquired(first, first + most - 1, 1)]
        bounds = [first]
        if not self._limits.strict and last - first + 1 > self._limits.batch_size:
            for header in self._headers:
                if header.base_offset > last:
                    break
                if header.base_offset - bounds[-1] >= self._limits.batch_size:
                    bounds.append(header.base_offset)
        ranges = [
            Acquired(begin, end, 1)
            for begin, end in zip(bounds, [*(one - 1 for one in bounds[1:]), last], strict=True)
        ]
        for each in ranges:
            delivery = Delivery(RecordState.ACQUIRED, 1, self._member_id, self._deadline_ms)
            records.add(InFlightBatch(each.first, each.last, delivery))
        return ranges

    def _end_of_batch(self, offset: int) -> int:
        """Return the last offset of the read batch that contains an offset."""
        for header in reversed(self._headers):
            if header.base_offset <= offset:
                return max(offset, header.last_offset)
        return offset


def _joined(spans: Sequence[Span]) -> list[Acquired]:
    """Join adjacent offsets with the same delivery count."""
    ranges: list[Acquired] = []
    for span in spans:
        before = ranges[-1] if ranges else None
        if before and span.first == before.last + 1 and span.delivery.count == before.deliveries:
            ranges[-1] = before._replace(last=span.last)
        else:
            ranges.append(Acquired(span.first, span.last, span.delivery.count))
    return ranges
