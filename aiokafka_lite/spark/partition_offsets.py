"""Ranges of offsets: Spark's JSON of them, and how they become the tasks of a batch.

Nothing here asks a broker. Whatever is computed follows from its arguments alone: a batch that is
planned again after a crash has the same tasks with the same records, which exactly-once sinks rely
on.

Source: KafkaMicroBatchStream.rateLimit, KafkaOffsetRangeCalculator and JsonUtils of Spark's own
connector (connector/kafka-0-10-sql) for what each number has to be.
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
"""In Spark's JSON: after the newest record, whatever that is when it is asked for."""
EARLIEST: Final = -2
"""In Spark's JSON: the oldest record."""

Offsets: TypeAlias = Mapping[TopicPartition, int]

Journal: TypeAlias = dict[str, dict[str, int]]
"""Offsets as Spark keeps them: by topic and partition, in JSON."""

_BEGIN: Final = ""
"""Stands where a topic's name would, for what no topic's name can be."""

EARLY_TASKS: Final = 8
EARLY_RECORDS: Final = 50_000
LATER_RECORDS: Final = 200_000
"""How many tasks a batch has unless it is told: one for each 50,000 records, where Kafka has the
partitions for it, but past the eighth for 200,000 only. A Python task costs 10 to 60 ms of CPU and
a record 1 us, so small batches would mostly start tasks if each partition had its own (256
partitions: 16 s of CPU a batch); more parallel work than this is seldom lost by it. The number of
cores is no part of it: another cluster must make the same tasks of a batch that is run again."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records of one partition by offset, [`start`, `end`).

    Compaction and transactions leave gaps, so that it may hold fewer records than offsets.

    Attributes:
        from_earliest: It was asked for from the first record on, whichever that is by the time it
            is read: what retention takes until then is not missed.
    """

    topic: str
    partition: int
    start: int
    end: int
    from_earliest: bool = field(default=False, compare=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that it is of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets in it; negative when it ends before it starts."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """Offsets as a user wrote them: of partitions, or of all partitions of a topic.

    Attributes:
        partitions: By partition; `EARLIEST` and `LATEST` are still what they are.
        topics: `EARLIEST` or `LATEST` by topic, for topics written as `{"orders": "earliest"}`.
    """

    partitions: Mapping[TopicPartition, int]
    topics: Mapping[str, int]


# Spark's JSON


def parse_partitions(text: str) -> list[TopicPartition]:
    """The partitions in `{"orders": [0, 1], "users": [0]}`, in order.

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
    """The offsets in `{"orders": {"0": 23, "1": -1}, "users": "earliest"}`.

    Of a query's first micro-batch, copied from its checkpoint, the beginning is left out.

    Raises:
        KafkaConfigurationError: The text is something else.
    """
    wrong = KafkaConfigurationError(
        f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    )
    partitions: dict[TopicPartition, int] = {}
    topics: dict[str, int] = {}
    for topic, told in _json_object(text, wrong).items():
        if topic == _BEGIN:
            continue
        if isinstance(told, str) and told.lower() in ("earliest", "latest"):
            topics[topic] = EARLIEST if told.lower() == "earliest" else LATEST
        else:
            partitions.update(_by_partition(topic, told, wrong, EARLIEST))
    return SpecificOffsets(partitions, topics)


def parse_timestamps(text: str) -> dict[TopicPartition, int]:
    """The times in `{"orders": {"0": 1700000000000}}`, in milliseconds since the epoch.

    Raises:
        KafkaConfigurationError: The text is something else.
    """
    wrong = KafkaConfigurationError(
        'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, '
        f'"topicB": {{"0": 123456789, "1": 123456789}}}}, got {text}'
    )
    times: dict[TopicPartition, int] = {}
    for topic, told in _json_object(text, wrong).items():
        times.update(_by_partition(topic, told, wrong, 0))
    return times


def to_journal(offsets: Offsets, begin: Offsets | None = None) -> Journal:
    """Offsets as Spark's checkpoint keeps them: once dumped, the JSON of Spark's own connector.

    Args:
        begin: Of a query's first micro-batch: where it begins, to be kept along with where it ends.
    """
    journal: Journal = {}
    for tp in sorted(offsets):
        journal.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    if begin is not None:
        journal[_BEGIN] = {f"{tp.topic}-{tp.partition}": begin[tp] for tp in sorted(begin)}
    return journal


def from_journal(journal: Journal) -> dict[TopicPartition, int]:
    """The offsets that `to_journal` gave to Spark."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, told in journal.items()
        if topic != _BEGIN
        for partition, offset in told.items()
    }


def begin_in(journal: Journal) -> dict[TopicPartition, int] | None:
    """Where the query begins, if this is the end of its first micro-batch."""
    if _BEGIN not in journal:
        return None
    begin = {}
    for name, offset in journal[_BEGIN].items():
        topic, _, partition = name.rpartition("-")
        begin[TopicPartition(topic, int(partition))] = offset
    return begin


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for people to read: "orders-0, orders-1"."""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "none"


def _json_object(text: str, wrong: KafkaConfigurationError) -> dict[str, object]:
    try:
        told = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(told, dict):
        raise wrong
    return told


def _by_partition(
    topic: str, told: object, wrong: KafkaConfigurationError, least: int
) -> dict[TopicPartition, int]:
    if not isinstance(told, dict):
        raise wrong
    return {
        TopicPartition(topic, _number(partition, wrong, 0, INT32)): _number(
            value, wrong, least, INT64
        )
        for partition, value in told.items()
    }


def _number(value: object, wrong: KafkaConfigurationError, least: int, most: int) -> int:
    """An integer, also one written as a string: that is what Spark's JSON reader takes."""
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise wrong from None
    if not isinstance(value, int) or not is_int(value) or not least <= value <= most:
        raise wrong
    return value


# How much a batch takes


def prorated(limit: int, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Where a batch of at most about `limit` offsets ends: each partition gives its share of what
    is there.

    Args:
        limit: `maxOffsetsPerTrigger`.
        starts: Where each partition goes on; one that is missing is taken to its end, for the
            planner to complain about.
        ends: What is there.

    Returns:
        As many partitions as `ends` has. A partition with anything new gives one offset at least,
        so that the limit may be passed by that.
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
    """Ranges in as many pieces as Spark makes of them.

    Args:
        min_partitions: About how many pieces there should be at least (`minPartitions`); large
            ranges are cut, in proportion.
        max_records: Most offsets of a piece (`maxRecordsPerPartition`); applied first.

    Returns:
        In order; ranges without an offset are left out.
    """
    pieces = sorted(each for each in ranges if each.size > 0)
    if max_records is not None:
        pieces = [
            part for each in pieces for part in _cut(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    # Those that stay whole give nothing to the others: the shares are of what will be cut.
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
    """The tasks of a batch: each range whole in one of them, all about equally large.

    Args:
        max_tasks: Most tasks (`maxTasks`); by default it depends on how much there is to read.
        one_each: Without `max_tasks`, a task for each range: what Spark's own connector does.

    Returns:
        Tasks with at least one range each, whose ranges are in order.
    """
    if max_tasks is None:
        max_tasks = len(ranges) if one_each else _worthwhile(sum(each.size for each in ranges))
    count = min(max_tasks, len(ranges))
    if count == len(ranges):
        return [(each,) for each in sorted(ranges)]
    # The largest first, each to the least loaded task: within a third of the best there is.
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
