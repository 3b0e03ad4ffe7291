"""What a streaming query says about itself, with the lag worked out. Needs no Spark.

Spark lets a source written in Python report no metrics of its own; but beside the offsets of a
batch it tells the newest ones there were (`latestOffset`). Their difference is the lag that
Spark's own Kafka source reports as `minOffsetsBehindLatest`, `max...` and `avg...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Lag", "Progress"]


@dataclass(frozen=True, slots=True)
class Lag:
    """Records that were there and not yet read, over the partitions of all Kafka sources."""

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
    """One micro-batch, as a line of progress shows it.

    Args:
        query: Its name, or its id where it has none.
        run_id: Changes with every start of the query.
        batch_id: Counts on over restarts.
        rows: Read from all sources.
        rows_written: Told by the sink; None where it does not.
        seconds: The whole batch took.
        lag: Of the Kafka sources, after this batch; None without such a source.
        watermark: ISO 8601, UTC; None for queries without.
        timestamp: When the batch began; ISO 8601, UTC.
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
        """From what Spark gives as JSON (`StreamingQueryProgress.json`)."""
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
            # -1 is Spark's word for a sink that does not tell.
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
        """The batch in one line for people."""
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
    """How far each partition's end is from its newest record."""
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
