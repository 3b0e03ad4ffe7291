"""Makes the class archive (CDS) that lets Spark's tests start faster: `python -m tools.spark`.

It takes half a minute, which pays off on a machine that runs the tests more than once.

`python -m tools.spark soak` reads long streams repeatedly; see `soak`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka.jars import KafkaNotAvailable, lock
from tools.spark.jars import connector
from tools.spark.session import archive, missing, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main() -> int:
    """Run a batch and a stream; the JVM archives its loaded classes when it ends."""
    reason = missing()
    if reason is not None:
        print(f"tools.spark: {reason}", file=sys.stderr)
        return 1
    try:
        jars = connector()
    except KafkaNotAvailable:
        jars = []  # tests that need the connector are skipped; others run without it
    target, began = archive(jars), time.monotonic()
    half = target.with_suffix(".half")
    with lock("spark"):
        half.unlink(missing_ok=True)
        with (
            tempfile.TemporaryDirectory() as folder,
            open_session(
                jars=jars, jvm_options=[f"-XX:ArchiveClassesAtExit={half}", "-Xlog:disable"]
            ) as spark,
        ):
            _use(spark, Path(folder))
        half.rename(target)
    print(f"{target}: {target.stat().st_size >> 20} MB in {time.monotonic() - began:.0f} s")
    return 0


def _use(spark: SparkSession, folder: Path) -> None:
    """Run the operations that most sessions use."""
    numbers = spark.range(100).selectExpr("id % 7 AS key", "id", "string(id) AS text")
    numbers.groupBy("key").agg({"id": "sum", "text": "max"}).orderBy("key").collect()
    numbers.mapInArrow(lambda batches: batches, numbers.schema).write.parquet(f"{folder}/numbers")
    spark.read.parquet(f"{folder}/numbers").createOrReplaceTempView("numbers")
    spark.sql("SELECT count(*), sum(length(text)) FROM numbers WHERE id > 5").collect()
    stream = spark.readStream.schema(numbers.schema).parquet(f"{folder}/numbers")
    writer = stream.writeStream.option("checkpointLocation", f"{folder}/log")
    query = writer.trigger(availableNow=True).foreachBatch(_count).start()
    query.awaitTermination()


def _count(frame: DataFrame, _number: int) -> None:
    frame.count()


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        from tools.spark import soak

        sys.exit(soak.main(sys.argv[2:]))
    sys.exit(main())
