"""Processes that may die while Spark reads: the driver, a Python worker, the stream's own process,
a broker.

SPARK_JUDGE=1 (`make spark-judge`) kills the driver at more moments.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.spark.beside import OURS, options_of, read, stream
from tests.spark.kinds import Kinds, numbered
from tests.spark.processes import jvm, kill, stream_sources, workers
from tools.kafka import OwnCluster
from tools.spark.session import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PATIENCE = 400.0  # seconds
JUDGED = os.environ.get("SPARK_JUDGE") == "1"
MOMENTS: list[tuple[int, str]] = [(0, "before"), (1, "after")]
if JUDGED:
    MOMENTS = [
        *((0, moment) for moment in ("before", "within", "after")),
        *((1, moment) for moment in ("before", "within", "after")),
        *((5, moment) for moment in ("before", "within", "after")),
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(MOMENTS[:1], id="in the first batch"),
        pytest.param(MOMENTS, id="again and again", marks=pytest.mark.long),
    ],
)
def test_a_killed_driver_loses_and_doubles_nothing(
    kinds: Kinds, tmp_path: Path, moments: list[tuple[int, str]]
) -> None:
    """Starts at the end of the topic. Everything written since the first start, including the
    batch in which the driver died, comes out once per batch number, whenever it died."""
    topic = kinds.create("killed", 3)
    kinds.write(topic, numbered(0, 25))  # not to be read
    options = options_of(kinds.bootstrap_servers, topic, {"maxOffsetsPerTrigger": "40"})
    asked: dict[str, Any] = {"options": options, "folder": str(tmp_path)}
    wanted = set()
    for turn, moment in enumerate(moments):
        assert run_driver({**asked, "kill": moment}, tmp_path) == -9, moment
        for partition in range(3):
            first = 20 * turn + (25 if partition == 0 else 0)
            kinds.write(topic, numbered(partition, 20, first))
            wanted.update((partition, offset) for offset in range(first, first + 20))
    assert run_driver(asked, tmp_path) == 0, (tmp_path / "driver.log").read_text()[-3000:]

    by_batch: dict[int, set[tuple[tuple[int, int], ...]]] = {}
    for found in (tmp_path / "found").glob("*.json"):
        number = int(found.stem.partition("-")[0])
        by_batch.setdefault(number, set()).add(tuple(map(tuple, json.loads(found.read_text()))))
    assert all(len(contents) == 1 for contents in by_batch.values())  # replayed as it was
    places = [place for contents in by_batch.values() for each in contents for place in each]
    assert len(places) == len(set(places))
    assert set(places) == wanted


def run_driver(asked: dict[str, Any], folder: Path) -> int:
    """Its exit status."""
    with (folder / "driver.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-m", "tests.spark.stream_driver", json.dumps(asked)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},  # for the files that a killed driver leaves
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=PATIENCE,
            check=False,
        ).returncode


def test_a_killed_worker_is_replaced(spark: "SparkSession", kinds: Kinds) -> None:
    topic, count = kinds.create("worked", 6), 1_200_000
    kinds.fill(topic, 6, count // 6)
    frame = read(spark, OURS, options_of(kinds.bootstrap_servers, topic, {}))
    killed: list[int] = []

    def kill_one() -> bool:
        for pid in workers(jvm()):
            # A worker that is reading: it has further threads, those of the client.
            if threads(pid) > 1 and kill(pid):
                killed.append(pid)
                return True
        return False

    before = {row[0] for row in frame.selectExpr("max(offset)").collect()}  # workers are warm
    until = time.monotonic() + PATIENCE
    while not killed:  # a read may end before one of its workers is observed
        assert time.monotonic() < until, "no read lasted until one of its workers was killed"
        row = asked_while(lambda: totals(frame), kill_one)
    assert before == {row["last"]} == {count // 6 - 1}
    assert (row["records"], row["bytes"]) == (count, count * 100)


def test_the_streams_own_process_is_killed(
    spark: "SparkSession", kinds: Kinds, tmp_path: Path
) -> None:
    """The query fails, and continues from its checkpoint after a restart."""
    from pyspark.errors import StreamingQueryException

    topic = kinds.create("sourced", 2)
    kinds.write(topic, numbered(0, 30))
    options = options_of(kinds.bootstrap_servers, topic, {"startingOffsets": "earliest"})
    frame = spark.readStream.format(OURS).options(**options).load()
    batches: dict[int, list[tuple[int, int]]] = {}

    def take(batch: "DataFrame", number: int) -> None:
        batches[number] = [(row.partition, row.offset) for row in batch.collect()]

    writer = frame.writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    others = stream_sources(jvm())
    query = writer.start()
    try:
        query.processAllAvailable()
        (source,) = set(stream_sources(jvm())).difference(others)
        assert kill(source)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(int(PATIENCE))
    finally:
        query.stop()
    kinds.write(topic, numbered(1, 10))
    assert writer.trigger(availableNow=True).start().awaitTermination(int(PATIENCE))
    assert sorted(place for places in batches.values() for place in places) == [
        *((0, offset) for offset in range(30)),
        *((1, offset) for offset in range(10)),
    ]


@pytest.mark.parametrize(
    "restarted",
    [
        pytest.param(True, id="a restart"),
        pytest.param(False, id="the same run", marks=pytest.mark.long),
    ],
)
def test_a_pattern_stream_continues_after_all_its_topics_were_deleted(
    spark: "SparkSession", tmp_path: Path, restarted: bool
) -> None:
    """The topic is recreated while the query waits, or is stopped: all of it is read, although
    new queries begin at the latest offset."""
    with FakeCluster(1, {"wiped": 1}) as cluster:
        told = {"subscribePattern": "wiped.*", "failOnDataLoss": "false"}
        options = {**options_of(cluster.bootstrap_servers, "", told), **QUICK_OFFSETS}
        fill(cluster, 5)
        checkpoint = tmp_path / "checkpoint"
        assert stream(spark, OURS, options, checkpoint).rows == []
        fill(cluster, 5)
        assert len(stream(spark, OURS, options, checkpoint).rows) == 5
        cluster.delete_topic("wiped")
        found: list[tuple[int, int]] = []

        def take(batch: "DataFrame", _number: int) -> None:
            found.extend((row.partition, row.offset) for row in batch.collect())

        frame = spark.readStream.format(OURS).options(**options).load()
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = writer.trigger(processingTime="1 hour" if restarted else "10 seconds").start()
        try:
            wait_until(lambda: committed_end(checkpoint) == "{}")
            if restarted:
                query.stop()
            cluster.create_topic("wiped", 1)
            fill(cluster, 10)
            if restarted:
                query = writer.trigger(availableNow=True).start()
                assert query.awaitTermination(int(PATIENCE))
            else:
                wait_until(lambda: len(found) >= 10)
        finally:
            query.stop()
        assert sorted(found) == [(0, offset) for offset in range(10)]


QUICK_OFFSETS = {"fetchOffset.retryIntervalMs": "50"}


def fill(cluster: FakeCluster, count: int) -> None:
    for _ in range(count):
        cluster.produce("wiped", b"v", partition=0)


def committed_end(checkpoint: Path) -> str:
    """The end of the last committed micro-batch, according to the checkpoint."""
    newest = max((int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")), default=0)
    return (checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1]


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.1)


def threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except FileNotFoundError:
        return 0


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_broker_is_killed_in_a_read(spark: "SparkSession", kafka3: OwnCluster) -> None:
    kinds = Kinds(kafka3)
    topic, count = kinds.create("broken", 6), 600_000
    kinds.fill(topic, 6, count // 6)
    options = options_of(kafka3.bootstrap_servers, topic, {"kafka.fetch.max.bytes": "100000"})
    frame = read(spark, OURS, options)
    victims = iter(kafka3.node_ids)

    def kill_one() -> bool:
        kafka3.kill(next(victims))
        return True

    try:
        row = asked_while(lambda: totals(frame), kill_one)
    finally:
        kafka3.start(kafka3.node_ids[0])
    assert (row["records"], row["bytes"]) == (count, count * 100)
    assert row["last"] == count // 6 - 1


def totals(frame: Any) -> "Row":
    row: Row = frame.selectExpr(
        "count(*) AS records", "sum(length(value)) AS bytes", "max(offset) AS last"
    ).collect()[0]
    return row


def asked_while(ask: "Callable[[], Row]", act: Callable[[], bool]) -> "Row":
    """Run the request in a thread, and repeat `act` until it has had its effect; return the
    answer."""
    answers: list[Row] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # raised in the test's own thread
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while thread.is_alive() and not act() and time.monotonic() < deadline:
        time.sleep(0.005)
    thread.join(PATIENCE)
    if errors:
        raise errors[0]
    assert answers, "the query has not ended"
    return answers[0]
