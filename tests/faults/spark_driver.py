"""The driver of the Spark lane: copies a topic to another exactly once, until a file appears.

    python -m tests.faults.spark_driver '{"bootstrap": ..., "source": ..., "sink": ..., ...}'

The rows that it writes name the partition and the offset that they were read from. It leaves a file
for each micro-batch that ended, and ends cleanly when the file `end` appears in its folder.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tools.spark.session import open_session

__all__ = ["END"]

END = "end"
LOOK = 0.5  # seconds between two checks for the file
AT_ONCE = 5_000  # records of a micro-batch


def main(given: dict[str, Any]) -> None:
    """Run the stream until the file appears, or the stream fails."""
    folder = Path(given["folder"])
    settings = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
    with open_session("local[2,4]", heap="512m", settings=settings) as spark:
        rows = (
            spark.readStream.format("kafka_lite")
            .option("kafka.bootstrap.servers", given["bootstrap"])
            .option("subscribe", given["source"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(AT_ONCE))
            .load()
        )
        stream = (
            rows.selectExpr("concat_ws(' ', partition, offset, value) AS value")
            .writeStream.format("kafka_lite")
            .option("kafka.bootstrap.servers", given["bootstrap"])
            .option("kafka.transaction.timeout.ms", "60000")
            .option("topic", given["sink"])
            .option("deliveryGuarantee", "exactly_once")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="2 seconds")
            .start()
        )
        while not stream.awaitTermination(LOOK):
            progress = stream.lastProgress
            if progress is not None:
                (folder / "batches").mkdir(exist_ok=True)
                (folder / "batches" / f"{progress.batchId}").touch()
            if (folder / END).exists():
                stream.stop()
                break
            time.sleep(LOOK)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
