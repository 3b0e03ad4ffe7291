"""What is buffered of one partition: fetched records, and those decoded of them. Sans-IO.

Only `aiokafka_lite/consumer/buffering/fetch_buffer.py` assigns these attributes; the position ends
the chunk that it has passed, with `take_end`.
"""

from __future__ import annotations

from aiokafka_lite.consumer.partitions.delivery import Chunk
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.record.record_set import RecordSet


class FetchedData:
    """The buffered data of one assigned partition.

    Attributes:
        chunk: Decoded records being delivered, or None.
        chunk_epoch: Leader epoch of the record before the end of the chunk.
        records: Fetched records not decoded yet, or None.
        heavy: True if `records` are decoded in a thread.
        body: The response body that `records` points into.
    """

    __slots__ = ("body", "chunk", "chunk_epoch", "heavy", "records")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        self.chunk_epoch = UNKNOWN_EPOCH
        self.records: RecordSet | None = None
        self.heavy = False
        self.body: ResponseBody | None = None

    def take_end(self) -> tuple[int, int] | None:
        """Remove the chunk.

        Returns:
            The offset after it, and the leader epoch of the record before that; None without one.
        """
        chunk = self.chunk
        if chunk is None:
            return None
        self.chunk = None
        return chunk.end, self.chunk_epoch
