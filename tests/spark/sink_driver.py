"""A separate driver, which a test may kill: it streams one topic into another exactly once.

    python -m tests.spark.sink_driver '{"servers": ..., "from": ..., "to": ..., "folder": ...,
        "crash": "committed"}'

`crash` names the point of `tests.spark.crashing` at which SIGKILL ends the whole driver, including
the JVM and workers; with None it runs to the end.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.spark.crashing import CrashingSink
from tools.spark import open_session

EPOCH = "60"  # records


def main(asked: dict[str, Any]) -> None:
    """Stream all available records, or crash as `asked`."""
    folder = Path(asked["folder"])
    servers = {"kafka.bootstrap.servers": asked["servers"]}
    written = {"topic": asked["to"], "deliveryGuarantee": "exactly_once"}
    if asked.get("crash"):
        once = folder / f"{asked['crash']}.crash"
        crash = {"crashat": asked["crash"], "crashonce": str(once)}
        written |= {**crash, "crashby": str(os.getpgrp())}
    read = {"subscribe": asked["from"], "startingOffsets": "earliest"}
    with open_session() as spark:
        spark.dataSource.register(CrashingSink)
        loaded = spark.readStream.format("kafka_lite").options(**servers, **read)
        frame = loaded.option("maxOffsetsPerTrigger", EPOCH).load().select("key", "value")
        writer = frame.writeStream.format("crashing_sink").options(**servers, **written)
        writer.trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
