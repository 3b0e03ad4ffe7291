"""What is handed out in bulk: a run of one partition's records, and where it leaves the consumer.

    async for batch in batches:
        store(batch.records)
        await consumer.commit(batch.offsets)

Both kinds tell the offset after the run, past the control records and gaps behind it, and the epoch
of the leader that wrote what is before it: what to commit once the run is processed (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.record.columnar.columns import Columns
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["ColumnBatch", "RecordBatch"]


class _Taken:
    """Whose, and from where to where.

    Attributes:
        topic_partition: Whose.
        start: The consumer's position before the run.
        start_epoch: Of the leader that wrote the record before that; -1 unknown.
        next_offset: Its position after the run.
        leader_epoch: Of the leader that wrote the last record; -1 unknown.
    """

    __slots__ = ("leader_epoch", "next_offset", "start", "start_epoch", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        start_epoch: int,
        next_offset: int,
        leader_epoch: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.start = start
        self.start_epoch = start_epoch
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch

    @property
    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit once the run is processed."""
        epoch = None if self.leader_epoch < 0 else self.leader_epoch
        return {self.topic_partition: OffsetAndMetadata(self.next_offset, "", epoch)}


class RecordBatch(_Taken):
    """Consecutive records of one partition.

    Attributes:
        records: In offset order, never empty; the application's to keep or change.
    """

    __slots__ = ("records",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        start_epoch: int,
        next_offset: int,
        leader_epoch: int,
        records: list[Record],
    ) -> None:
        super().__init__(topic_partition, start, start_epoch, next_offset, leader_epoch)
        self.records = records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.topic_partition} to {self.next_offset}>"


class ColumnBatch(_Taken):
    """Consecutive records of one partition as columns: numbers and ranges of bytes.

    The columns refer to the memory of the fetch response; whoever keeps them keeps that too.

    Attributes:
        columns: A column a field; see `aiokafka_lite.record.columnar.columns.Columns`.
    """

    __slots__ = ("columns",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        start_epoch: int,
        next_offset: int,
        leader_epoch: int,
        columns: Columns,
    ) -> None:
        super().__init__(topic_partition, start, start_epoch, next_offset, leader_epoch)
        self.columns = columns

    def __len__(self) -> int:
        return self.columns.count

    def __repr__(self) -> str:
        return f"<columns of {len(self)} records of {self.topic_partition} to {self.next_offset}>"
