"""The progress of a streaming query, including its lag. Does not need Spark.

In Spark, a source written in Python cannot report metrics. But Spark reports the newest offsets
(`latestOffset`) beside those of a batch. Their difference is the lag, which Spark's own Kafka
source reports as `minOffsetsBehindLatest`, `max...` and `avg...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Lag", "Progress"]


@dataclass(frozen=True, slots=True)
class Lag:
    """Available but unread records, over the partitions of all Kafka sources."""

    total: int
    largest: int
    smallest: int
    average: float

    @classmethod
    def of(cls, behind: list[int]) -> Lag | None:
        if not behind:
            return None
        total = sum(behind)
        return cls(total, max(behind), min(behind), total / len(behind))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one micro-batch.

    Args:
        query: The query's name, or its id if it has none.
        run_id: Changes with every start of the query.
        batch_id: Number of the batch; counts on across restarts.
        rows: Number of rows read from all sources.
        rows_written: Number of rows as reported by the sink; None if it does not report them.
        seconds: Duration of the whole batch.
        lag: Lag of the Kafka sources after this batch; None without such a source.
        watermark: ISO 8601, UTC; None for queries without one.
        timestamp: Start of the batch; ISO 8601, UTC.
    """

    query: str
    run_id: str
    batch_id: int
    rows: int
    rows_written: int | None
    seconds: float
    lag: Lag | None
    watermark: str | None
    timestamp: str

    @classmethod
    def parse(cls, report: Mapping[str, object]) -> Progress:
        """Parse Spark's JSON (`StreamingQueryProgress.json`)."""
        sources = [source for source in _list(report, "sources") if isinstance(source, Mapping)]
        durations = _mapping(report, "durationMs")
        milliseconds = durations.get("triggerExecution", report.get("batchDuration", 0))
        written = _mapping(report, "sink").get("numOutputRows", -1)
        watermark = _mapping(report, "eventTime").get("watermark")
        return cls(
            query=str(report.get("name") or report.get("id")),
            run_id=str(report.get("runId")),
            batch_id=_int(report.get("batchId")),
            rows=sum(_int(source.get("numInputRows")) for source in sources),
            # Spark reports -1 for a sink that does not count its rows.
            rows_written=_int(written) if _int(written) >= 0 else None,
            seconds=_int(milliseconds) / 1000,
            lag=Lag.of([behind for source in sources for behind in _behind(source)]),
            watermark=str(watermark) if watermark is not None else None,
            timestamp=str(report.get("timestamp")),
        )

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """Return the batch's progress as one readable line."""
        parts = [
            f"batch {self.batch_id}",
            f"{self.rows:,} rows",
            f"{self.seconds:.1f} s",
            f"{self.rows_per_second:,.0f} rows/s",
        ]
        if self.lag is not None:
            parts.append(f"lag {self.lag.total:,} (at most {self.lag.largest:,} a partition)")
        if self.watermark is not None:
            parts.append(f"watermark {self.watermark}")
        return "   ".join(parts)


def _behind(source: Mapping[str, object]) -> Iterator[int]:
    """Yield the distance of each partition's end from its newest record."""
    end, latest = _mapping(source, "endOffset"), _mapping(source, "latestOffset")
    for topic, newest in latest.items():
        read = end.get(topic)
        if not isinstance(newest, Mapping) or not isinstance(read, Mapping):
            continue
        for partition, offset in newest.items():
            if isinstance(offset, int) and isinstance(read.get(partition), int):
                yield max(0, offset - _int(read[partition]))


def _mapping(report: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = report.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(report: Mapping[str, object], name: str) -> list[object]:
    value = report.get(name)
    return value if isinstance(value, list) else []


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
