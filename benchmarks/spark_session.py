"""Runs one Spark suite in one session: `python -m benchmarks.spark_session JSON`.

The same warm JVM runs both formats in turns; with a process for each measurement, the JVM would be
cold. Prints one line of JSON: {label: [figures, ...]}. The CPU is that of the whole process tree:
driver, JVM and Python workers.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka_lite import AIOKafkaConsumer

from .process_tree import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

MASTER = "local[2]"
HEAP = "2g"
WARM = 2
"""Warm-up runs of each row, in which the JVM compiles the code that it uses often."""
PATIENCE = 300  # timeout of one query, in seconds
WRITING_TASKS = 6
FIRST_BATCHES = 5
"""Micro-batches that do not count, because the query starts its processes in them."""


@dataclass(frozen=True, slots=True)
class Session:
    """The work of one process of this module.

    Attributes:
        kind: Name of a function in `KINDS`.
        formats: Format of each row, by row label.
        options: Options of all formats, in addition to the address and the topic.
        own: Additional options of single rows, by row label.
    """

    kind: str
    formats: dict[str, str]
    bootstrap: str
    topic: str
    records: int
    rounds: int
    options: dict[str, str]
    own: dict[str, dict[str, str]] = field(default_factory=dict)

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Session:
        return cls(**json.loads(text))


def batch(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """Measure a batch query of the columns that contain information."""
    frame = spark.read.format(form).options(**_options(work)).load()
    query = frame.selectExpr("count(*)", "sum(length(value))", "max(offset)", "max(timestamp)")
    began, spent = time.perf_counter(), cpu_seconds()
    row = query.collect()[0]
    figures = _figures(began, spent, work.records)
    if row[0] != work.records:
        raise RuntimeError(f"{form} read {row[0]} of {work.records} records")
    return figures


def stream(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """Measure a stream of all available records, from its start to its end."""
    began, spent = time.perf_counter(), cpu_seconds()
    query = _run(spark, form, work)
    figures = _figures(began, spent, work.records)
    _check(query, form, work)
    return figures


def micro_batches(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """Measure the cost of a micro-batch that reads only a few records."""
    spent = cpu_seconds()
    query = _run(spark, form, work)
    spent = cpu_seconds() - spent
    _check(query, form, work)
    took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
    return {
        "batch_ms": statistics.median(took[FIRST_BATCHES:]),
        "cpu_ms": spent / len(took) * 1e3,
    }


def sink(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """Measure a write of 100-byte values that Spark generates; the default is at least once."""
    options = {"kafka.bootstrap.servers": work.bootstrap, "topic": work.topic, **work.options}
    frame = spark.range(0, work.records, 1, WRITING_TASKS)
    frame = frame.selectExpr("rpad(string(id), 100, '.') AS value")
    before = _stored(work)
    began, spent = time.perf_counter(), cpu_seconds()
    frame.write.format(form).options(**options).mode("append").save()
    figures = _figures(began, spent, work.records)
    # The marker at the end of a transaction takes an offset, too, so there can be more.
    if _stored(work) - before < work.records:
        raise RuntimeError(f"{form} wrote fewer than {work.records} records")
    return figures


KINDS: dict[str, Callable[[Any, str, Session], dict[str, float]]] = {
    "batch": batch,
    "stream": stream,
    "micro_batches": micro_batches,
    "sink": sink,
}


def _run(spark: SparkSession, form: str, work: Session) -> StreamingQuery:
    options = {**_options(work), "startingOffsets": "earliest"}
    frame = spark.readStream.format(form).options(**options).load()
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as folder:
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(PATIENCE):
            raise TimeoutError(f"{form} did not finish within {PATIENCE} s")
    return query


def _check(query: StreamingQuery, form: str, work: Session) -> None:
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != work.records:
        raise RuntimeError(f"{form} read {read} of {work.records} records")


def _stored(work: Session) -> int:
    """Return the sum of the end offsets of the topic's partitions."""
    return asyncio.run(_ends(work))


async def _ends(work: Session) -> int:
    async with AIOKafkaConsumer(work.topic, bootstrap_servers=work.bootstrap) as consumer:
        return sum((await consumer.end_offsets(consumer.assignment())).values())


def _options(work: Session) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": work.bootstrap,
        "subscribe": work.topic,
        **work.options,
    }


def _figures(began: float, spent: float, records: int) -> dict[str, float]:
    wall, cpu = time.perf_counter() - began, cpu_seconds() - spent
    return {"cpu_us": cpu / records * 1e6, "rate": records / wall}


def main() -> None:
    from tools.spark import connector, open_session

    work = Session.load(sys.argv[1])
    measure = KINDS[work.kind]
    results: dict[str, list[dict[str, float]]] = {label: [] for label in work.formats}
    with (
        tempfile.TemporaryDirectory(prefix="spark-bench-") as folder,
        open_session(
            MASTER,
            heap=HEAP,
            quick=False,
            jars=connector(),
            settings={"spark.sql.streaming.checkpointLocation": str(Path(folder))},
        ) as spark,
    ):
        labels = list(work.formats)
        for turn in range(WARM + work.rounds):
            at = turn % len(labels)
            for label in labels[at:] + labels[:at]:
                options = {**work.options, **work.own.get(label, {})}
                figures = measure(spark, work.formats[label], replace(work, options=options))
                if turn >= WARM:
                    results[label].append(figures)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
