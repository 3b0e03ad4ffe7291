"""Runs the same query with both formats in one session: this package's and Spark's own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "kafka_lite"
PATIENCE = 400  # seconds one query may take

Options = Mapping[str, str]
Place = dict[str, dict[str, int]]
"""Topic to partition to offset, as Spark's JSON has it."""

PLACE = ("topic", "partition", "offset")


def options_of(bootstrap: str, topic: str, options: Options) -> dict[str, str]:
    """`options` for that broker; TOPIC in a value is the topic's name.

    The topic is subscribed to unless the options choose otherwise.
    """
    chosen = {"subscribe", "subscribePattern", "assign"} & options.keys()
    given = {"kafka.bootstrap.servers": bootstrap}
    if not chosen:
        given["subscribe"] = topic
    given.update((name, value.replace("TOPIC", topic)) for name, value in options.items())
    return given


def read(spark: "SparkSession", form: str, options: Options) -> "DataFrame":
    """A batch read in that format."""
    return spark.read.format(form).options(**options).load()


def rows_of(frame: "DataFrame") -> list[tuple[Any, ...]]:
    """All rows as comparable values, sorted by topic, partition and offset if they have these."""
    names = frame.columns
    by = [names.index(name) for name in PLACE if name in names]
    rows = [tuple(map(_plain, row)) for row in frame.collect()]
    return sorted(rows, key=lambda row: [row[index] for index in by])


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [tuple(map(_plain, each)) for each in value]
    return value


@dataclass
class Streamed:
    """The results of a streaming query.

    Attributes:
        rows: All rows of the output, by topic, partition and offset.
        batches: Where each of its micro-batches began (nothing for a query's first) and ended.
    """

    rows: list[tuple[Any, ...]]
    batches: list[tuple[Place, Place]] = field(default_factory=list)


def stream(spark: "SparkSession", form: str, options: Options, checkpoint: Path) -> Streamed:
    """Stream all available records, starting at the checkpoint."""
    found: list[tuple[Any, ...]] = []

    def take(frame: "DataFrame", _number: int) -> None:
        found.extend(rows_of(frame))

    loaded = spark.readStream.format(form).options(**options).load()
    writer = loaded.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        if not query.awaitTermination(PATIENCE):
            raise TimeoutError(f"a query was not done in {PATIENCE} s: {query.lastProgress}")
    finally:
        query.stop()
    batches = []
    for progress in query.recentProgress:
        source = progress["sources"][0]
        start, end = _place(source["startOffset"]), _place(source["endOffset"])
        if start != end:
            batches.append((start, end))
    by = [loaded.columns.index(name) for name in PLACE]
    return Streamed(sorted(found, key=lambda row: [row[index] for index in by]), batches)


def _place(told: Any) -> Place:
    """Return an offset of a query's progress, which is JSON or parsed, depending on the version."""
    place: Place = (json.loads(told) if isinstance(told, str) else told) or {}
    return {
        topic: {partition: int(offset) for partition, offset in partitions.items()}
        for topic, partitions in place.items()
        if topic and partitions  # no topic: where the query began, in this package's format
    }
