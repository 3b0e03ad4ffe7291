"""The limits of a query from its options, before brokers resolve them to offsets.

A limit is an end of the log, an offset or a time for each partition, or one time for all. If
several options are set, the same order as in Spark applies: one time, then times, then offsets.

Source: KafkaSourceProvider.getKafkaOffsetRangeLimit and checkOffsetLimitValidity of Spark's
connector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from aiokafka_lite._arguments import INT64
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.data_loss import SourceStateError
from aiokafka_lite.spark.partition_offsets import (
    EARLIEST,
    LATEST,
    SpecificOffsets,
    listed,
    parse_offsets,
    parse_timestamps,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "AtEnd",
    "AtOffsets",
    "AtTime",
    "AtTimes",
    "Limit",
    "check_limits",
    "is_earliest",
    "limit",
]

_STRATEGIES: Final = ("error", "latest")


@dataclass(frozen=True, slots=True)
class AtEnd:
    """An end of the log: `EARLIEST` or `LATEST`."""

    which: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Offsets as written in the option."""

    offsets: SpecificOffsets


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record of each partition at or after a time.

    Attributes:
        times: Milliseconds since the epoch.
        or_latest: True to begin at the end of a partition without such a record, False to raise an
        error.
    """

    times: Mapping[TopicPartition, int]
    or_latest: bool


@dataclass(frozen=True, slots=True)
class AtTime:
    """Like `AtTimes`, with one time for all partitions."""

    time: int
    or_latest: bool


Limit: TypeAlias = AtEnd | AtOffsets | AtTimes | AtTime


def limit(options: Mapping[str, str], side: str, default: int) -> Limit:
    """Return the start or end limit of a query.

    Args:
        options: The options by lower-case name.
        side: "starting" or "ending".
        default: `EARLIEST` or `LATEST`.

    Raises:
        KafkaConfigurationError: An option is invalid.
    """
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in _STRATEGIES:
        raise KafkaConfigurationError(
            f"Option 'startingOffsetsByTimestampStrategy' should be one of "
            f"{', '.join(_STRATEGIES)}, not {strategy!r}"
        )
    or_latest = side == "ending" or strategy == "latest"
    text = options.get(f"{side}timestamp")
    if text is not None:
        return AtTime(_time(f"{side}Timestamp", text.strip()), or_latest)
    text = options.get(f"{side}offsetsbytimestamp")
    if text is not None:
        return AtTimes(parse_timestamps(text.strip()), or_latest)
    text = options.get(f"{side}offsets", "").strip()
    match text.lower():
        case "":
            return AtEnd(default)
        case "earliest":
            return AtEnd(EARLIEST)
        case "latest":
            return AtEnd(LATEST)
    return AtOffsets(parse_offsets(text))


def is_earliest(limit: Limit, tp: TopicPartition) -> bool:
    """Return True if a partition begins at its first record."""
    match limit:
        case AtEnd(which):
            return which == EARLIEST
        case AtOffsets(offsets):
            return offsets.partitions.get(tp, offsets.topics.get(tp.topic)) == EARLIEST
    return False


def check_limits(starting: Limit, ending: Limit) -> None:
    """Check the limits of a batch.

    Raises:
        KafkaConfigurationError: It begins at the latest offset, or ends at the earliest.
        SourceStateError: It ends before it begins, or start and end have different partitions.
    """
    if starting == AtEnd(LATEST):
        raise KafkaConfigurationError(
            "starting offset can't be latest for batch queries on Kafka (option 'startingOffsets')"
        )
    if ending == AtEnd(EARLIEST):
        raise KafkaConfigurationError(
            "ending offset can't be earliest for batch queries on Kafka (option 'endingOffsets')"
        )
    if isinstance(starting, AtOffsets):
        _refuse(starting.offsets, LATEST, "startingOffsets for {} can't be latest")
    if isinstance(ending, AtOffsets):
        _refuse(ending.offsets, EARLIEST, "ending offset for {} can't be earliest")
    match starting, ending:
        case AtOffsets(starts), AtOffsets(ends) if not (starts.topics or ends.topics):
            _check_order(starts.partitions, ends.partitions, "offset")
        case AtTimes(starts_at, _), AtTimes(ends_at, _):
            _check_order(starts_at, ends_at, "timestamp")


def _refuse(offsets: SpecificOffsets, which: int, message: str) -> None:
    named = {listed([tp]): offset for tp, offset in offsets.partitions.items()}
    for name, offset in {**offsets.topics, **named}.items():
        if offset == which:
            raise KafkaConfigurationError(f"{message.format(name)} for batch queries on Kafka")


def _check_order(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], what: str
) -> None:
    check_same_partitions(starts, ends)
    for tp, start in starts.items():
        if start > ends[tp] >= 0:
            raise SourceStateError(
                f"UNRESOLVED_START_{what.upper()}_GREATER_THAN_END_{what.upper()}",
                f"The specified start {what} {start} is greater than the end {what} {ends[tp]} "
                f"for topic {tp.topic} partition {tp.partition}.",
            )


def check_same_partitions(
    starts: Collection[TopicPartition], ends: Collection[TopicPartition]
) -> None:
    """Check that start and end are of the same partitions.

    Raises:
        SourceStateError: The partitions differ.
    """
    if set(starts) != set(ends):
        raise SourceStateError(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {listed(starts)}, topic-partitions for end "
            f"offset: {listed(ends)}.",
        )


def _time(name: str, text: str) -> int:
    try:
        time = int(text)
    except ValueError:
        raise KafkaConfigurationError(
            f"Option '{name}': Expected a single long value, got {text}"
        ) from None
    if not 0 <= time <= INT64:
        raise KafkaConfigurationError(
            f"Option '{name}': Expected a time since 1970 in milliseconds, got {text}"
        )
    return time
