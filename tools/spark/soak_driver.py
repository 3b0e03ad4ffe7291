"""The driver of one run of `tools.spark.soak`: streams a topic and records what it delivered.

    python -m tools.spark.soak_driver '{"options": {...}, "folder": ..., "heap": "1g", ...}'

Each attempt of a micro-batch leaves a file `found/QUERY-BATCH-PID.json`: for each partition the
number of records, the first and the last offset, and the sum of the offsets.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.spark.jars import connector
from tools.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(given: dict[str, Any]) -> None:
    """Run the queries one after the other in one session."""
    folder = Path(given["folder"])
    (folder / "found").mkdir(exist_ok=True)
    with open_session(
        given["master"],
        heap=given["heap"],
        quick=given["quick"],
        jars=connector() if given["connector"] else (),
        settings={"spark.python.worker.faulthandler.enabled": "true"},
        jvm_options=[f"-XX:ErrorFile={folder}/hs_err_%p.log"],
    ) as spark:
        spark.sparkContext.setLogLevel("WARN")
        for number in range(given["queries"]):
            form = "kafka" if given["connector"] and number % 2 else "kafka_lite"
            _stream(spark, form, given["options"], folder, number)


def _stream(
    spark: SparkSession, form: str, options: dict[str, str], folder: Path, query: int
) -> None:
    def take(frame: DataFrame, batch: int) -> None:
        columns = ("count(offset)", "min(offset)", "max(offset)", "sum(offset)")
        rows = frame.groupBy("partition").agg(
            *(_expression(f"{column} AS c{at}") for at, column in enumerate(columns))
        )
        facts = {str(row[0]): tuple(row)[1:] for row in rows.collect()}
        target = folder / "found" / f"{query}-{batch}-{os.getpid()}.json"
        target.with_suffix(".half").write_text(json.dumps(facts))
        target.with_suffix(".half").rename(target)

    writer = spark.readStream.format(form).options(**options).load().writeStream
    writer = writer.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / f"log-{query}")).start().awaitTermination()


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
