"""The producer's metrics, under Kafka's names (group `producer-metrics`)."""

from collections.abc import Iterable
from math import isfinite

from aiokafka_lite._stats import Recent
from aiokafka_lite.producer.batching.accumulator import PartitionQueue, ProducerBatch
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool

__all__ = ["ProducerMetrics"]


class _Window:
    """Sums over the requests of one time window.

    They are in one object, because each accessed object costs an idle service time.
    """

    __slots__ = (
        "batches",
        "bytes",
        "failed",
        "fresh",
        "largest_batch",
        "latency",
        "longest_latency",
        "longest_throttle",
        "longest_wait",
        "ratio",
        "records",
        "requests",
        "responses",
        "retried",
        "splits",
        "throttle",
        "waited",
    )

    def __init__(self) -> None:
        self.requests = self.records = self.bytes = 0
        self.batches = self.largest_batch = 0
        self.ratio = 0.0  # size sent / size before, of each batch
        self.fresh = 0  # batches that were sent for the first time,
        self.waited = self.longest_wait = 0.0  # and seconds since their first record
        self.responses = 0
        self.latency = self.longest_latency = 0.0  # seconds from a request to its answer
        self.throttle = self.longest_throttle = 0.0  # seconds
        self.retried = self.failed = 0  # records
        self.splits = 0  # of batches


class ProducerMetrics:
    """The metrics of one producer, recorded per request, never per record."""

    def __init__(self) -> None:
        self._recent = Recent(_Window)
        # Totals:
        self._requests = 0
        self._records = 0
        self._bytes = 0
        self._retried = 0  # records
        self._failed = 0  # records
        self._splits = 0  # of batches

    def on_request(self, parts: Iterable[tuple[PartitionQueue, ProducerBatch]], now: float) -> None:
        """A request with these batches is sent."""
        window = self._window(now)
        for _, batch in parts:
            size, builder = batch.size, batch.builder
            count = builder.count
            window.batches += 1
            window.records += count
            window.bytes += size
            self._records += count
            self._bytes += size
            if size > window.largest_batch:
                window.largest_batch = size
            window.ratio += size / builder.size
            if batch.attempts == 1:
                wait = now - batch.created
                window.fresh += 1
                window.waited += wait
                if wait > window.longest_wait:
                    window.longest_wait = wait
            else:
                window.retried += count
                self._retried += count
        window.requests += 1
        self._requests += 1

    def on_response(self, latency: float, throttle: float, now: float) -> None:
        """A request was answered; both times in seconds."""
        window = self._window(now)
        window.responses += 1
        window.latency += latency
        if latency > window.longest_latency:
            window.longest_latency = latency
        if throttle:
            window.throttle += throttle
            window.longest_throttle = max(window.longest_throttle, throttle)

    def on_failed(self, records: int, now: float) -> None:
        """A batch with this number of records will not be sent again."""
        self._window(now).failed += records
        self._failed += records

    def on_split(self, now: float) -> None:
        """A batch was split."""
        self._window(now).splits += 1
        self._splits += 1

    def snapshot(
        self, pool: MemoryPool, now: float, *, in_flight: int, metadata_age: float
    ) -> dict[str, float | None]:
        """Return the current values; averages and rates cover the last 30 to 60 seconds.

        An average or a maximum without measurements is None, and so is the age of missing
        metadata: 0.0 would be a measurement, and JSON has no nan.

        Args:
            in_flight: Unanswered requests.
            metadata_age: Seconds; infinite before the first metadata.
        """
        milliseconds = 1000.0
        recent = self._recent
        recent.turn(now)
        new, old, elapsed = recent.new, recent.old, recent.elapsed(now)
        requests, responses = new.requests + old.requests, new.responses + old.responses
        batches, fresh = new.batches + old.batches, new.fresh + old.fresh

        def average(total: float, count: int, unit: float = 1.0) -> float | None:
            return total / count * unit if count else None

        def largest(one: float, other: float, count: int, unit: float = 1.0) -> float | None:
            return max(one, other) * unit if count else None

        records = new.records + old.records
        return {
            "batch-size-avg": average(new.bytes + old.bytes, batches),
            "batch-size-max": largest(new.largest_batch, old.largest_batch, batches, 1.0),
            "batch-split-rate": (new.splits + old.splits) / elapsed,
            "batch-split-total": float(self._splits),
            "buffer-available-bytes": float(pool.unused),
            "buffer-exhausted-total": float(pool.exhausted),
            "buffer-total-bytes": float(pool.total),
            "compression-rate-avg": average(new.ratio + old.ratio, batches),
            "metadata-age": metadata_age if isfinite(metadata_age) else None,
            "outgoing-byte-rate": (new.bytes + old.bytes) / elapsed,
            "outgoing-byte-total": float(self._bytes),
            "produce-throttle-time-avg": average(
                new.throttle + old.throttle, responses, milliseconds
            ),
            "produce-throttle-time-max": largest(
                new.longest_throttle, old.longest_throttle, responses, milliseconds
            ),
            "record-error-rate": (new.failed + old.failed) / elapsed,
            "record-error-total": float(self._failed),
            "record-queue-time-avg": average(new.waited + old.waited, fresh, milliseconds),
            "record-queue-time-max": largest(
                new.longest_wait, old.longest_wait, fresh, milliseconds
            ),
            "record-retry-rate": (new.retried + old.retried) / elapsed,
            "record-retry-total": float(self._retried),
            "record-send-rate": records / elapsed,
            "record-send-total": float(self._records),
            "records-per-request-avg": average(records, requests),
            "request-latency-avg": average(new.latency + old.latency, responses, milliseconds),
            "request-latency-max": largest(
                new.longest_latency, old.longest_latency, responses, milliseconds
            ),
            "request-rate": requests / elapsed,
            "request-total": float(self._requests),
            "requests-in-flight": float(in_flight),
            "waiting-threads": float(pool.waiting),
        }

    def _window(self, now: float) -> _Window:
        """Return the window to count in."""
        recent = self._recent
        if now >= recent.over:
            recent.turn(now)
        return recent.new
