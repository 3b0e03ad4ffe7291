"""The consumer's metrics under Kafka's names (the groups `consumer-fetch-manager-metrics` and
`consumer-coordinator-metrics`).

They are recorded per response or chunk of records, never per record. The membership and the commits
have their own counters, and positions are read on each call of `metrics()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from aiokafka_lite._stats import Recent
from aiokafka_lite.consumer.partitions.positions import Ends, PartitionState
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:  # membership is imported only with a group
    from aiokafka_lite.consumer.commits.committer import CommitCounters
    from aiokafka_lite.group.membership import Counters

__all__ = ["ConsumerMetrics", "Lags", "PartitionLag"]

_MILLISECONDS: Final = 1000.0

PartitionLag: TypeAlias = tuple[TopicPartition, float | None, float | None]
"""A partition, its `records-lag` and its `records-lead`; None if unknown or outdated."""


class Lags:
    """The lag and lead of partitions, collected in slices between which the event loop can run.

    Attributes:
        partitions: The lag and lead of each partition.
        held: Number of decoded records that were not delivered yet. Set by `hold`.
    """

    __slots__ = ("held", "partitions")

    def __init__(self, ends: Iterable[Ends] = ()) -> None:
        self.partitions: list[PartitionLag] = []
        self.held = 0
        self.add(ends)

    def add(self, ends: Iterable[Ends]) -> None:
        """Add partitions, with the known starts and ends of their logs."""
        add = self.partitions.append
        for state, known, end, _ in ends:
            lag = lead = None
            position = state.position
            if position is not None:
                if end is not None:
                    lag = float(end - position) if end > position else 0.0
                start = state.source.log_start_offset
                if known and start is not None and start >= 0:
                    lead = float(position - start) if position > start else 0.0
            add((state.tp, lag, lead))

    def hold(self, states: Iterable[PartitionState]) -> None:
        """Count the held records of all partitions in one step. If they were counted in slices,
        records that arrive or are dropped between two slices would make the total decrease."""
        chunks = (state.fetched.chunk for state in states)
        self.held = sum(chunk.count - chunk.index for chunk in chunks if chunk is not None)

    def metrics(self) -> dict[TopicPartition, dict[str, float | None]]:
        """Return the metrics of each partition under Kafka's names."""
        return {tp: {"records-lag": lag, "records-lead": lead} for tp, lag, lead in self.partitions}


class _Window:
    """The fetches and records of a time window, in one object, because each object accessed costs
    a consumer that reads single records."""

    __slots__ = (
        "bytes",
        "fetches",
        "largest",
        "latency",
        "longest_latency",
        "longest_throttle",
        "records",
        "throttle",
    )

    def __init__(self) -> None:
        self.fetches = self.records = 0
        self.bytes = self.largest = 0  # of record sets, of each response
        self.latency = self.longest_latency = 0.0  # seconds from a fetch to its answer
        self.throttle = self.longest_throttle = 0.0  # seconds


class ConsumerMetrics:
    """The metrics of one consumer."""

    def __init__(self) -> None:
        self._recent = Recent(_Window)
        self._fetches = 0  # ever
        self._bytes = 0  # ever
        self._records = 0  # decoded for the application, ever
        self._unread = 0  # records that were decoded and then dropped
        self.fetched_at: float | None = None
        """When the last fetch was answered, on the clock of `on_fetch`; None: never."""

    def on_fetch(self, size: int, latency: float, throttle: float, now: float) -> None:
        """Record a fetch response: bytes of records; latency and throttle in seconds."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        self.fetched_at = now
        self._fetches += 1
        self._bytes += size
        window = recent.new
        window.fetches += 1
        window.bytes += size
        window.latency += latency
        if size > window.largest:
            window.largest = size
        if latency > window.longest_latency:
            window.longest_latency = latency
        if throttle:
            window.throttle += throttle
            window.longest_throttle = max(window.longest_throttle, throttle)

    def on_records(self, count: int, now: float) -> None:
        """Record decoded records that are about to be delivered."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        self._records += count
        recent.new.records += count

    def on_unread(self, count: int) -> None:
        """Record decoded records that were dropped undelivered."""
        self._unread += count

    def snapshot(
        self,
        assigned: Lags,
        now: float,
        *,
        buffered: int,
        budget: int,
        group: tuple[Counters, CommitCounters] | None,
        loop_time: float,
    ) -> dict[str, float | None]:
        """Return all metrics; averages and rates cover the last 30 to 60 seconds.

        An average, a maximum or a minimum without values is None: 0.0 would be a measurement, and
        JSON has no NaN.

        Args:
            assigned: The lags of the assigned partitions.
            now: Current time on the clock of the recorded values.
            buffered: Bytes of buffered responses.
            budget: Maximum bytes of buffered responses.
            group: The counters of the membership and the commits; None without a group.
            loop_time: Current time on the clock of the counters.
        """
        partitions = assigned.partitions
        lags = [lag for _, lag, _ in partitions if lag is not None]
        leads = [lead for _, _, lead in partitions if lead is not None]
        recent = self._recent
        recent.turn(now)
        new, old, elapsed = recent.new, recent.old, recent.elapsed(now)
        fetches, records = new.fetches + old.fetches, new.records + old.records

        def average(total: float, unit: float = 1.0) -> float | None:
            return _over(total, fetches, unit)

        def largest(one: float, other: float, unit: float = 1.0) -> float | None:
            return max(one, other) * unit if fetches else None

        values: dict[str, float | None] = {
            "assigned-partitions": float(len(partitions)),
            "buffer-available-bytes": float(budget - buffered),
            "buffer-total-bytes": float(budget),
            "bytes-consumed-rate": (new.bytes + old.bytes) / elapsed,
            "bytes-consumed-total": float(self._bytes),
            "fetch-latency-avg": average(new.latency + old.latency, _MILLISECONDS),
            "fetch-latency-max": largest(new.longest_latency, old.longest_latency, _MILLISECONDS),
            "fetch-rate": fetches / elapsed,
            "fetch-size-avg": average(new.bytes + old.bytes),
            "fetch-size-max": largest(new.largest, old.largest, 1.0),
            "fetch-throttle-time-avg": average(new.throttle + old.throttle, _MILLISECONDS),
            "fetch-throttle-time-max": (
                largest(new.longest_throttle, old.longest_throttle, _MILLISECONDS)
            ),
            "fetch-total": float(self._fetches),
            "records-consumed-rate": records / elapsed,
            "records-consumed-total": float(self._records - self._unread - assigned.held),
            "records-lag-max": max(lags, default=None),
            "records-lead-min": min(leads, default=None),
            "records-per-request-avg": average(records),
        }
        if group is not None:
            values.update(_of_group(*group, loop_time))
        return values


def _of_group(counters: Counters, commits: CommitCounters, now: float) -> dict[str, float | None]:
    """Group metrics, which cover the consumer's lifetime because the events are rare."""
    rebalances, committed = counters.rebalances, commits.commits
    return {
        "commit-failed-total": float(commits.failures),
        "commit-latency-avg": _over(commits.time, committed, _MILLISECONDS),
        "commit-latency-max": commits.slowest * _MILLISECONDS if committed else None,
        "commit-total": float(committed),
        "failed-rebalance-total": float(counters.failed_rebalances),
        "heartbeat-total": float(counters.heartbeats),
        "last-commit-seconds-ago": _ago(commits.last, now),
        "last-heartbeat-seconds-ago": _ago(counters.last_heartbeat, now),
        "last-rebalance-seconds-ago": _ago(counters.last_rebalance, now),
        "partitions-lost-total": float(counters.lost),
        "rebalance-latency-avg": _over(counters.rebalance_time, rebalances, _MILLISECONDS),
        "rebalance-latency-max": (
            counters.slowest_rebalance * _MILLISECONDS if rebalances else None
        ),
        "rebalance-latency-total": counters.rebalance_time * _MILLISECONDS,
        "rebalance-total": float(rebalances),
    }


def _over(total: float, count: int, unit: float) -> float | None:
    return total / count * unit if count else None


def _ago(instant: float, now: float) -> float:
    """Seconds since; -1 for never, as in Java."""
    return -1.0 if instant < 0 else now - instant
