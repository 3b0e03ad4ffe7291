"""A separate driver, which a test may kill: it streams a topic into a folder.

    python -m tests.spark.stream_driver '{"options": {...}, "folder": ..., "kill": [1, "after"]}'

Each micro-batch leaves a file with the places of its records. `kill` names the batch and the moment
at which SIGKILL ends the whole driver, including the JVM: "before" its records are read, "within"
their reading, or "after" they were stored.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.spark import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITHIN = 0.05  # seconds from the beginning of the reading


def _die() -> None:
    os.killpg(0, signal.SIGKILL)


def main(asked: dict[str, Any]) -> None:
    """Stream all available records, or crash as `asked`."""
    folder = Path(asked["folder"])
    batch, moment = asked.get("kill") or (-1, "")
    (folder / "found").mkdir(parents=True, exist_ok=True)

    def take(frame: "DataFrame", number: int) -> None:
        if number == batch and moment == "before":
            _die()
        if number == batch and moment == "within":
            threading.Timer(WITHIN, _die).start()
        rows = frame.select("partition", "offset").collect()
        found = folder / "found" / f"{number}-{os.getpid()}.json"
        found.with_suffix(".half").write_text(json.dumps(sorted(map(tuple, rows))))
        found.with_suffix(".half").rename(found)
        if number == batch:
            _die()

    with open_session() as spark:
        loaded = spark.readStream.format("kafka_lite").options(**asked["options"]).load()
        writer = loaded.writeStream.foreachBatch(take).trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
