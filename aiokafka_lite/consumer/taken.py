"""What is handed out in bulk: a run of one partition's records, and where it leaves the consumer.

    async for batch in batches:
        store(batch.records)
        await consumer.commit(batch.offsets)

Both kinds tell the offset after the run, past the control records and gaps behind it: what to
commit once the run is processed.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka_lite.consumer.delivery import Record
from aiokafka_lite.record.columns import Columns
from aiokafka_lite.structs import TopicPartition

__all__ = ["ColumnBatch", "RecordBatch"]


class RecordBatch:
    """Consecutive records of one partition.

    Attributes:
        topic_partition: Whose.
        start: The consumer's position before them.
        next_offset: Its position after them.
        records: The records, in offset order, never empty; the application's to keep or change.
    """

    __slots__ = ("next_offset", "records", "start", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, start: int, next_offset: int, records: list[Record]
    ) -> None:
        self.topic_partition = topic_partition
        self.start = start
        self.next_offset = next_offset
        self.records = records

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """What to commit once they are processed."""
        return {self.topic_partition: self.next_offset}

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.topic_partition} to {self.next_offset}>"


class ColumnBatch:
    """Consecutive records of one partition as columns: numbers and ranges of bytes.

    The columns refer to the memory of the fetch response; whoever keeps them keeps that too.

    Attributes:
        topic_partition: Whose.
        start: The consumer's position before them.
        next_offset: Its position after them.
        columns: A column a field; see `aiokafka_lite.record.columns.Columns`.
    """

    __slots__ = ("columns", "next_offset", "start", "topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, start: int, next_offset: int, columns: Columns
    ) -> None:
        self.topic_partition = topic_partition
        self.start = start
        self.next_offset = next_offset
        self.columns = columns

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """What to commit once they are processed."""
        return {self.topic_partition: self.next_offset}

    def __len__(self) -> int:
        return self.columns.count

    def __repr__(self) -> str:
        return f"<columns of {len(self)} records of {self.topic_partition} to {self.next_offset}>"
