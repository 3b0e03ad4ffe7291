"""A stretch of a log in memory. It never grows, and what was cut off it is never written over."""

from array import array
from bisect import bisect_left, bisect_right

from aiokafka_lite.protocol.primitives import Buffer

__all__ = ["Segment"]


class Segment:
    """A run of whole batches, and where each of them ends and begins."""

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
        """Bytes appended to the log before this segment: makes distances a subtraction."""
        self.view = memoryview(bytearray(capacity))
        """As long as there is room; shorter once the segment was cut."""
        self.size = 0
        self.positions = array("q")
        self.last_offsets = array("q")
        self.largest_timestamps = array("q")
        """Largest timestamp of the *log* up to and with this batch, so that it can be bisected."""

    def position_of(self, offset: int) -> int:
        """Where the batch begins that holds `offset`, or the next one after it."""
        index = bisect_left(self.last_offsets, offset)
        return self.positions[index] if index < len(self.positions) else self.size

    def batch(self, index: int) -> memoryview:
        """The bytes of the batch that was appended as the `index`-th."""
        position = self.positions[index]
        return self.view[position : self.batch_end(position)]

    def add(self, batch: Buffer, last_offset: int, largest_timestamp: int) -> memoryview:
        """Copy a batch to the end; there must be room. The copy may be written over."""
        position = self.size
        self.size = position + len(batch)
        stored = self.view[position : self.size]
        stored[:] = batch
        self.positions.append(position)
        self.last_offsets.append(last_offset)
        self.largest_timestamps.append(largest_timestamp)
        return stored

    def cut(self, index: int) -> None:
        """Take off the batches from the `index`-th on; the segment takes no others then."""
        self.size = self.positions[index]
        self.view = self.view[: self.size]  # a reader may still hold what lies behind
        del self.positions[index:], self.last_offsets[index:], self.largest_timestamps[index:]

    def batch_end(self, position: int) -> int:
        """Where the batch ends that begins at `position`."""
        index = bisect_right(self.positions, position)
        return self.positions[index] if index < len(self.positions) else self.size
