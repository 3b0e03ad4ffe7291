"""One partition's log: stored batches, searchable by offset and timestamp. No I/O, no clock.

Batches lie back to back in memory segments; only their base offset and leader epoch are
overwritten. A read is a slice of a segment, or one join if it crosses a segment's end. A segment
never grows, and truncated bytes are never overwritten, so a slice stays valid while the log
changes.

A `LogStore` persists the log: `append` passes it each batch, `rewrite` and `truncate` the
remaining batches, `delete_before` the new start offset. `load` restores the log.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.header import BatchHeader, rebase
from aiokafka_lite.testing.log.batch_checks import stamp_append_time
from aiokafka_lite.testing.log.segments import Segment

if TYPE_CHECKING:
    from aiokafka_lite.testing.log.conversion import StoredRecord

__all__ = ["FoundOffset", "LogStore", "PartitionLog"]

FIRST_SEGMENT_BYTES: Final = 16 * 1024
LARGEST_SEGMENT_BYTES: Final = 4 * 1024 * 1024
INDEX_INTERVAL_BYTES: Final = 4096  # index.interval.bytes: the resolution of Kafka's index

_EMPTY: Final = memoryview(b"")


class FoundOffset(NamedTuple):
    """A record found by its timestamp (ms), and the leader epoch of its append."""

    offset: int
    timestamp: int
    leader_epoch: int


class LogStore:
    """Persists one log. This base class stores nothing; `data_folder` has one that does.

    Every batch it receives contains its offsets and leader epoch, so the batches and the start
    offset are the whole log.
    """

    def append(self, batch: memoryview) -> None:
        """Store an appended batch."""

    def rewrite(self, batches: Iterable[memoryview], start_offset: int, end_offset: int) -> None:
        """Replace all batches after a truncation or compaction."""

    def move_start(self, offset: int) -> None:
        """Allow the store to drop everything before `offset`."""


class PartitionLog:
    """The records of one partition.

    Attributes:
        start_offset: First readable offset (`log start offset`).
        end_offset: Offset of the next record (`log end offset`).
        epochs: `(leader epoch, first offset appended in it)`, oldest first.
        max_timestamp: Largest timestamp of any batch, in ms; -1 if there is none. As in Kafka,
            whose segments are large, it may belong to a batch before the log start.
    """

    __slots__ = (
        "_indexed_offsets",
        "_indexed_positions",
        "_latest_gone",
        "_max_timestamp_offset",
        "_segments",
        "_store",
        "_unindexed_bytes",
        "end_offset",
        "epochs",
        "max_timestamp",
        "start_offset",
    )

    def __init__(self, store: LogStore | None = None) -> None:
        self._store = store
        self.start_offset = 0
        self.end_offset = 0
        self.epochs: list[tuple[int, int]] = []
        self.max_timestamp = -1
        self._max_timestamp_offset = -1  # base offset of the batch with `max_timestamp`
        self._latest_gone: FoundOffset | None = None  # that record, if its segment was dropped
        self._segments: list[Segment] = []
        # Like Kafka's offset index: the position and last offset of some batches.
        self._indexed_positions = array("q")
        self._indexed_offsets = array("q")
        self._unindexed_bytes = 0

    @property
    def high_watermark(self) -> int:
        """The log end offset, because appends count as replicated immediately."""
        return self.end_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a new leader epoch at the log end."""
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            del self.epochs[-1]  # nothing was appended in it
        self.epochs.append((leader_epoch, self.end_offset))

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of `offset`, appended or not; -1 before the first epoch."""
        index = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[index - 1][0] if index else -1

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        append_time_ms: int | None = None,
    ) -> int:
        """Copy a checked v2 batch to the end of the log and assign its offsets.

        Args:
            batch: Exactly the bytes of the batch.
            header: Its header, already read and checked.
            leader_epoch: Epoch of the leader that appends.
            append_time_ms: Replaces the records' timestamps (topics with `LogAppendTime`).

        Returns:
            The offset of the batch's first record.

        Raises:
            KafkaStorageError: The store cannot write the batch; the log does not have it.
        """
        base_offset = self.end_offset
        latest = self.max_timestamp, self._max_timestamp_offset
        timestamp = header.max_timestamp if append_time_ms is None else append_time_ms
        stored = self._add(batch, base_offset, base_offset + header.last_offset_delta, timestamp)
        rebase(stored, 0, base_offset, leader_epoch)
        if append_time_ms is not None:
            stamp_append_time(stored, append_time_ms)
        if self._store is not None:
            try:
                self._store.append(stored)
            except BaseException:
                self._cut(base_offset)  # or consumers would read a batch that was refused
                self._cut_index(base_offset)
                self.max_timestamp, self._max_timestamp_offset = latest
                raise
        return base_offset

    def load(
        self, batches: Iterable[Buffer], start_offset: int, end_offset: int, store: LogStore
    ) -> None:
        """Load an empty log from a store, and use that store for later changes.

        Args:
            batches: The stored batches, with their offsets and leader epochs.
            start_offset: The log start offset.
            end_offset: The smallest possible log end offset.
            store: Receives every later change, but not these batches.
        """
        self._store = None
        self._fill(batches)
        self.start_offset = start_offset
        self.end_offset = max(self.end_offset, end_offset, start_offset)
        self.epochs = []
        for batch in self.batches():
            header = BatchHeader.read(batch)
            if not self.epochs or self.epochs[-1][0] < header.leader_epoch:
                self.epochs.append((header.leader_epoch, header.base_offset))
        self._find_max_timestamp_again()
        self._store = store

    def truncate(self, to_offset: int) -> int:
        """Truncate the log, as a replica does that has more records than its new leader.

        Args:
            to_offset: Removes everything from this offset on. The batch that contains it is
                removed as a whole, because replicas store whole batches.

        Returns:
            The new log end offset.
        """
        if to_offset >= self.end_offset:
            return self.end_offset
        if to_offset <= self.start_offset:
            self._segments = []
            self.end_offset = max(to_offset, 0)
        else:
            self._cut(to_offset)
        self._cut_index(self.end_offset)
        self.start_offset = min(self.start_offset, self.end_offset)
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            del self.epochs[-1]
        self._find_max_timestamp_again()
        if self._store is not None:
            self._store.rewrite(self.batches(), self.start_offset, self.end_offset)
        return self.end_offset

    def rewrite(self, batches: Iterable[Buffer]) -> None:
        """Replace all batches, as compaction does.

        Args:
            batches: In order, with their offsets and epochs; there may be gaps between them. The
                log end offset does not change.
        """
        end_offset = self.end_offset
        self._fill(batches)
        self.end_offset = end_offset
        self._find_max_timestamp_again()
        if self._store is not None:
            self._store.rewrite(self.batches(), self.start_offset, end_offset)

    def batches(self) -> Iterator[memoryview]:
        """Yield every batch that has offsets at or after the log start."""
        for segment in self._segments:
            for index, last_offset in enumerate(segment.last_offsets):
                if last_offset >= self.start_offset:
                    yield segment.batch(index).toreadonly()

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        below: int | None = None,
    ) -> memoryview | bytes:
        """Return the batches from the one that contains `offset`; the last may be truncated.

        Args:
            offset: From `start_offset` to `end_offset`; the first batch may begin before it.
            max_bytes: Maximum size of the result; it may end in the middle of a batch.
            at_least_one: Return the first batch whole even if it is larger (KIP-74). False omits
                a batch that does not fit.
            below: Omit batches from this offset on (the last stable offset).
        """
        end = self.end_offset if below is None else min(below, self.end_offset)
        if offset >= end or not self._segments:
            return _EMPTY
        index = self._segment_index(offset)
        segment = self._segments[index]
        position = segment.position_of(offset)
        if position == segment.size and index + 1 < len(self._segments):
            index += 1  # compaction left nothing of this segment from `offset` on
            segment, position = self._segments[index], 0
        first_size = segment.batch_end(position) - position
        if first_size > max_bytes:
            if not at_least_one:
                return _EMPTY
            max_bytes = first_size
        pieces = []
        while True:
            limit = segment.size if end == self.end_offset else segment.position_of(end)
            piece = segment.view[position : min(limit, position + max_bytes)]
            pieces.append(piece.toreadonly())
            max_bytes -= len(piece)
            index += 1
            if max_bytes <= 0 or limit < segment.size or index == len(self._segments):
                break
            segment = self._segments[index]
            position = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def available_bytes(self, offset: int, below: int | None = None) -> int:
        """Return how many bytes an unlimited read from `offset` would return, without reading."""
        end = self.end_offset if below is None else min(below, self.end_offset)
        if offset >= end or not self._segments:
            return 0
        last = self._segments[-1]
        until = last.start_position + last.size
        if end < self.end_offset:
            segment = self._segments[self._segment_index(end)]
            until = segment.start_position + segment.position_of(end)
        segment = self._segments[self._segment_index(offset)]
        return until - segment.start_position - segment.position_of(offset)

    def batch_start(self, offset: int) -> int:
        """Return the first offset of the batch that contains `offset`, or `offset` if none does."""
        if offset >= self.end_offset or not self._segments:
            return offset
        segment = self._segments[self._segment_index(offset)]
        index = bisect_left(segment.last_offsets, offset)
        if index == len(segment.positions):
            return offset
        return min(offset, BatchHeader.read(segment.view, segment.positions[index]).base_offset)

    def upper_bound(self, offset: int, size: int) -> int:
        """Return an upper bound of the offsets in `size` bytes read from `offset` on.

        Kafka takes it from an index with one entry every 4096 bytes, and searches for aborted
        transactions up to it.
        """
        segment = self._segments[self._segment_index(offset)]
        position = segment.start_position + segment.position_of(offset) + size
        index = bisect_left(self._indexed_positions, position)
        if index < len(self._indexed_positions):
            return self._indexed_offsets[index]
        return self.end_offset

    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """Return the first record with a timestamp of at least `timestamp_ms`, or None."""
        for segment in self._segments:
            largest = segment.largest_timestamps
            if not largest or largest[-1] < timestamp_ms:
                continue
            index = bisect_left(largest, timestamp_ms)
            while index < len(segment.positions):
                found = self._find_in_batch(segment, index, timestamp_ms, self.start_offset)
                if found is not None:
                    return found
                index += 1
        return None

    def find_max_timestamp(self) -> FoundOffset | None:
        """Return the first record with the log's largest timestamp (KIP-734), or None."""
        if self._max_timestamp_offset < 0:
            return None
        if self._max_timestamp_offset < self._segments[0].base_offset:
            return self._latest_gone
        segment = self._segments[self._segment_index(self._max_timestamp_offset)]
        index = bisect_left(segment.last_offsets, self._max_timestamp_offset)
        return self._find_in_batch(segment, index, self.max_timestamp, 0)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the end offset of a leader epoch (KIP-101).

        Returns:
            `(epoch, end offset)` of the largest epoch not after `epoch`; `(-1, -1)` if
            `epoch` is newer than every known epoch.
        """
        if not self.epochs or epoch < 0 or epoch > self.epochs[-1][0]:
            return (-1, -1)
        index = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        end = self.epochs[index][1] if index < len(self.epochs) else self.end_offset
        return (self.epochs[index - 1][0] if index else epoch, end)

    def delete_before(self, offset: int, *, forget: bool = False) -> None:
        """Move the log start to `offset`; whole segments before it are dropped.

        Args:
            offset: At most the log end offset.
            forget: Recompute the largest timestamp, as if every batch were a segment.
        """
        offset = min(offset, self.end_offset)
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        gone = 0
        while gone < len(self._segments) - 1 and (
            self._segments[gone].last_offsets[-1] < self.start_offset
        ):
            gone += 1
        if gone and self._max_timestamp_offset < self._segments[gone].base_offset:
            self._latest_gone = self.find_max_timestamp()
        del self._segments[:gone]
        known = bisect_right(self.epochs, self.start_offset, key=lambda entry: entry[1])
        if known:  # the epoch at the start now begins there; older ones are dropped
            self.epochs[:known] = [(self.epochs[known - 1][0], self.start_offset)]
        if forget and self._max_timestamp_offset < self.start_offset:
            self._find_max_timestamp_again()
        if self._store is not None:
            self._store.move_start(self.start_offset)

    def _add(self, batch: Buffer, base_offset: int, last_offset: int, timestamp: int) -> memoryview:
        """Append a batch and return its copy; the only place where a batch enters memory."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self._max_timestamp_offset = base_offset
        self.end_offset = last_offset + 1
        segment = self._segment_for(len(batch), base_offset)
        if self._unindexed_bytes > INDEX_INTERVAL_BYTES:
            self._indexed_positions.append(segment.start_position + segment.size)
            self._indexed_offsets.append(last_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += len(batch)
        return segment.add(batch, last_offset, self.max_timestamp)

    def _fill(self, batches: Iterable[Buffer]) -> None:
        """Replace the contents with batches that have their offsets."""
        kept = list(batches)  # they may lie in the replaced segments
        self._segments = []
        self._cut_index(0)
        self.max_timestamp = self._max_timestamp_offset = -1
        for batch in kept:
            header = BatchHeader.read(memoryview(batch))
            self._add(batch, header.base_offset, header.last_offset, header.max_timestamp)

    def _cut_index(self, to_offset: int) -> None:
        kept = bisect_left(self._indexed_offsets, to_offset)
        del self._indexed_positions[kept:], self._indexed_offsets[kept:]
        self._unindexed_bytes = 0

    def _cut(self, to_offset: int) -> None:
        """Remove whole batches from the one that contains `to_offset` on; the only such place."""
        self.end_offset = to_offset
        while self._segments:
            segment = self._segments[-1]
            index = bisect_left(segment.last_offsets, to_offset)
            if index < len(segment.positions):
                base_offset = BatchHeader.read(segment.batch(index)).base_offset
                self.end_offset = min(self.end_offset, base_offset)
                segment.cut(index)
            if index:
                break
            del self._segments[-1]

    def _segment_for(self, size: int, base_offset: int) -> Segment:
        """Return a segment with room for `size` more bytes: the last, or a new one."""
        if not self._segments:
            capacity, position = FIRST_SEGMENT_BYTES, 0
        else:
            last = self._segments[-1]
            if last.size + size <= len(last.view):
                return last
            capacity = min(2 * len(last.view), LARGEST_SEGMENT_BYTES)
            position = last.start_position + last.size
        segment = Segment(base_offset, position, max(capacity, size))
        self._segments.append(segment)
        return segment

    def _segment_index(self, offset: int) -> int:
        """Return the index of the segment that contains `offset`; the log must contain it."""
        index = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return max(index - 1, 0)

    def _find_in_batch(
        self, segment: Segment, index: int, timestamp_ms: int, first: int
    ) -> FoundOffset | None:
        batch = segment.batch(index)
        header = BatchHeader.read(batch)
        if header.control:  # its record counts too, but `records_of` omits it
            if header.base_offset < first or header.max_timestamp < timestamp_ms:
                return None
            return FoundOffset(header.base_offset, header.max_timestamp, header.leader_epoch)
        for record in _records(batch, first):
            if record.timestamp >= timestamp_ms:
                return FoundOffset(record.offset, record.timestamp, header.leader_epoch)
        return None

    def _find_max_timestamp_again(self) -> None:
        """Recompute the largest timestamp after a removal."""
        self.max_timestamp, self._max_timestamp_offset = -1, -1
        for segment in self._segments:
            for index, last_offset in enumerate(segment.last_offsets):
                if last_offset < self.start_offset:
                    continue
                batch = segment.batch(index)
                header = BatchHeader.read(batch)
                largest = header.max_timestamp
                if header.base_offset < self.start_offset:  # the log starts inside this batch
                    left = _records(batch, self.start_offset)
                    largest = max((record.timestamp for record in left), default=-1)
                if largest > self.max_timestamp:
                    self.max_timestamp = largest
                    self._max_timestamp_offset = header.base_offset


def _records(batch: memoryview, first: int) -> "Sequence[StoredRecord]":
    from aiokafka_lite.testing.log.conversion import records_of  # decoding is rare: import late

    return records_of(batch, first)
