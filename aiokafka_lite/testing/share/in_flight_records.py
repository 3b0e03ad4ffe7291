"""The records of a share partition between its start and end offset. No I/O, no clock.

As in Kafka, records are grouped in the batches in which they were first acquired, and a batch has
one state until an acquisition or acknowledgement covers a part of it: from then on each of its
offsets has its own. Acquired ranges and throttled redelivery depend on these batches.
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

__all__ = ["NOBODY", "Delivery", "InFlightBatch", "InFlightRecords", "RecordState", "Span"]

NOBODY: Final = ""


class RecordState(IntEnum):
    """The state of a record in a group, with Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # being written to the dead-letter topic
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """True if the record is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Delivery:
    """The delivery state of a batch, or of one offset of a batch.

    Attributes:
        state: The state.
        count: How often it was delivered.
        member_id: The member that holds it; `NOBODY` unless it is acquired.
        deadline_ms: When its lock expires, on the brokers' clock; None unless it is acquired.
    """

    __slots__ = ("count", "deadline_ms", "member_id", "state")

    def __init__(
        self,
        state: RecordState,
        count: int,
        member_id: str = NOBODY,
        deadline_ms: int | None = None,
    ) -> None:
        self.state = state
        self.count = count
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def copy(self) -> "Delivery":
        return Delivery(self.state, self.count, self.member_id, self.deadline_ms)

    def assign(self, other: "Delivery") -> None:
        """Take over another's values."""
        self.state, self.count = other.state, other.count
        self.member_id, self.deadline_ms = other.member_id, other.deadline_ms

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        """Deliver it to a member once more."""
        self.state = RecordState.ACQUIRED
        self.count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def leave(self, state: RecordState) -> None:
        """End an acquisition."""
        self.state = state
        self.member_id = NOBODY
        self.deadline_ms = None


class Span:
    """A part of a batch with one delivery state: the whole batch, or one offset.

    Attributes:
        first: The first offset.
        last: The last offset, inclusive.
        delivery: Its state.
    """

    __slots__ = ("delivery", "first", "last")

    def __init__(self, first: int, last: int, delivery: Delivery) -> None:
        self.first = first
        self.last = last
        self.delivery = delivery


class InFlightBatch:
    """Records that were first acquired together.

    Args:
        first: The first offset.
        last: The last offset, inclusive.
        delivery: The state of all its records.

    Attributes:
        whole: The state of all records; None once the offsets have their own.
    """

    __slots__ = ("_each", "first", "last", "whole")

    def __init__(self, first: int, last: int, delivery: Delivery) -> None:
        self.first = first
        self.last = last
        self.whole: Delivery | None = delivery
        self._each: list[Delivery] = []

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> None:
        """Give each offset its own state; does nothing if it has one already."""
        if self.whole is not None:
            whole, self.whole = self.whole, None
            self._each = [whole.copy() for _ in range(len(self))]

    def is_within(self, first: int, last: int) -> bool:
        """Return True if the batch lies between two offsets."""
        return first <= self.first and self.last <= last

    def spans(self, first: int | None = None, last: int | None = None) -> Iterator[Span]:
        """Yield the parts with their states: the whole batch, or its offsets in a range."""
        if self.whole is not None:
            yield Span(self.first, self.last, self.whole)
            return
        start = self.first if first is None else max(first, self.first)
        end = self.last if last is None else min(last, self.last)
        for offset in range(start, end + 1):
            yield Span(offset, offset, self._each[offset - self.first])

    def at(self, offset: int) -> Delivery:
        """Return the state of one of its offsets."""
        return self._each[offset - self.first] if self.whole is None else self.whole


class InFlightRecords:
    """The batches in flight, by offset, and the share partition's start and end offset.

    Attributes:
        start_offset: The first offset that is not in a terminal state (Kafka's SPSO).
        end_offset: The last offset that was ever acquired (SPEO), or if no batch is in flight, the
            next one to acquire.
        may_have_available: True if a released record may exist before the end offset.
        gap: The first offset that no batch covers, after a new leader restored the state; None if
            there is no such gap.
    """

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.may_have_available = False
        self.gap: int | None = None
        self._gap_end = -1
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def last(self) -> InFlightBatch:
        """The last batch; there must be one."""
        return self._batches[-1]

    @property
    def first(self) -> InFlightBatch:
        """The first batch; there must be one."""
        return self._batches[0]

    @property
    def count(self) -> int:
        """The number of offsets between start and end: those that count against the limit."""
        return self.end_offset - self.start_offset + 1 if self._batches else 0

    @property
    def completed(self) -> int:
        """The number of records in a terminal state from the start offset on."""
        total = 0
        for batch in self._batches:
            for span in batch.spans(self.start_offset):
                if span.delivery.state.is_terminal:
                    total += max(0, span.last - max(span.first, self.start_offset) + 1)
        return total

    def restore(self, batches: list[InFlightBatch]) -> None:
        """Take over the batches that an earlier leader stored; offsets between them are a gap."""
        self._batches = batches
        if not batches:
            return
        self.may_have_available = True
        self.end_offset = batches[-1].last
        expected = self.start_offset
        for batch in batches:
            if batch.first > expected:
                self.gap, self._gap_end = expected, self.end_offset
                break
            expected = batch.last + 1
        self.move_start()

    @property
    def has_gap(self) -> bool:
        """True while offsets within the restored range were never acquired since."""
        return self.gap is not None and self._gap_end == self.end_offset

    def on_acquired_until(self, offset: int) -> None:
        """Move the start of the gap after an acquisition that ended before `offset`."""
        if self.gap is not None:
            if self._gap_end == self.end_offset and offset <= self._gap_end:
                self.gap = offset
            else:
                self.gap = None

    # Lookup

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        index = self._index_after(offset)
        return self._batches[index - 1] if index else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin between two offsets, both inclusive."""
        start = self._index_after(first - 1)
        return self._batches[start : self._index_after(last)]

    def before(self, offset: int) -> list[InFlightBatch]:
        """Return the batches that begin before an offset."""
        return self._batches[: self._index_after(offset - 1)]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch, which overlaps no other."""
        self._batches.insert(self._index_after(batch.first), batch)

    def next_offset(self) -> int:
        """Return the offset from which the log is read next: the first available record."""
        if not self._batches or self.start_offset > self.last.last:
            self.may_have_available = False
            return self.end_offset
        if not self.may_have_available:
            return self.end_offset + 1
        gap = self.gap if self.has_gap else None
        for batch in self._batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for span in batch.spans():
                if span.delivery.state is RecordState.AVAILABLE:
                    return span.first
        self.may_have_available = False
        return self.end_offset + 1

    # Changes

    def archive_available(self, first: int, before: int) -> bool:
        """Archive the available records of a range that the log no longer has; return True if
        there was one."""
        found = self.archive(self.before(before), first, before - 1, RecordState.AVAILABLE)
        if found:
            self.may_have_available = True
        return found

    def archive(
        self, batches: list[InFlightBatch], first: int, last: int, state: RecordState
    ) -> bool:
        """Archive the records of a range that are in a state; return True if there was one."""
        found = False
        for batch in batches:
            if batch.whole is not None and not batch.is_within(first, last):
                if batch.whole.state is not state:
                    continue
                batch.split()
            for span in batch.spans(first, last):
                if span.delivery.state is state:
                    span.delivery.leave(RecordState.ARCHIVED)
                    found = True
        return found

    def on_log_start(self, log_start: int) -> None:
        """Follow the log's start, before which records were deleted."""
        if log_start <= self.start_offset:
            return
        if not self._batches:
            self.start_offset = self.end_offset = log_start
            return
        self.archive_available(self.start_offset, log_start)
        self.start_offset = log_start
        self.end_offset = max(self.end_offset, log_start)

    def move_start(self) -> bool:
        """Move the start offset behind the records in a terminal state; drop whole batches before
        it. Return True if it moved."""
        if not self._starts_with_terminal():
            return False
        last = self._last_terminal()
        if last is None:
            return False
        if last == self.last.last:
            self.start_offset = self.end_offset = last + 1
            self._batches = []
            return True
        index = self._index_after(last) - 1
        if last == self._batches[index].last:
            self.start_offset = max(self.start_offset, self._batches[index + 1].first)
            if self.has_gap and self.gap is not None:
                self.start_offset = min(self.gap, self.start_offset)
            index += 1
        else:
            self.start_offset = max(self.start_offset, last + 1)
        del self._batches[:index]
        return True

    def _starts_with_terminal(self) -> bool:
        batch = self.floor(self.start_offset)
        if batch is None or batch.last < self.start_offset:
            return False
        return batch.at(self.start_offset).state.is_terminal

    def _last_terminal(self) -> int | None:
        """Return the last offset before the first record that is not in a terminal state."""
        found = None
        for batch in self._batches:
            if self.has_gap and self.gap is not None and batch.last >= self.gap:
                return found
            for span in batch.spans():
                if not span.delivery.state.is_terminal:
                    return found
                found = span.last
        return found

    def _index_after(self, offset: int) -> int:
        return bisect_right(self._batches, offset, key=lambda batch: batch.first)
