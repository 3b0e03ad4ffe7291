"""Reads a batch: planned on the driver, read by the tasks.

Spark creates the reader on the driver, requests its partitions, and sends it with each of them to
a task. It contains only its options, so that it can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from aiokafka_lite.spark.filters import Bounds, bounds
from aiokafka_lite.spark.notices import warn_of_pure_build
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.spark.planner import Planner, tasks
from aiokafka_lite.spark.runtime import call
from aiokafka_lite.spark.task_reading import ReadSettings, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchReader", "FilteringBatchReader", "KafkaPartition", "read_partition", "settings"]


@dataclass
class KafkaPartition(InputPartition):
    """The input of one task.

    Attributes:
        ranges: In order; there may be several of one Kafka partition.
    """

    ranges: tuple[OffsetRange, ...]


def settings(options: ReadOptions) -> ReadSettings:
    """Return the options that a task needs."""
    return ReadSettings(
        consumer_arguments=options.consumer,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout=options.poll_timeout,
    )


def read_partition(
    partition: InputPartition, read_settings: ReadSettings
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task.

    Args:
        partition: A `KafkaPartition`, or the empty one that Spark creates if there are none.
    """
    if not isinstance(partition, KafkaPartition):
        return iter(())
    return iter(read_ranges(partition.ranges, read_settings))


class BatchReader(DataSourceReader):
    """Reads the available records once.

    Args:
        options: Validated options of a batch.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._settings = settings(options)

    def partitions(self) -> Sequence[InputPartition]:
        warn_of_pure_build("The driver's planner of a batch")
        ranges = call(self._ranges(Planner(self._options)))
        return [KafkaPartition(task) for task in tasks(ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._settings)

    async def _ranges(self, planner: Planner) -> list[OffsetRange]:
        return await planner.batch_ranges()


class FilteringBatchReader(BatchReader):
    """Omits records that the query's filters would drop.

    A separate class, because Spark rejects every query of a reader that accepts filters unless
    `spark.sql.python.filterPushdown.enabled` is true.
    """

    _bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds = bounds(filters)
        return filters  # Spark still applies them, because this reader omits only some records

    async def _ranges(self, planner: Planner) -> list[OffsetRange]:
        ranges = self._bounds.within(await planner.batch_ranges())
        time = self._bounds.time
        if time is None or not ranges:
            return ranges
        starts = await planner.from_time({each.topic_partition: time for each in ranges})
        return self._bounds.from_offsets(ranges, starts)
