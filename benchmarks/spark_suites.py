"""Suites of Spark reads and writes, compared with Spark's own connector (bars: issue 8)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tools.spark import missing

from .spark_session import Session
from .suite import OURS, Bar, Row, Suite

CONNECTOR = "Spark's connector"
PARTITIONS = 6
PATIENCE = 600  # timeout of all rounds of one suite, in seconds


def _suite(name: str, title: str, kind: str, *bars: Bar, **options: Any) -> Suite:
    return Suite(
        name,
        f"Spark, local[2], 6 partitions: {title}",
        (Row(OURS, "kafka_lite", kind), Row(CONNECTOR, "kafka", kind)),
        options,
        reads=True,
        bars=bars,
        reference=CONNECTOR,
        figure="batch_ms" if kind == "micro_batches" else "cpu_us",
    )


SPARK_SUITES = (
    _suite(
        "spark-batch",
        "100 B, count, sum(length(value)), max(offset), max(timestamp)",
        "batch",
        Bar("cpu_us", 0.75, of=CONNECTOR),
        Bar("rate", least=2.5, of=CONNECTOR),
        records=1_500_000,
    ),
    _suite(
        "spark-batch-1k",
        "1 KiB, the same query",
        "batch",
        Bar("cpu_us", 0.85, of=CONNECTOR),
        Bar("rate", least=2.0, of=CONNECTOR),
        records=400_000,
        size=1024,
    ),
    _suite(
        "spark-stream",
        "100 B, a stream of all available records (AvailableNow)",
        "stream",
        Bar("cpu_us", 1.0, of=CONNECTOR),
        Bar("rate", least=1.8, of=CONNECTOR),
        # A stream starts processes, which takes a second of CPU for any number of records.
        records=3_000_000,
    ),
    _suite(
        "spark-stream-long",
        "100 B, a longer stream, in which the start counts less",
        "stream",
        Bar("cpu_us", 1.0, of=CONNECTOR),
        Bar("rate", least=1.8, of=CONNECTOR),
        records=6_600_000,
    ),
    _suite(
        "spark-micro-batches",
        "micro-batches of 40 records",
        "micro_batches",
        Bar("batch_ms", 1.5, of=CONNECTOR),
        records=1_000,
        given={"maxOffsetsPerTrigger": "40"},
    ),
    Suite(
        "spark-sink",
        "Spark, local[2], 6 partitions: 100 B written by six tasks of a batch",
        (
            Row(OURS, "kafka_lite", "sink"),
            Row(
                f"{OURS}, exactly once",
                "kafka_lite",
                "sink",
                {"given": {"deliveryGuarantee": "exactly_once"}},
            ),
            Row(CONNECTOR, "kafka", "sink"),
            # The default batch size of aiokafka_lite is 128 KiB.
            Row(
                f"{CONNECTOR}, 128 KiB",
                "kafka",
                "sink",
                {"given": {"kafka.batch.size": "131072"}},
            ),
        ),
        {"records": 1_000_000},
        bars=(Bar("cpu_us", 0.6, of=CONNECTOR),),
        reference=CONNECTOR,
    ),
)


def run_session(
    suite: Suite, bootstrap: str, topic: str, rounds: int, scale: float
) -> dict[str, list[Any]]:
    """Run every row of `suite` in one warm session; return {label: [figures, ...]}."""
    reason = missing()
    if reason is not None:
        print(f"# {suite.name}: {reason}", flush=True)
        return {row.label: [] for row in suite.rows}
    work = Session(
        kind=suite.rows[0].kind,
        formats={row.label: row.client for row in suite.rows},
        bootstrap=bootstrap,
        topic=f"{topic}-{PARTITIONS}",
        records=max(1000, int(suite.options["records"] * scale)),
        rounds=rounds,
        options=suite.options.get("given", {}),
        own={row.label: row.options.get("given", {}) for row in suite.rows},
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark_session", work.dump()],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        print(f"# {suite.name}: {done.stderr.strip()[-3000:] or 'no error message'}", flush=True)
        return {row.label: [] for row in suite.rows}
    results: dict[str, list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return results
