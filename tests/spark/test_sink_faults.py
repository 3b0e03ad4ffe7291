"""Processes that may die while Spark writes: the driver with all its processes, and brokers.

SPARK_JUDGE=1 (`make spark-judge`) kills the driver at every step of a write.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.crashing import DRIVER_POINTS, TASK_POINTS, CrashingSink
from tests.spark.kinds import Kinds, numbered
from tests.spark.sunk import lines_of_text, stored
from tools.kafka import OwnCluster, RealKafka
from tools.spark.session import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE = 240.0  # seconds
JUDGED = os.environ.get("SPARK_JUDGE") == "1"
MOMENTS = [*TASK_POINTS, *DRIVER_POINTS]

Topics = Callable[..., str]


@pytest.mark.skipif(not JUDGED, reason="takes minutes: make spark-judge")
@pytest.mark.timeout(1800)
def test_a_killed_driver_writes_every_record_once(
    kafka: RealKafka, kinds: Kinds, topic: Topics, tmp_path: Path
) -> None:
    """Each driver but the last dies in its own epoch, or in the one that its predecessor left
    unfinished."""
    source, target = kinds.create("sunk", 3), topic(3)
    for partition in range(3):
        kinds.write(source, numbered(partition, 40 * (len(MOMENTS) + 2)))
    asked = {
        "servers": kinds.bootstrap_servers,
        "from": source,
        "to": target,
        "folder": str(tmp_path),
    }
    for moment in MOMENTS:
        assert run_driver({**asked, "crash": moment}, tmp_path) == -9, told(tmp_path)
    assert run_driver({**asked, "crash": ""}, tmp_path) == 0, told(tmp_path)
    wanted = {record.value for record in stored(kafka, source, 3)}
    counted = Counter(record.value for record in stored(kafka, target, 3))
    assert set(counted) == wanted
    assert set(counted.values()) == {1}


def run_driver(asked: dict[str, str], folder: Path) -> int:
    """Its exit status."""
    with (folder / "driver.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-m", "tests.spark.sink_driver", json.dumps(asked)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=PATIENCE,
            check=False,
        ).returncode


def told(folder: Path) -> str:
    """The last output lines of the drivers."""
    return (folder / "driver.log").read_text()[-3000:]


@pytest.mark.timeout(600)
@pytest.mark.long
def test_brokers_are_killed_in_a_write(
    spark: "SparkSession", kafka3: OwnCluster, topic3: Topics, tmp_path: Path
) -> None:
    """Two concurrent streams, one per guarantee, while two brokers die and restart."""
    spark.dataSource.register(CrashingSink)
    topics = {"at_least_once": topic3(6), "exactly_once": topic3(6)}
    queries = {}
    for guarantee, name in topics.items():
        (tmp_path / guarantee).mkdir()
        queries[guarantee] = started(spark, kafka3, tmp_path / guarantee, name, guarantee)
    killing = threading.Thread(target=kill_some, args=(kafka3, queries["exactly_once"]))
    killing.start()
    try:
        for guarantee, query in queries.items():
            assert query.awaitTermination(int(PATIENCE)), guarantee
            assert query.exception() is None
    finally:
        for query in queries.values():
            query.stop()
        killing.join(PATIENCE)
    for guarantee, name in topics.items():
        counted = Counter(record.value for record in stored(kafka3, name, 6))
        assert set(counted) == {b"%s %d" % (name.encode(), number) for number in range(4_000)}
        if guarantee == "exactly_once":
            assert set(counted.values()) == {1}


def started(
    spark: "SparkSession", kafka: OwnCluster, folder: Path, name: str, guarantee: str
) -> "StreamingQuery":
    frame = lines_of_text(spark, folder, files=16, lines=250, prefix=name)
    return (
        frame.writeStream.format("crashing_sink")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(topic=name, deliveryGuarantee=guarantee)
        .trigger(availableNow=True)
        .start()
    )


def kill_some(kafka: OwnCluster, query: "StreamingQuery") -> None:
    """Kill two brokers, one after the other, each after one more epoch has completed."""
    for number, node in enumerate(kafka.node_ids[:2]):
        deadline = time.monotonic() + PATIENCE
        while query.isActive and len(query.recentProgress) <= number:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kafka.kill(node)
        kafka.start(node)
