"""Derives the offsets to read from a query's filters.

Only conditions on whole offset ranges can be used: on the topic, the partition and the offset, and
a minimum time. (Times do not grow with the offsets, but no record before the first one at or after
a time is that late.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from aiokafka_lite._arguments import INT64
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.structs import TopicPartition

__all__ = ["Bounds", "bounds"]

_T = TypeVar("_T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the records that a query can use.

    Attributes:
        topics: The topics; None for any.
        partitions: The partition numbers; None for any.
        first, end: The offsets are in [`first`, `end`).
        time: The earliest timestamp, in milliseconds since the epoch.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_partition: int = 0
    last_partition: int = INT64
    first: int = 0
    end: int = INT64
    time: int | None = None

    def within(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the parts of ranges within these bounds, ignoring the time."""
        narrowed = (
            replace(each, start=max(each.start, self.first), end=min(each.end, self.end))
            for each in ranges
            if (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
            and self.first_partition <= each.partition <= self.last_partition
        )
        return [each for each in narrowed if each.size > 0]

    def from_offsets(
        self, ranges: Sequence[OffsetRange], starts: Mapping[TopicPartition, int | None]
    ) -> list[OffsetRange]:
        """Remove what is before some offsets from ranges; None removes all of a partition."""
        narrowed = []
        for each in ranges:
            start = starts[each.topic_partition]
            if start is not None and start < each.end:
                narrowed.append(replace(each, start=max(each.start, start)))
        return narrowed


def bounds(filters: Iterable[Filter]) -> Bounds:
    """Return the bounds set by all of these filters; unsupported filters are ignored."""
    current = Bounds()
    for each in filters:
        current = _narrowed(current, each)
    return current


def _narrowed(current: Bounds, condition: Filter) -> Bounds:
    match condition:
        case EqualTo((column,), value) | EqualNullSafe((column,), value):
            return _equal(current, column, value)
        case In(("topic",), values):
            return replace(current, topics=_both(current.topics, frozenset(values)))
        case In(("partition",), values):
            return replace(current, partitions=_both(current.partitions, frozenset(values)))
        case GreaterThanOrEqual((column,), value):
            return _at_least(current, column, value)
        case GreaterThan((column,), value):
            return _at_least(current, column, value + 1 if isinstance(value, int) else value)
        case LessThan((column,), int(value)):
            return _below(current, column, value)
        case LessThanOrEqual((column,), int(value)):
            return _below(current, column, value + 1)
    return current


def _equal(current: Bounds, column: str, value: object) -> Bounds:
    match column, value:
        case "topic", str(topic):
            return replace(current, topics=_both(current.topics, frozenset({topic})))
        case "partition", int(partition):
            return replace(current, partitions=_both(current.partitions, frozenset({partition})))
        case "offset", int(offset):
            return _below(_at_least(current, column, offset), column, offset + 1)
        case "timestamp", _:
            return _at_least(current, column, value)
    return current


def _at_least(current: Bounds, column: str, value: object) -> Bounds:
    match column, value:
        case "offset", int(offset):
            return replace(current, first=max(current.first, offset))
        case "partition", int(partition):
            return replace(current, first_partition=max(current.first_partition, partition))
        case "timestamp", datetime() as moment if (time := _milliseconds(moment)) >= 0:
            # Records without a time have an earlier one, so brokers cannot find them by it.
            return replace(current, time=time if current.time is None else max(current.time, time))
    return current


def _below(current: Bounds, column: str, value: int) -> Bounds:
    if column == "offset":
        return replace(current, end=min(current.end, value))
    if column == "partition":
        return replace(current, last_partition=min(current.last_partition, value - 1))
    return current


def _both(one: frozenset[_T] | None, other: frozenset[_T]) -> frozenset[_T]:
    return other if one is None else one & other


def _milliseconds(time: datetime) -> int:
    # A time without a zone is a TIMESTAMP_NTZ, which the column is not; Spark passes UTC times.
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)
