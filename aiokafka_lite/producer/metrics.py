"""What the producer tells about itself, under Kafka's names (group ``producer-metrics``)."""

from collections.abc import Iterable
from typing import Final

from aiokafka_lite._stats import WINDOW, Windowed
from aiokafka_lite.producer.accumulator import PartitionQueue, ProducerBatch
from aiokafka_lite.producer.memory import MemoryPool

__all__ = ["ProducerMetrics"]

_NAN: Final = float("nan")


class _Window:
    """What the requests of a window of time come to; all sums of them in one place, because an
    idle service pays for each place that is touched."""

    __slots__ = (
        "batches",
        "bytes",
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


class ProducerMetrics:
    """Recorded a request at a time, never a record at a time."""

    def __init__(self) -> None:
        self._new = _Window()
        self._old = _Window()
        self._began = -1.0  # of the newer window; -1 before the first request
        self._over = -1.0  # when the newer window is
        self._requests = 0  # ever
        self._records = 0  # ever
        self._bytes = 0  # ever
        self._retries = Windowed()  # records
        self._errors = Windowed()  # records
        self._splits = Windowed()  # batches

    def on_request(self, parts: Iterable[tuple[PartitionQueue, ProducerBatch]], now: float) -> None:
        """A request with these batches leaves."""
        if now >= self._over:
            self._turn(now)
        window = self._new
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
                self._retries.record(count, now)
        window.requests += 1
        self._requests += 1

    def on_response(self, latency: float, throttle: float, now: float) -> None:
        """A request was answered; both times in seconds."""
        if now >= self._over:
            self._turn(now)
        window = self._new
        window.responses += 1
        window.latency += latency
        if latency > window.longest_latency:
            window.longest_latency = latency
        if throttle:
            window.throttle += throttle
            window.longest_throttle = max(window.longest_throttle, throttle)

    def _turn(self, now: float) -> None:
        """Begin a new window if the newer one is over."""
        if self._began < 0:
            self._began = now
        elif now - self._began >= WINDOW:
            fresh = now - self._began < 2 * WINDOW
            self._old = self._new if fresh else _Window()
            self._new = _Window()
            self._began += (now - self._began) // WINDOW * WINDOW
        self._over = self._began + WINDOW

    def on_failed(self, records: int, now: float) -> None:
        """A batch of so many records will not be sent again."""
        self._errors.record(records, now)

    def on_split(self, now: float) -> None:
        """A batch goes on in pieces."""
        self._splits.record(1, now)

    def snapshot(
        self, pool: MemoryPool, now: float, *, in_flight: int, metadata_age: float
    ) -> dict[str, float]:
        """All numbers as they are; averages and rates of the last half minute to minute.

        Args:
            in_flight: Requests without an answer.
            metadata_age: Seconds.
        """
        milliseconds = 1000.0
        self._turn(now)
        new, old = self._new, self._old
        elapsed = max(now - self._began + (WINDOW if old.requests else 0.0), 1.0)
        requests, responses = new.requests + old.requests, new.responses + old.responses
        batches, fresh = new.batches + old.batches, new.fresh + old.fresh

        def average(total: float, count: int) -> float:
            return total / count if count else _NAN

        def largest(one: float, other: float, count: int) -> float:
            return max(one, other) if count else _NAN

        latency = average(new.latency + old.latency, responses)
        longest_latency = largest(new.longest_latency, old.longest_latency, responses)
        throttle = average(new.throttle + old.throttle, responses)
        longest_throttle = largest(new.longest_throttle, old.longest_throttle, responses)
        waited = average(new.waited + old.waited, fresh)
        longest_wait = largest(new.longest_wait, old.longest_wait, fresh)
        records = new.records + old.records
        return {
            "batch-size-avg": average(new.bytes + old.bytes, batches),
            "batch-size-max": float(largest(new.largest_batch, old.largest_batch, batches)),
            "batch-split-rate": self._splits.rate(now),
            "batch-split-total": self._splits.total,
            "buffer-available-bytes": float(pool.unused),
            "buffer-exhausted-total": float(pool.exhausted),
            "buffer-total-bytes": float(pool.total),
            "compression-rate-avg": average(new.ratio + old.ratio, batches),
            "metadata-age": metadata_age,
            "outgoing-byte-rate": (new.bytes + old.bytes) / elapsed,
            "outgoing-byte-total": float(self._bytes),
            "produce-throttle-time-avg": throttle * milliseconds,
            "produce-throttle-time-max": longest_throttle * milliseconds,
            "record-error-rate": self._errors.rate(now),
            "record-error-total": self._errors.total,
            "record-queue-time-avg": waited * milliseconds,
            "record-queue-time-max": longest_wait * milliseconds,
            "record-retry-rate": self._retries.rate(now),
            "record-retry-total": self._retries.total,
            "record-send-rate": records / elapsed,
            "record-send-total": float(self._records),
            "records-per-request-avg": average(records, requests),
            "request-latency-avg": latency * milliseconds,
            "request-latency-max": longest_latency * milliseconds,
            "request-rate": requests / elapsed,
            "request-total": float(self._requests),
            "requests-in-flight": float(in_flight),
            "waiting-threads": float(pool.waiting),
        }
