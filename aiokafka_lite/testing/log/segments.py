"""A log segment in memory. It never grows, and truncated bytes are never overwritten."""

from array import array
from bisect import bisect_left, bisect_right

from aiokafka_lite.protocol.primitives import Buffer

__all__ = ["Segment"]


class Segment:
    """Consecutive whole batches and their positions."""

    __slots__ = (
        "base_offset",
        "largest_timestamps",
        "last_offsets",
        "positions",
        "size",
        "start_position",
        "view",
    )

    def __init__(self, base_offset: int, start_position: int, capacity: int) -> None:
        self.base_offset = base_offset
        self.start_position = start_position
        """Bytes appended to the log before this segment; distances are differences of positions."""
        self.view = memoryview(bytearray(capacity))
        """The segment's memory; shorter after the segment is cut."""
        self.size = 0
        self.positions = array("q")
        self.last_offsets = array("q")
        self.largest_timestamps = array("q")
        """Largest timestamp of the *log* up to and including each batch; sorted, for bisecting."""

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains `offset`, or of the next one."""
        index = bisect_left(self.last_offsets, offset)
        return self.positions[index] if index < len(self.positions) else self.size

    def batch(self, index: int) -> memoryview:
        """Return the bytes of the `index`-th batch."""
        position = self.positions[index]
        return self.view[position : self.batch_end(position)]

    def add(self, batch: Buffer, last_offset: int, largest_timestamp: int) -> memoryview:
        """Copy a batch to the end, which must have room. The returned copy is writable."""
        position = self.size
        self.size = position + len(batch)
        stored = self.view[position : self.size]
        stored[:] = batch
        self.positions.append(position)
        self.last_offsets.append(last_offset)
        self.largest_timestamps.append(largest_timestamp)
        return stored

    def cut(self, index: int) -> None:
        """Remove the batches from the `index`-th on; the segment accepts no others after that."""
        self.size = self.positions[index]
        self.view = self.view[: self.size]  # a reader may still hold the removed bytes
        del self.positions[index:], self.last_offsets[index:], self.largest_timestamps[index:]

    def batch_end(self, position: int) -> int:
        """Return the end of the batch that begins at `position`."""
        index = bisect_right(self.positions, position)
        return self.positions[index] if index < len(self.positions) else self.size
