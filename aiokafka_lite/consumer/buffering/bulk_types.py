"""The results of bulk reads: a run of one partition's records, and the position after it.

    async for batch in batches:
        store(batch.records)
        await consumer.commit(batch.offsets)

All kinds hold what to commit once the run is processed (KIP-320): the offset after the run, past
the control records and gaps that follow it, and the leader epoch of the record before that offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic

from aiokafka_lite._consumer_record import ConsumerRecord, K, V
from aiokafka_lite.record.columnar.columns import Columns
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowBatch", "ColumnBatch", "RecordBatch"]


class _Taken:
    """The partition and the offsets of a run.

    Attributes:
        topic_partition: The partition of the run.
        start: The consumer's position before the run.
        start_epoch: Leader epoch of the record before that; -1 unknown.
        next_offset: The consumer's position after the run.
        leader_epoch: Leader epoch of the last record; -1 unknown.
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
        """The offsets to commit once the run is processed."""
        epoch = None if self.leader_epoch < 0 else self.leader_epoch
        return {self.topic_partition: OffsetAndMetadata(self.next_offset, "", epoch)}


class RecordBatch(_Taken, Generic[K, V]):
    """Consecutive records of one partition.

    Attributes:
        records: In offset order, never empty. The application may keep or change the list.
    """

    __slots__ = ("records",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        start_epoch: int,
        next_offset: int,
        leader_epoch: int,
        records: list[ConsumerRecord[K, V]],
    ) -> None:
        super().__init__(topic_partition, start, start_epoch, next_offset, leader_epoch)
        self.records = records

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.topic_partition} to {self.next_offset}>"


class ColumnBatch(_Taken):
    """Consecutive records of one partition as columns: numbers and ranges of bytes.

    The columns refer to the memory of the fetch response and keep it alive.

    Attributes:
        columns: One column per field; see `aiokafka_lite.record.columnar.columns.Columns`.
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


class ArrowBatch(_Taken):
    """Consecutive records of one partition as an Arrow record batch.

    Libraries that import Arrow data (`__arrow_c_array__`) accept it directly.

    Attributes:
        record_batch: A `pyarrow.RecordBatch` with the columns `offset` (int64), `timestamp`
            (milliseconds, UTC), `key` and `value` (binary_view) and `headers` (lists of key and
            value, null without headers). Keys and values refer to the memory of the fetch
            response and keep it alive.
    """

    __slots__ = ("record_batch",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        start: int,
        start_epoch: int,
        next_offset: int,
        leader_epoch: int,
        record_batch: pa.RecordBatch,
    ) -> None:
        super().__init__(topic_partition, start, start_epoch, next_offset, leader_epoch)
        self.record_batch = record_batch

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """Export the record batch (Arrow's PyCapsule interface)."""
        return self.record_batch.__arrow_c_array__(requested_schema)

    def __len__(self) -> int:
        return int(self.record_batch.num_rows)

    def __repr__(self) -> str:
        return f"<Arrow batch of {len(self)} rows of {self.topic_partition} to {self.next_offset}>"
