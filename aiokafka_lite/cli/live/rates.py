"""Rates and lags of a cluster, from the samples of a window. No I/O, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aiokafka_lite.cli.live.samples import Sample
from aiokafka_lite.structs import TopicPartition

__all__ = ["GROUP_COLUMNS", "PROBLEM_COLUMNS", "SORTS", "TOPIC_COLUMNS", "History", "View"]

Row: TypeAlias = dict[str, Any]

WINDOW: Final = 10.0
"""Seconds over which rates are averaged: consumers commit every five seconds by default."""

SORTS: Final = {"lag": "lag", "in": "in_per_s", "out": "out_per_s", "name": ""}
"""The column of each order; the name sorts upwards, numbers sort downwards."""

GROUP_COLUMNS: Final = ("group", "state", "type", "lag", "in_per_s", "out_per_s")
TOPIC_COLUMNS: Final = ("topic", "partitions", "in_per_s", "out_per_s", "lag", "groups")
PROBLEM_COLUMNS: Final = ("topic", "partition", "problem", "leader", "replicas", "missing")


@dataclass(frozen=True, slots=True)
class View:
    """The displayed rows, with the columns above."""

    groups: list[Row]
    topics: list[Row]
    problems: list[Row]
    errors: tuple[str, ...]


class History:
    """The samples of the last `WINDOW` seconds.

    Rates are None until there are two samples.
    """

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def on_sample(self, sample: Sample) -> None:
        """Add a sample, and drop those that are older than the window."""
        self._samples.append(sample)
        # One sample at or before the start of the window is kept, to compare with.
        while len(self._samples) > 2 and sample.at - self._samples[1].at >= WINDOW:
            self._samples.popleft()

    def view(self, sort: str = "lag", *, reverse: bool = False) -> View:
        """Return the rows of the newest sample.

        Args:
            sort: One of `SORTS`.
            reverse: Turn the order around.
        """
        if not self._samples:
            return View([], [], [], ())
        first, last = self._samples[0], self._samples[-1]
        elapsed = last.at - first.at
        written = _progress(first.ends, last.ends)
        groups: list[Row] = []
        finished: dict[TopicPartition, int] = {}
        lags: dict[str, int] = {}
        readers: dict[str, int] = {}
        for name, group in last.groups.items():
            before = first.groups.get(name)
            done = _progress({} if before is None else before.positions, group.positions)
            for tp, count in done.items():
                finished[tp] = finished.get(tp, 0) + count
            for tp, lag in group.lags.items():
                lags[tp.topic] = lags.get(tp.topic, 0) + lag
            for topic in {tp.topic for tp in group.positions}:
                readers[topic] = readers.get(topic, 0) + 1
            groups.append(
                {
                    "group": name,
                    "state": group.state,
                    "type": group.type,
                    "lag": sum(group.lags.values()) if group.lags else None,
                    "in_per_s": _rate(sum(written.get(tp, 0) for tp in group.positions), elapsed),
                    "out_per_s": _rate(sum(done.values()), elapsed),
                }
            )
        came, went = _by_topic(written), _by_topic(finished)
        topics: list[Row] = [
            {
                "topic": topic,
                "partitions": count,
                "in_per_s": _rate(came.get(topic, 0), elapsed),
                "out_per_s": _rate(went.get(topic, 0), elapsed),
                "lag": lags.get(topic),
                "groups": readers.get(topic, 0),
            }
            for topic, count in last.partitions.items()
        ]
        problems: list[Row] = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "problem": each.text,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "missing": list(each.missing),
            }
            for each in last.problems
        ]
        return View(
            _sorted(groups, sort, "group", reverse),
            _sorted(topics, sort, "topic", reverse),
            sorted(problems, key=lambda row: (row["topic"], row["partition"])),
            last.errors,
        )


def _progress(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return how far each partition advanced; 0 for one that was recreated or moved back."""
    return {tp: max(0, offset - before.get(tp, offset)) for tp, offset in now.items()}


def _by_topic(counts: Mapping[TopicPartition, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tp, count in counts.items():
        found[tp.topic] = found.get(tp.topic, 0) + count
    return found


def _rate(count: int, elapsed: float) -> float | None:
    return round(count / elapsed, 1) if elapsed > 0 else None


def _sorted(rows: list[Row], sort: str, name: str, reverse: bool) -> list[Row]:
    column = SORTS[sort]
    rows = sorted(rows, key=lambda row: str(row[name]), reverse=reverse and not column)
    if not column:
        return rows
    # Rows without a number come last in both orders.
    sign = 1 if reverse else -1
    return sorted(rows, key=lambda row: (row[column] is None, sign * (row[column] or 0.0)))
