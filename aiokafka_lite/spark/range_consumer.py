"""A consumer that reads exactly the records of given offset ranges.

It is the project's own consumer, with its fetches, memory budget and retries, and an end for each
partition: it fetches a partition only up to the end of its range, so that no fetch of one task
waits at a broker when the next task starts.

Non-obvious:

- A range is complete when the position has passed its end, with or without a record: control
  records, aborted transactions and compacted records only move the position.
- After `QUIET_SECONDS` without records, the consumer queries the brokers. This distinguishes a slow
  broker, which it waits for, from offsets without records and from a log that ends too early.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from aiokafka_lite.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.errors import (
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.record.columnar.columns import Columns
from aiokafka_lite.spark.data_loss import report_data_loss
from aiokafka_lite.spark.empty_range import holds_nothing
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.structs import TopicPartition

__all__ = ["RangeConsumer", "Rows"]

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 1.0
"""Seconds without records before querying the brokers: twice a fetch's default wait."""

SURE_SECONDS: Final = 5.0
"""Seconds before missing offsets or records count as missing: a new leader may lag for a moment,
and remote storage may be slow."""

ANSWER_SECONDS: Final = 5.0
"""Timeout in seconds of a partition query; it is retried afterwards."""

LEAST_FETCH: Final = 64 * 1024
LIKELY_RECORD: Final = 4 * 1024
"""Fetch size in bytes per record: no more than a short range is likely to need. Otherwise a
micro-batch of a few records would fetch a megabyte of each partition and discard it."""

_LOST: Final = "COULD_NOT_READ_OFFSET_RANGE"


class Rows(NamedTuple):
    """Rows of one partition, all within the range.

    Attributes:
        columns: The columns that contain the rows.
        stop: The first row in the columns that is not included.
    """

    columns: Columns
    stop: int


class RangeConsumer(AIOKafkaConsumer):
    """Reads the ranges of one task after another.

    Args:
        **arguments: Arguments of `AIOKafkaConsumer`, except those that select what to read.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(
            **{
                **arguments,
                "group_id": None,
                "enable_auto_commit": False,
                "auto_offset_reset": "none",
                "allow_auto_create_topics": False,
            }
        )
        self._core.buffer.in_place = True
        self._ranges: dict[TopicPartition, OffsetRange] = {}  # the ranges being read
        self._later: dict[TopicPartition, deque[OffsetRange]] = {}
        self._given: set[TopicPartition] = set()  # partitions with rows delivered to the task
        self._fail_on_data_loss = True
        self._limit = 1
        self._poll_timeout = 0.0
        self._quiet_since: float | None = None
        self._moved_at = 0.0  # when a position last passed over offsets; loop time

    def begin(
        self, ranges: Iterable[OffsetRange], *, fail_on_data_loss: bool, poll_timeout: float
    ) -> None:
        """Replace the current ranges with these.

        Args:
            ranges: Ranges of the same partition are read in order.
            fail_on_data_loss: True to raise an error for lost offsets, False to log a warning.
            poll_timeout: Seconds to wait for records that should exist.
        """
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout = poll_timeout
        self._quiet_since = None
        self._ranges.clear()
        self._later.clear()
        self._given.clear()
        for each in sorted(ranges):
            if each.size > 0:
                self._later.setdefault(each.topic_partition, deque()).append(each)
        self.assign(list(self._later))
        for tp in list(self._later):
            self._go_on(tp)

    def leave(self) -> None:
        """Stop reading and drop all records. The partitions stay known for the next task."""
        self._ranges.clear()
        self._later.clear()
        for state in list(self._core.positions):
            state.until = 0
            self._core.positioning.seek(state, 0)

    def where(self) -> str:
        """Return the remaining ranges as text, for messages."""
        left = [
            f"{tp.topic}-{tp.partition} at offset {self._position(tp)} of [{at.start}, {at.end})"
            for tp, at in self._ranges.items()
        ]
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        return ", ".join(left[:5]) + more

    async def next_rows(self, limit: int) -> Rows | None:
        """Return the next rows of any range, or None when all ranges are complete.

        Args:
            limit: Maximum number of rows.

        Raises:
            DataLossError: Offsets are lost and `fail_on_data_loss` is set.
            KafkaTimeoutError: Records that should exist did not arrive.
            KafkaError: See `AIOKafkaConsumer.getone`.

        Cancellation: safe; nothing is lost.
        """
        self._limit = limit
        while self._ranges:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    rows = await self._core.reader.until_taken(self._take)
            except TimeoutError:
                await self._ask_why()
            except OffsetOutOfRangeError as error:
                await self._on_out_of_range(error)
            else:
                if rows.stop:
                    self._quiet_since = None
                    return rows
        return None

    def _take(self) -> Rows | None:
        """Return rows, None if none are available now, or empty rows if all ranges are complete."""
        while True:
            batch = self._core.buffer.take_columns(self._limit)
            if batch is None:
                for tp in list(self._ranges):
                    self._end_if_over(tp)
                return None if self._ranges else _NO_ROWS
            tp, columns = batch.topic_partition, batch.columns
            reading = self._ranges.get(tp)
            if reading is None:  # a response that was pending when the range was given up
                self._core.buffer.forget(self._core.positions.state(tp))
                continue
            stop = columns.count
            if batch.next_offset > reading.end:
                stop = bisect_left(memoryview(columns.offsets).cast("q"), reading.end)
            self._end_if_over(tp)
            if stop:
                self._given.add(tp)
                return Rows(columns, stop)

    # --- ranges

    def _go_on(self, tp: TopicPartition) -> None:
        """Start the next range of a partition, if any."""
        waiting = self._later[tp]
        if waiting:
            self._ranges[tp] = reading = waiting.popleft()
            state = self._core.positions.state(tp)
            state.until = reading.end
            most = self._core.options.max_partition_fetch_bytes
            state.source.fetch_bytes = min(max(LIKELY_RECORD * reading.size, LEAST_FETCH), most)
            self._move(tp, reading.start)
        else:
            del self._later[tp]
            self._ranges.pop(tp, None)

    def _end_if_over(self, tp: TopicPartition) -> None:
        position = self._position(tp)
        if position is not None and position >= self._ranges[tp].end:
            self._end(tp)

    def _end(self, tp: TopicPartition) -> None:
        # The seek drops records fetched beyond the end, and pending responses.
        self._move(tp, self._ranges[tp].end)
        self._go_on(tp)

    def _move(self, tp: TopicPartition, offset: int) -> None:
        self._core.positioning.seek(self._core.positions.state(tp), offset)
        self._moved_at = self._core.loop.time()

    def _position(self, tp: TopicPartition) -> int | None:
        return self._core.positions.state(tp).position

    # --- missing records

    async def _ask_why(self) -> None:
        """Query the brokers about each range after a while without records.

        Raises:
            DataLossError: Offsets do not exist and `fail_on_data_loss` is set.
            KafkaTimeoutError: Records exist but did not arrive within `poll_timeout`.
        """
        quiet = self._quiet()
        for tp in [tp for tp in self._ranges if self._is_gone(tp)]:
            if quiet >= SURE_SECONDS:
                self._give_up_from(tp, self._position(tp) or 0, "the partition does not exist")
        before = {tp: self._position(tp) for tp in self._ranges}
        for tp, (earliest, latest) in (await self._ends_of(before)).items():
            position = self._position(tp)
            if position is None or position != before[tp] or tp not in self._ranges:
                continue  # the position moved in the meantime
            if position < earliest:
                self._skip_to(tp, position, earliest)
            elif quiet < SURE_SECONDS:
                continue
            elif position < latest:
                await self._pass_over_nothing(tp, position, latest)
            elif not self._is_held_back(tp, position):
                self._give_up_from(tp, position)
        self._check_timeout(quiet)

    async def _pass_over_nothing(self, tp: TopicPartition, position: int, latest: int) -> None:
        """Skip the offsets from the position on if they contain no records."""
        end = self._ranges[tp].end
        try:
            empty_until = await holds_nothing(
                self._core.cluster,
                tp,
                position,
                self._core.options.isolation_level,
                self._core.loop.time() + ANSWER_SECONDS,
            )
        except KafkaTimeoutError as error:
            log.info("Could not check whether %s holds records: %s", tp, error)
            return
        if self._position(tp) != position:
            return
        if empty_until >= end:
            log.debug("%s has no records in [%s, %s)", tp, position, end)
            self._end(tp)
        elif empty_until >= latest:
            self._move(tp, latest)  # then check what follows

    async def _on_out_of_range(self, error: OffsetOutOfRangeError) -> None:
        """Handle a position outside the log.

        Raises:
            DataLossError: Offsets are lost and `fail_on_data_loss` is set.
            KafkaTimeoutError: No broker answered within `poll_timeout`.
        """
        if isinstance(error, LogTruncationError):
            at = {TopicPartition(*tp): offset for tp, offset in error.offsets.items()}
        else:
            at = dict(error.args[0])
        quiet = self._quiet()
        for tp in at.keys() - self._ranges.keys():
            # The range is complete: the seek clears the error, which would be raised again.
            self._core.positioning.seek(self._core.positions.state(tp), at[tp])
        ends = await self._ends_of([tp for tp in at if tp in self._ranges])
        for tp, (earliest, latest) in ends.items():
            position = self._position(tp)
            if position is None:
                continue
            if position < earliest:
                self._skip_to(tp, position, earliest)
            elif position > latest:
                self._give_up_from(tp, position)
            else:
                # A reused client may have metadata of an older topic with this name. Records are
                # lost only if the task has rows of that topic.
                if isinstance(error, LogTruncationError) and tp in self._given:
                    report_data_loss(
                        self._fail_on_data_loss,
                        _LOST,
                        f"{tp.topic}-{tp.partition} was truncated before offset {position} and "
                        "written again",
                    )
                # The offset exists again: a replica was behind, or the log has grown.
                self._core.positioning.seek(self._core.positions.state(tp), position)
        self._check_timeout(quiet)

    async def _ends_of(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and last offset of these partitions; empty if the brokers do not respond
        at once: one may be down, and the caller retries."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                earliest = await self.beginning_offsets(partitions)
                latest = await self.end_offsets(partitions)
        except (KafkaTimeoutError, TimeoutError) as error:
            log.info("Could not fetch the end offsets of the ranges being read: %r", error)
            return {}
        return {tp: (earliest[tp], latest[tp]) for tp in partitions}

    def _quiet(self) -> float:
        """Return the seconds since rows last arrived, as far as observed."""
        now = self._core.loop.time()
        if self._quiet_since is None:
            self._quiet_since = now - QUIET_SECONDS
        return now - self._quiet_since

    def _check_timeout(self, quiet: float) -> None:
        """Raise an error if nothing has happened for `poll_timeout`.

        Args:
            quiet: The seconds without rows before the brokers were queried. Below `SURE_SECONDS`
                no check has shown yet whether the missing records exist.
        """
        if not self._ranges or quiet < SURE_SECONDS:
            return
        if min(self._quiet(), self._core.loop.time() - self._moved_at) > self._poll_timeout:
            raise KafkaTimeoutError(
                f"no record arrived within {self._poll_timeout:g} s, although some exist: "
                f"{self.where()}"
            )

    def _is_gone(self, tp: TopicPartition) -> bool:
        """Return True if the partition does not exist; one without a leader does."""
        topic = self._core.cluster.metadata.topics.get(tp.topic)
        if topic is None or topic.error is not None:
            return topic is not None and topic.error is UnknownTopicOrPartitionError
        return tp.partition not in topic.partitions

    def _is_held_back(self, tp: TopicPartition, position: int) -> bool:
        """Return True if an open transaction hides records: they are not lost, and are delivered or
        skipped when it ends."""
        highwater = self._core.positions.state(tp).source.highwater
        return (
            self._core.options.isolation_level is IsolationLevel.READ_COMMITTED
            and highwater is not None
            and position < highwater
        )

    def _skip_to(self, tp: TopicPartition, position: int, earliest: int) -> None:
        reading = self._ranges[tp]
        if not reading.from_earliest or tp in self._given:
            report_data_loss(
                self._fail_on_data_loss,
                _LOST,
                f"offsets [{position}, {min(earliest, reading.end)}) of {tp.topic}-{tp.partition} "
                f"are gone: its log starts at {earliest}",
            )
        if earliest >= reading.end:
            self._end(tp)
        else:
            self._move(tp, earliest)

    def _give_up_from(self, tp: TopicPartition, position: int, why: str = "") -> None:
        end = self._ranges[tp].end
        report_data_loss(
            self._fail_on_data_loss,
            _LOST,
            f"offsets [{position}, {end}) of {tp.topic}-{tp.partition} do not exist: "
            + (why or "its log ends before them"),
        )
        self._end(tp)


_NO_ROWS: Final = Rows(
    Columns("", 0, 0, b"", *(bytearray() for _ in range(9))),
    0,
)
