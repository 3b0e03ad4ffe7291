"""One partition's log: batches as they came, found by offset and by timestamp. No I/O, no clock.

Batches lie back to back in segments of plain memory, and only their base offset and leader epoch
are written over. A read is a slice of a segment, or one join where it runs over a segment's end.
A segment never grows, and what was cut off one is never written over, so a slice that someone
holds stays valid while the log goes on.

What is kept beside memory goes through a `LogStore`: `append` tells it each batch, `rewrite`
and `truncate` the batches that are left, `delete_before` the new start; `load` is the way
back.
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
INDEX_INTERVAL_BYTES: Final = 4096  # index.interval.bytes: how exactly Kafka knows its batches

_EMPTY: Final = memoryview(b"")


class FoundOffset(NamedTuple):
    """A record found by its timestamp (ms), and the leader epoch it was appended in."""

    offset: int
    timestamp: int
    leader_epoch: int


class LogStore:
    """What outlives the process of one log. This one keeps nothing; `storage` has one that does.

    Every batch is told with its offsets and its leader epoch in it, so the batches and the start
    offset are the whole log.
    """

    def append(self, batch: memoryview) -> None:
        """A batch was put at the end."""

    def rewrite(self, batches: Iterable[memoryview], start_offset: int, end_offset: int) -> None:
        """The log was cut or compacted: these batches are all it has."""

    def move_start(self, offset: int) -> None:
        """What lies before `offset` may be forgotten."""


class PartitionLog:
    """The records of one partition.

    Attributes:
        start_offset: First offset that may be read (`log start offset`).
        end_offset: Offset that the next record will get (`log end offset`).
        epochs: `(leader epoch, first offset appended in it)`, oldest first.
        max_timestamp: Largest timestamp of any batch, in ms; -1 when there is none. As in Kafka,
            whose segments are large, a batch before the log's start may have it.
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
        self._max_timestamp_offset = -1  # base offset of the batch that has it
        self._latest_gone: FoundOffset | None = None  # that record, if its segment was dropped
        self._segments: list[Segment] = []
        # As Kafka's offset index: a batch now and then, where it begins and its last offset.
        self._indexed_positions = array("q")
        self._indexed_offsets = array("q")
        self._unindexed_bytes = 0

    @property
    def high_watermark(self) -> int:
        """Every append counts as replicated at once, so this is the end."""
        return self.end_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """A new leader appends from here on."""
        while self.epochs and self.epochs[-1][1] >= self.end_offset:
            del self.epochs[-1]  # nothing was appended in it
        self.epochs.append((leader_epoch, self.end_offset))

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that `offset` was, or would be, appended in; -1 if none began yet."""
        index = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[index - 1][0] if index else -1

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        append_time_ms: int | None = None,
    ) -> int:
        """Copy a checked v2 batch to the end of the log and give it its offsets.

        Args:
            batch: Exactly the bytes of the batch.
            header: Its header, already read and checked.
            leader_epoch: Epoch of the leader that appends.
            append_time_ms: Replaces the records' timestamps (topics with `LogAppendTime`).

        Returns:
            The offset of the batch's first record.
        """
        base_offset = self.end_offset
        timestamp = header.max_timestamp if append_time_ms is None else append_time_ms
        stored = self._add(batch, base_offset, base_offset + header.last_offset_delta, timestamp)
        rebase(stored, 0, base_offset, leader_epoch)
        if append_time_ms is not None:
            stamp_append_time(stored, append_time_ms)
        if self._store is not None:
            self._store.append(stored)
        return base_offset

    def load(
        self, batches: Iterable[Buffer], start_offset: int, end_offset: int, store: LogStore
    ) -> None:
        """Fill an empty log with what a store kept of it, and go on in that store.

        Args:
            batches: As they were told to the store, with their offsets and leader epochs.
            start_offset: Where the log may be read from.
            end_offset: Where it ended at least.
            store: Told every change from now on, but not of these batches.
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
        """Cut the end off, as a replica does that has more than its new leader.

        Args:
            to_offset: Nothing at or after it is left. The batch that holds it goes as a whole, as
                replicas have either all of a batch or nothing.

        Returns:
            Where the log ends now.
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
        """Put other batches in place of all there are, as compaction does.

        Args:
            batches: In order, with their offsets and epochs; there may be gaps between them. The
                log ends where it ended.
        """
        end_offset = self.end_offset
        self._fill(batches)
        self.end_offset = end_offset
        self._find_max_timestamp_again()
        if self._store is not None:
            self._store.rewrite(self.batches(), self.start_offset, end_offset)

    def batches(self) -> Iterator[memoryview]:
        """Every batch that has offsets from the log's start on."""
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
        """The batches from the one that holds `offset`; the last one may be cut off.

        Args:
            offset: From `start_offset` to `end_offset`; the first batch may begin before it.
            max_bytes: What is returned ends there, in the middle of a batch if need be.
            at_least_one: Return the first batch whole even if it is larger (KIP-74); without,
                one that does not fit is held back.
            below: Leave out batches from this offset on (the last stable offset).
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
        """Bytes that a read from `offset` without a limit would return; costs no read."""
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
        """The first offset of the batch that holds `offset`; itself where none does."""
        if offset >= self.end_offset or not self._segments:
            return offset
        segment = self._segments[self._segment_index(offset)]
        index = bisect_left(segment.last_offsets, offset)
        if index == len(segment.positions):
            return offset
        return min(offset, BatchHeader.read(segment.view, segment.positions[index]).base_offset)

    def upper_bound(self, offset: int, size: int) -> int:
        """An offset that is not below any in `size` bytes read from `offset` on.

        Kafka finds it in an index that knows a batch every 4096 bytes, and looks for aborted
        transactions up to there.
        """
        segment = self._segments[self._segment_index(offset)]
        position = segment.start_position + segment.position_of(offset) + size
        index = bisect_left(self._indexed_positions, position)
        if index < len(self._indexed_positions):
            return self._indexed_offsets[index]
        return self.end_offset

    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record that is at least as late as `timestamp_ms`, if there is one."""
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
        """The first record that has the log's largest timestamp (KIP-734), if there is any."""
        if self._max_timestamp_offset < 0:
            return None
        if self._max_timestamp_offset < self._segments[0].base_offset:
            return self._latest_gone
        segment = self._segments[self._segment_index(self._max_timestamp_offset)]
        index = bisect_left(segment.last_offsets, self._max_timestamp_offset)
        return self._find_in_batch(segment, index, self.max_timestamp, 0)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Where a leader epoch ended (KIP-101).

        Returns:
            `(epoch, end offset)` with the largest epoch not after `epoch`; `(-1, -1)` when
            `epoch` is after all that are known.
        """
        if not self.epochs or epoch < 0 or epoch > self.epochs[-1][0]:
            return (-1, -1)
        index = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        end = self.epochs[index][1] if index < len(self.epochs) else self.end_offset
        return (self.epochs[index - 1][0] if index else epoch, end)

    def delete_before(self, offset: int, *, forget: bool = False) -> None:
        """Move the log start to `offset`; whole segments before it are dropped.

        Args:
            offset: Up to the log's end.
            forget: Find the largest timestamp again, as if every batch were a segment.
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
        if known:  # the epoch at the start begins there now, and those before it are forgotten
            self.epochs[:known] = [(self.epochs[known - 1][0], self.start_offset)]
        if forget and self._max_timestamp_offset < self.start_offset:
            self._find_max_timestamp_again()
        if self._store is not None:
            self._store.move_start(self.start_offset)

    def _add(self, batch: Buffer, base_offset: int, last_offset: int, timestamp: int) -> memoryview:
        """The one place where a batch enters memory, at the end; the copy that lies there."""
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
        """Begin anew with batches that have their offsets."""
        kept = list(batches)  # they may lie in the segments that go
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
        """The one place where the end of the log goes: whole batches, from the one at an offset."""
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
        """The segment that has room for `size` more bytes: the last, or a new one."""
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
        """Index of the segment that holds `offset`; the log must hold it."""
        index = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return max(index - 1, 0)

    def _find_in_batch(
        self, segment: Segment, index: int, timestamp_ms: int, first: int
    ) -> FoundOffset | None:
        batch = segment.batch(index)
        header = BatchHeader.read(batch)
        if header.control:  # its one record counts too, but is not one of `records_of`
            if header.base_offset < first or header.max_timestamp < timestamp_ms:
                return None
            return FoundOffset(header.base_offset, header.max_timestamp, header.leader_epoch)
        for record in _records(batch, first):
            if record.timestamp >= timestamp_ms:
                return FoundOffset(record.offset, record.timestamp, header.leader_epoch)
        return None

    def _find_max_timestamp_again(self) -> None:
        """After something went: the largest timestamp of what is left."""
        self.max_timestamp, self._max_timestamp_offset = -1, -1
        for segment in self._segments:
            for index, last_offset in enumerate(segment.last_offsets):
                if last_offset < self.start_offset:
                    continue
                batch = segment.batch(index)
                header = BatchHeader.read(batch)
                largest = header.max_timestamp
                if header.base_offset < self.start_offset:  # the log starts in the midst of it
                    left = _records(batch, self.start_offset)
                    largest = max((record.timestamp for record in left), default=-1)
                if largest > self.max_timestamp:
                    self.max_timestamp = largest
                    self._max_timestamp_offset = header.base_offset


def _records(batch: memoryview, first: int) -> "Sequence[StoredRecord]":
    from aiokafka_lite.testing.log.conversion import records_of  # decoding is rare: import late

    return records_of(batch, first)
