"""Offset ranges: their JSON in Spark, and their division into the tasks of a batch.

Nothing here queries a broker, and results depend only on the arguments: a batch that is planned
again after a crash has the same tasks with the same records. Exactly-once sinks require this.

Source: KafkaMicroBatchStream.rateLimit, KafkaOffsetRangeCalculator and JsonUtils of Spark's own
connector (connector/kafka-0-10-sql), for the numbers.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aiokafka_lite._arguments import INT32, INT64, is_int
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "Journal",
    "OffsetRange",
    "Offsets",
    "SpecificOffsets",
    "begin_in",
    "from_journal",
    "grouped",
    "listed",
    "parse_offsets",
    "parse_partitions",
    "parse_timestamps",
    "prorated",
    "split",
    "to_journal",
]

LATEST: Final = -1
"""In Spark's JSON: after the newest record at the time of the query."""
EARLIEST: Final = -2
"""In Spark's JSON: the oldest record."""

Offsets: TypeAlias = Mapping[TopicPartition, int]

Journal: TypeAlias = dict[str, dict[str, int]]
"""Offsets as Spark stores them: by topic and partition, in JSON."""

_BEGIN: Final = ""
"""Used in place of a topic name; it is not a valid topic name."""

EARLY_TASKS: Final = 8
EARLY_RECORDS: Final = 50_000
LATER_RECORDS: Final = 200_000
"""Default number of tasks of a batch: one per 50,000 records, and beyond eight tasks one per
200,000, but no more than there are partitions. A Python task costs 10 to 60 ms of CPU and a record
1 us, so with a task per partition small batches would mostly start tasks (256 partitions: 16 s of
CPU per batch); fewer tasks seldom cost parallelism. The number of cores does not matter, because a
replayed batch must have the same tasks on another cluster."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records of one partition by offset, [`start`, `end`).

    Compaction and transactions leave gaps, so it may contain fewer records than offsets.

    Attributes:
        from_earliest: True if it starts at the first record that exists when it is read: records
            that retention removes before that do not count as lost.
    """

    topic: str
    partition: int
    start: int
    end: int
    from_earliest: bool = field(default=False, compare=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; negative if the range ends before it starts."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """Offsets as written by a user, for partitions or for all partitions of a topic.

    Attributes:
        partitions: Offsets by partition; `EARLIEST` and `LATEST` are not resolved.
        topics: `EARLIEST` or `LATEST` by topic, for topics written as `{"orders": "earliest"}`.
    """

    partitions: Mapping[TopicPartition, int]
    topics: Mapping[str, int]


# Spark's JSON


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse partitions such as `{"orders": [0, 1], "users": [0]}`; return them in order.

    Raises:
        KafkaConfigurationError: The text is something else.
    """
    wrong = KafkaConfigurationError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}')
    partitions = set()
    for topic, numbers in _json_object(text, wrong).items():
        if not isinstance(numbers, list):
            raise wrong
        for number in numbers:
            partitions.add(TopicPartition(topic, _number(number, wrong, 0, INT32)))
    return sorted(partitions)


def parse_offsets(text: str) -> SpecificOffsets:
    """Parse offsets such as `{"orders": {"0": 23, "1": -1}, "users": "earliest"}`.

    In offsets copied from the checkpoint of a first micro-batch, the start is ignored.

    Raises:
        KafkaConfigurationError: The text is something else.
    """
    wrong = KafkaConfigurationError(
        f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    )
    partitions: dict[TopicPartition, int] = {}
    topics: dict[str, int] = {}
    for topic, entry in _json_object(text, wrong).items():
        if topic == _BEGIN:
            continue
        if isinstance(entry, str) and entry.lower() in ("earliest", "latest"):
            topics[topic] = EARLIEST if entry.lower() == "earliest" else LATEST
        else:
            partitions.update(_by_partition(topic, entry, wrong, EARLIEST))
    return SpecificOffsets(partitions, topics)


def parse_timestamps(text: str) -> dict[TopicPartition, int]:
    """Parse times such as `{"orders": {"0": 1700000000000}}`, in milliseconds since the epoch.

    Raises:
        KafkaConfigurationError: The text is something else.
    """
    wrong = KafkaConfigurationError(
        'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, '
        f'"topicB": {{"0": 123456789, "1": 123456789}}}}, got {text}'
    )
    times: dict[TopicPartition, int] = {}
    for topic, entry in _json_object(text, wrong).items():
        times.update(_by_partition(topic, entry, wrong, 0))
    return times


def to_journal(offsets: Offsets, begin: Offsets | None = None) -> Journal:
    """Convert offsets for Spark's checkpoint; their JSON is that of Spark's own connector.

    Args:
        begin: For a query's first micro-batch: its start, stored together with its end.
    """
    journal: Journal = {}
    for tp in sorted(offsets):
        journal.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    if begin is not None:
        journal[_BEGIN] = {f"{tp.topic}-{tp.partition}": begin[tp] for tp in sorted(begin)}
    return journal


def from_journal(journal: Journal) -> dict[TopicPartition, int]:
    """Return the offsets that `to_journal` converted."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, entry in journal.items()
        if topic != _BEGIN
        for partition, offset in entry.items()
    }


def begin_in(journal: Journal) -> dict[TopicPartition, int] | None:
    """Return the start of the query if this is the end of its first micro-batch, otherwise None."""
    if _BEGIN not in journal:
        return None
    begin = {}
    for name, offset in journal[_BEGIN].items():
        topic, _, partition = name.rpartition("-")
        begin[TopicPartition(topic, int(partition))] = offset
    return begin


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text for messages: "orders-0, orders-1"."""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "none"


def _json_object(text: str, wrong: KafkaConfigurationError) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    return parsed


def _by_partition(
    topic: str, entry: object, wrong: KafkaConfigurationError, least: int
) -> dict[TopicPartition, int]:
    if not isinstance(entry, dict):
        raise wrong
    return {
        TopicPartition(topic, _number(partition, wrong, 0, INT32)): _number(
            value, wrong, least, INT64
        )
        for partition, value in entry.items()
    }


def _number(value: object, wrong: KafkaConfigurationError, least: int, most: int) -> int:
    """Return an integer; like Spark's JSON reader, also accepts one written as a string."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise wrong from None
    if not isinstance(value, int) or not is_int(value) or not least <= value <= most:
        raise wrong
    return value


# The size of a batch


def prorated(limit: int, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Return the end of a batch of about `limit` offsets, split in proportion to what each
    partition has available.

    Args:
        limit: `maxOffsetsPerTrigger`.
        starts: The position in each partition. A missing one is read to its end, and the planner
            reports it.
        ends: The available end of each partition.

    Returns:
        The end of each partition in `ends`. A partition with new records gets at least one offset,
        so the result may exceed the limit.
    """
    sizes = {tp: end - starts[tp] for tp, end in ends.items() if end > starts.get(tp, end)}
    total = sum(sizes.values())
    until = dict(ends)
    for tp, size in sizes.items():
        share = limit * (size / total)
        until[tp] = min(ends[tp], starts[tp] + (math.ceil(share) if share < 1 else int(share)))
    return until


# Tasks


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Split ranges into as many pieces as Spark does.

    Args:
        min_partitions: Approximate minimum number of pieces (`minPartitions`); large ranges are
            split in proportion to their size.
        max_records: Maximum number of offsets per piece (`maxRecordsPerPartition`); applied first.

    Returns:
        The pieces in order, without empty ranges.
    """
    pieces = sorted(each for each in ranges if each.size > 0)
    if max_records is not None:
        pieces = [
            part for each in pieces for part in _cut(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    # Ranges that stay whole do not count: shares refer to the ranges that are split.
    total = sum(each.size for each in pieces)
    whole = {each for each in pieces if _share(each.size, total, min_partitions) == 1}
    cut_total = total - sum(each.size for each in whole)
    cut_into = max(min_partitions - len(whole), 1)
    return [
        part
        for each in pieces
        for part in _cut(each, 1 if each in whole else _share(each.size, cut_total, cut_into))
    ]


def grouped(
    ranges: Sequence[OffsetRange], *, max_tasks: int | None = None, one_each: bool = False
) -> list[tuple[OffsetRange, ...]]:
    """Group ranges into the tasks of a batch, of similar size, without splitting a range.

    Args:
        max_tasks: Maximum number of tasks (`maxTasks`); by default it depends on the size of the
            ranges.
        one_each: Without `max_tasks`, one task per range, as in Spark's own connector.

    Returns:
        The tasks; each has at least one range, and its ranges are in order.
    """
    if max_tasks is None:
        max_tasks = len(ranges) if one_each else _worthwhile(sum(each.size for each in ranges))
    count = min(max_tasks, len(ranges))
    if count == len(ranges):
        return [(each,) for each in sorted(ranges)]
    # Largest first, each to the least loaded task: within a third of the optimum.
    tasks: list[list[OffsetRange]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for each in sorted(ranges, key=lambda each: (-each.size, each)):
        load, number = heapq.heappop(loads)
        tasks[number].append(each)
        heapq.heappush(loads, (load + each.size, number))
    return [tuple(sorted(task)) for task in tasks]


def _worthwhile(records: int) -> int:
    early = math.ceil(records / EARLY_RECORDS)
    if early <= EARLY_TASKS:
        return max(early, 1)
    return max(EARLY_TASKS, math.ceil(records / LATER_RECORDS))


def _share(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)  # Java rounds halves up


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    parts = []
    start = whole.start
    for left in range(pieces, 0, -1):
        end = start + (whole.end - start) // left
        if end > start:
            early = whole.from_earliest and start == whole.start
            parts.append(OffsetRange(whole.topic, whole.partition, start, end, early))
        start = end
    return parts
