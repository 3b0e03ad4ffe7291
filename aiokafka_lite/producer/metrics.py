"""What the producer tells about itself, under Kafka's names (group ``producer-metrics``)."""

from collections.abc import Sequence

from aiokafka_lite._stats import Windowed
from aiokafka_lite.producer.accumulator import ProducerBatch
from aiokafka_lite.producer.memory import MemoryPool

__all__ = ["ProducerMetrics"]


class ProducerMetrics:
    """Recorded a request at a time, never a record at a time."""

    def __init__(self) -> None:
        self._records = Windowed()  # of each request
        self._bytes = Windowed()  # of each request
        self._batch_size = Windowed()
        self._compression = Windowed()  # size sent / size before
        self._queue_time = Windowed()  # seconds from a batch's first record to its first request
        self._latency = Windowed()  # seconds from a request to its answer
        self._throttle = Windowed()  # seconds
        self._retries = Windowed()  # records
        self._errors = Windowed()  # records
        self._splits = Windowed()  # batches

    def on_request(self, batches: Sequence[ProducerBatch], now: float) -> None:
        """A request with these batches leaves."""
        records = size = largest = fresh = 0
        ratio = waited = longest = 0.0
        for batch in batches:
            count, bytes_sent = batch.count, batch.size
            records += count
            size += bytes_sent
            largest = max(largest, bytes_sent)
            ratio += bytes_sent / batch.builder.size
            if batch.attempts == 1:
                fresh += 1
                wait = now - batch.created
                waited += wait
                longest = max(longest, wait)
            else:
                self._retries.record(count, now)
        self._batch_size.record_many(len(batches), size, largest, now)
        self._compression.record_many(len(batches), ratio, 1.0, now)
        if fresh:
            self._queue_time.record_many(fresh, waited, longest, now)
        self._records.record(records, now)
        self._bytes.record(size, now)

    def on_response(self, latency: float, throttle: float, now: float) -> None:
        """A request was answered; both times in seconds."""
        self._latency.record(latency, now)
        self._throttle.record(throttle, now)

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
        return {
            "batch-size-avg": self._batch_size.average(now),
            "batch-size-max": self._batch_size.maximum(now),
            "batch-split-rate": self._splits.rate(now),
            "batch-split-total": self._splits.total,
            "buffer-available-bytes": float(pool.unused),
            "buffer-exhausted-total": float(pool.exhausted),
            "buffer-total-bytes": float(pool.total),
            "compression-rate-avg": self._compression.average(now),
            "metadata-age": metadata_age,
            "outgoing-byte-rate": self._bytes.rate(now),
            "outgoing-byte-total": self._bytes.total,
            "produce-throttle-time-avg": self._throttle.average(now) * milliseconds,
            "produce-throttle-time-max": self._throttle.maximum(now) * milliseconds,
            "record-error-rate": self._errors.rate(now),
            "record-error-total": self._errors.total,
            "record-queue-time-avg": self._queue_time.average(now) * milliseconds,
            "record-queue-time-max": self._queue_time.maximum(now) * milliseconds,
            "record-retry-rate": self._retries.rate(now),
            "record-retry-total": self._retries.total,
            "record-send-rate": self._records.rate(now),
            "record-send-total": self._records.total,
            "records-per-request-avg": self._records.average(now),
            "request-latency-avg": self._latency.average(now) * milliseconds,
            "request-latency-max": self._latency.maximum(now) * milliseconds,
            "request-rate": self._records.count_rate(now),
            "request-total": float(self._records.count),
            "requests-in-flight": float(in_flight),
            "waiting-threads": float(pool.waiting),
        }
