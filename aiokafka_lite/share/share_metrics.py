"""The share consumer's metrics under Kafka's names (`consumer-share-fetch-manager-metrics` and
`consumer-share-coordinator-metrics`).

They are recorded per response, never per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiokafka_lite._stats import Recent

if TYPE_CHECKING:
    from aiokafka_lite.group.membership import Counters

__all__ = ["ShareMetrics"]

_MILLISECONDS: Final = 1000.0


class _Window:
    """The fetches and records of a time window."""

    __slots__ = ("bytes", "fetches", "largest", "latency", "longest_latency", "records")

    def __init__(self) -> None:
        self.fetches = self.records = self.bytes = self.largest = 0
        self.latency = self.longest_latency = 0.0


class ShareMetrics:
    """The metrics of one share consumer."""

    def __init__(self) -> None:
        self._recent = Recent(_Window)
        self._fetches = self._bytes = self._records = 0  # ever
        self._acknowledged = self._failed = self._lost = 0  # ever
        self.fetched_at: float | None = None
        """When the last fetch was answered, in loop time; None: never."""

    def on_fetch(self, size: int, latency: float, now: float) -> None:
        """Record a fetch response: bytes of records; latency in seconds."""
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
        window.largest = max(window.largest, size)
        window.longest_latency = max(window.longest_latency, latency)

    def on_records(self, count: int, now: float) -> None:
        """Record delivered records."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        self._records += count
        recent.new.records += count

    def on_acknowledged(self, count: int, failed: bool) -> None:
        """Record results of acknowledgements."""
        if failed:
            self._failed += count
        else:
            self._acknowledged += count

    def on_lost(self, count: int) -> None:
        """Record locks that ended before the application had acknowledged the records."""
        self._lost += count

    def snapshot(
        self, now: float, *, partitions: int, buffered: int, group: Counters
    ) -> dict[str, float | None]:
        """Return all metrics; averages and rates cover the last 30 to 60 seconds. An average or a
        maximum without values is None.

        Args:
            now: In loop time.
            partitions: Assigned ones.
            buffered: Acquired records that no read has taken yet.
            group: The counters of the membership.
        """
        recent = self._recent
        recent.turn(now)
        new, old, elapsed = recent.new, recent.old, recent.elapsed(now)
        fetches, records = new.fetches + old.fetches, new.records + old.records

        def average(total: float, unit: float = 1.0) -> float | None:
            return total / fetches * unit if fetches else None

        longest = max(new.longest_latency, old.longest_latency) * _MILLISECONDS
        ago = -1.0 if group.last_heartbeat < 0 else now - group.last_heartbeat
        return {
            "acknowledgements-error-total": float(self._failed),
            "acknowledgements-send-total": float(self._acknowledged + self._failed),
            "assigned-partitions": float(partitions),
            "bytes-consumed-rate": (new.bytes + old.bytes) / elapsed,
            "bytes-consumed-total": float(self._bytes),
            "fetch-latency-avg": average(new.latency + old.latency, _MILLISECONDS),
            "fetch-latency-max": longest if fetches else None,
            "fetch-rate": fetches / elapsed,
            "fetch-size-avg": average(new.bytes + old.bytes),
            "fetch-size-max": float(max(new.largest, old.largest)) if fetches else None,
            "fetch-total": float(self._fetches),
            "heartbeat-total": float(group.heartbeats),
            "last-heartbeat-seconds-ago": ago,
            "locks-lost-total": float(self._lost),
            "rebalance-total": float(group.rebalances),
            "records-buffered": float(buffered),
            "records-consumed-rate": records / elapsed,
            "records-consumed-total": float(self._records),
            "records-per-request-avg": average(records),
        }
