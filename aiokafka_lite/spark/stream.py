"""The stream reader: the end offsets and the tasks of each micro-batch.

One reader lives on the driver for the life of a query, in its own process. Others are sent to the
tasks and only read.

Non-obvious:

- Spark stores the end of each micro-batch, but not the start of a query: if the query dies in its
  first micro-batch, Spark requests the initial offset again, and "latest" has moved meanwhile. So
  the initial offset is always `NOT_BEGUN`, and the end of the first micro-batch contains its start.
- An end without partitions (`{}`: all topics are deleted) is not `NOT_BEGUN`: the query continues,
  and topics that are created later begin at their earliest offset.
- The tasks of a micro-batch depend only on its two offsets and the options.
- A query without a trigger requests the latest offset continuously. If there are no or too few new
  records, the answer waits for more, for at most `IDLE_WAIT`, so that an idle query costs almost
  nothing.

Source: KafkaMicroBatchStream of Spark's connector, for the limits of a micro-batch; KIP-98, for
using the last stable offset as the latest with "read_committed".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from aiokafka_lite.spark.data_loss import SourceStateError
from aiokafka_lite.spark.notices import warn_of_pure_build
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.partition_offsets import (
    Journal,
    Offsets,
    begin_in,
    from_journal,
    listed,
    prorated,
    to_journal,
)
from aiokafka_lite.spark.planner import Planner, tasks
from aiokafka_lite.spark.runtime import call
from aiokafka_lite.spark.source_reader import KafkaPartition, read_partition, settings
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]

logger = logging.getLogger(__name__)

NOT_BEGUN: Final[Journal] = {"": {"not begun": 0}}
"""The initial offset. It is never an end, so Spark, which stores only ends, never stores it."""

IDLE_WAIT: Final = 0.5
IDLE_EVERY: Final = 0.05
"""Seconds. Spark's thread waits this long, and so does stopping a query."""

_AGAIN: Final = (
    "The error could be transient - restart your query, and report if you still see the same issue."
)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches.

    Args:
        options: Validated options of a stream.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._settings = settings(options)
        self._planner = Planner(options)
        self._ends: Offsets = {}  # as last returned by the brokers
        self._until: Offsets | None = None  # the end of an AvailableNow query, once known
        self._available_now = False
        self._last_batch = -float("inf")  # monotonic time

    # --- offsets

    def initialOffset(self) -> Journal:
        return NOT_BEGUN

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def latestOffset(self, start: Journal, limit: ReadLimit) -> Journal:
        warn_of_pure_build("The driver's planner of a stream")
        if start == NOT_BEGUN:
            begin = call(self._planner.initial())
            logger.info("The query starts at %s", begin)
            self._ends = self._latest(begin)
            return to_journal(self._within(limit, begin), begin)
        starts = from_journal(start)
        self._ends = self._latest(starts, IDLE_WAIT)
        until = self._within(limit, starts)
        # Equal offsets must have equal text, or Spark considers them new.
        return start if until == starts else to_journal(until)

    def reportLatestOffset(self) -> Journal | None:
        return to_journal(self._ends) or None

    def _latest(self, starts: Offsets, wait: float = 0) -> Offsets:
        """Return the partitions' end offsets; wait for new records if there are none."""
        if self._available_now:
            if self._until is None:
                self._until = call(self._planner.latest(starts))
            return self._until
        ends = call(self._planner.latest(starts))
        if wait and ends == starts and call(self._planner.wait_for_more(ends, wait, IDLE_EVERY)):
            ends = call(self._planner.latest(starts))
        return ends

    def _within(self, limit: ReadLimit, starts: Offsets) -> Offsets:
        """Return the end of a micro-batch of the available records, within its limits."""
        ends = self._ends
        if isinstance(limit, ReadAllAvailable):
            return ends
        if self._is_too_little(starts, ends):
            sleep(min(IDLE_WAIT, self._options.max_trigger_delay))
            return starts
        if isinstance(limit, ReadMaxRows):
            added = call(self._planner.earliest(ends.keys() - starts.keys()))
            return prorated(limit.max_rows, {**starts, **added}, ends)
        return ends

    def _is_too_little(self, starts: Offsets, ends: Offsets) -> bool:
        """Return True to wait for `minOffsetsPerTrigger`; never for an AvailableNow query."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._available_now:
            return False
        now = monotonic()
        there = sum(end - starts.get(tp, 0) for tp, end in ends.items())
        if there < least and now - self._last_batch < self._options.max_trigger_delay:
            return True
        self._last_batch = now
        return False

    # --- tasks

    def partitions(self, start: Journal, end: Journal) -> Sequence[InputPartition]:
        starts = self._starts(start, end)
        ends = from_journal(end)
        if self._until is not None:
            self._check_available(ends, self._until)
        ranges = call(self._planner.ranges(starts, ends))
        return [KafkaPartition(task) for task in tasks(ranges, self._options)]

    def _starts(self, start: Journal, end: Journal) -> Offsets:
        """Return the start of a micro-batch.

        Raises:
            SourceStateError: Another source wrote the checkpoint.
        """
        begin = begin_in(end)
        if start == NOT_BEGUN:
            if begin is None:
                raise SourceStateError(
                    "KAFKA_LITE_UNKNOWN_BEGINNING",
                    f"The checkpoint's first micro-batch, which ends at {end}, has no start "
                    "offsets: another source wrote the checkpoint.",
                )
            return begin
        if not start and begin is not None:
            # Planned when `{}` still meant a query that has not begun; keep that plan.
            return begin
        return from_journal(start)

    def _check_available(self, ends: Offsets, until: Offsets) -> None:
        """Check that an AvailableNow query reads everything that existed when it began.

        Raises:
            SourceStateError: It does not, or partitions were lost in the meantime.
        """
        if ends.keys() != until.keys():
            raise SourceStateError(
                "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
                "Kafka data source in Trigger.AvailableNow should provide the same topic "
                f"partitions in pre-fetched offset to end offset for each microbatch. {_AGAIN} "
                f"topic-partitions for pre-fetched offset: {listed(until)}, topic-partitions for "
                f"end offset: {listed(ends)}.",
            )
        if beyond := _beyond(ends, until):
            raise SourceStateError(
                "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
                "For Kafka data source with Trigger.AvailableNow, end offset should have lower or "
                f"equal offset per each topic partition than pre-fetched offset. {_AGAIN} {beyond}",
            )
        latest = call(self._planner.latest(ends))
        if lost := ends.keys() - latest.keys():
            raise SourceStateError(
                "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
                "Some of partitions in Kafka topic(s) have been lost during running query with "
                f"Trigger.AvailableNow. {_AGAIN} Lost: {listed(lost)}",
            )
        if beyond := _beyond(ends, latest):
            raise SourceStateError(
                "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_"
                "AVAILABLENOW",
                "Some of partitions in Kafka topic(s) report available offset which is less than "
                f"end offset during running query with Trigger.AvailableNow. {_AGAIN} {beyond}",
            )

    # --- reading

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._settings)

    def commit(self, end: Journal) -> None:
        """Do nothing: only Spark's checkpoint stores the offsets."""

    def stop(self) -> None:
        """Do nothing: Spark ends the process next, which closes the clients."""


def _beyond(ends: Offsets, limits: Offsets) -> str:
    """Return the partitions that end after their limit, as text; "" if there are none."""
    wrong: list[TopicPartition] = [tp for tp, end in ends.items() if end > limits[tp]]
    return ", ".join(f"{listed([tp])}: {ends[tp]} after {limits[tp]}" for tp in sorted(wrong))
