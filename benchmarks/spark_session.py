"""One suite of Spark in one session: `python -m benchmarks.spark_session JSON`.

Both formats are asked in turns by the same warm JVM, which a process for each measurement could not
have. Prints one JSON line: {label: [figures, ...]}. CPU is that of the whole tree of processes:
driver, JVM, Python workers.
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
"""Runs of each row before the first that counts: the JVM compiles what is used often."""
PATIENCE = 300  # seconds for one query
WRITING_TASKS = 6
FIRST_BATCHES = 5
"""Micro-batches of a query that are not counted: it starts its processes in them."""


@dataclass(frozen=True, slots=True)
class Session:
    """What one process of this module does.

    Attributes:
        kind: A function of `KINDS`.
        formats: By a row's label, the format it reads.
        options: Given to the formats beside the address and the topic.
        own: By a row's label, what only that row is given.
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
    """A query that looks at the columns which have something to tell."""
    frame = spark.read.format(form).options(**_options(work)).load()
    query = frame.selectExpr("count(*)", "sum(length(value))", "max(offset)", "max(timestamp)")
    began, spent = time.perf_counter(), cpu_seconds()
    row = query.collect()[0]
    figures = _figures(began, spent, work.records)
    if row[0] != work.records:
        raise RuntimeError(f"{form} has read {row[0]} of {work.records} records")
    return figures


def stream(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """A stream of all there is, from its start to its end."""
    began, spent = time.perf_counter(), cpu_seconds()
    query = _run(spark, form, work)
    figures = _figures(began, spent, work.records)
    _check(query, form, work)
    return figures


def micro_batches(spark: SparkSession, form: str, work: Session) -> dict[str, float]:
    """What a micro-batch costs that has hardly anything to read."""
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
    """Values of 100 bytes, made by Spark, into a topic: at least once unless the row says more."""
    options = {"kafka.bootstrap.servers": work.bootstrap, "topic": work.topic, **work.options}
    frame = spark.range(0, work.records, 1, WRITING_TASKS)
    frame = frame.selectExpr("rpad(string(id), 100, '.') AS value")
    before = _stored(work)
    began, spent = time.perf_counter(), cpu_seconds()
    frame.write.format(form).options(**options).mode("append").save()
    figures = _figures(began, spent, work.records)
    # A transaction's end takes an offset, too.
    if _stored(work) - before < work.records:
        raise RuntimeError(f"{form} has written less than {work.records} records")
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
            raise TimeoutError(f"{form} was not done in {PATIENCE} s")
    return query


def _check(query: StreamingQuery, form: str, work: Session) -> None:
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != work.records:
        raise RuntimeError(f"{form} has read {read} of {work.records} records")


def _stored(work: Session) -> int:
    """Where the topic's partitions end, all together."""
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
