"""Exactly once on a real Spark and a real Kafka: crashes at every step; Java verifies the result.

Each crash has its own stream, checkpoint and topic. Spark retries a task that crashes; a query that
fails is restarted, and replays its epoch. At the end Java's console consumer reads all topics
together: every value must appear once.

SPARK_JUDGE=1 (`make spark-judge`) crashes in more ways.
"""

import os
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.crashing import DRIVER_POINTS, TASK_POINTS, CrashingSink
from tests.spark.sunk import PATIENCE, lines_of_text, stored, write_stream
from tools.kafka import RealKafka
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
QUIET_MS = 15_000
"""Seconds without a record after which the console consumer assumes that there are no more."""
WAYS = ["raise", "kill"] if os.environ.get("SPARK_JUDGE") == "1" else ["kill"]
IN_SHORT = {"first rows sent", "mark sent", "committed"}
"""The points at which a task crashes in `make test`; `make test-long` has the others."""
FILES, LINES = 4, 200
RUNS = 4

Topics = Callable[..., str]


@pytest.fixture
def spark(spark: "SparkSession") -> "SparkSession":
    spark.dataSource.register(CrashingSink)
    return spark


@pytest.fixture(scope="module")
def prefix() -> str:
    """The prefix of the names of all topics that Java verifies."""
    return f"judged-{uuid.uuid4().hex[:8]}"


def exactly_once(
    spark: "SparkSession", kafka: RealKafka, folder: Path, name: str, **crash: str
) -> int:
    """Write a stream of FILES * LINES values, restarting its query whenever it fails; return the
    number of restarts."""
    kafka.create_topic(name, 3, None, {})
    frame = lines_of_text(spark, folder, files=FILES, lines=LINES, prefix=name)
    frame = frame.selectExpr("value", "substring(value, -1) as key")
    options = {"topic": name, "deliveryGuarantee": "exactly_once", **crash}
    for failed in range(RUNS):
        try:
            write_stream(frame, kafka, folder, **options)
        except Exception as error:
            if "Crashed" not in str(error):
                raise
        else:
            return failed
    raise AssertionError(f"the query failed {RUNS} times")


def wanted(name: str) -> list[bytes]:
    return sorted(b"%s %d" % (name.encode(), number) for number in range(FILES * LINES))


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize(
    "at",
    [pytest.param(at, marks=[] if at in IN_SHORT else [pytest.mark.long]) for at in TASK_POINTS],
)
def test_a_task_crashes(
    spark: "SparkSession", kafka: RealKafka, prefix: str, tmp_path: Path, at: str, by: str
) -> None:
    name = f"{prefix}-{at.replace(' ', '-')}-{by}"
    once = tmp_path / "once"
    exactly_once(spark, kafka, tmp_path, name, crashat=at, crashby=by, crashonce=str(once))
    assert once.exists(), "nothing crashed"
    assert sorted(record.value for record in stored(kafka, name, 3)) == wanted(name)


@pytest.mark.parametrize("at", DRIVER_POINTS)
def test_the_driver_crashes_in_its_commit(
    spark: "SparkSession", kafka: RealKafka, prefix: str, tmp_path: Path, at: str
) -> None:
    name = f"{prefix}-driver-{at.replace(' ', '-')}"
    once = tmp_path / "once"
    failed = exactly_once(spark, kafka, tmp_path, name, crashat=at, crashonce=str(once))
    assert failed == 1, "an epoch has to be replayed"
    assert sorted(record.value for record in stored(kafka, name, 3)) == wanted(name)


def test_without_it_a_replay_doubles(
    spark: "SparkSession", kafka: RealKafka, tmp_path: Path, topic: Topics
) -> None:
    """The crash matters: without the marks, a replay writes duplicates."""
    name = topic(3)
    frame = lines_of_text(spark, tmp_path, files=2, lines=LINES, prefix=name)
    crash: dict[str, Any] = {"crashat": DRIVER_POINTS[0], "crashonce": str(tmp_path / "once")}
    with pytest.raises(Exception, match="Crashed"):
        write_stream(frame, kafka, tmp_path, topic=name, **crash)
    write_stream(frame, kafka, tmp_path, topic=name, **crash)
    counted = Counter(record.value for record in stored(kafka, name, 3))
    assert set(counted.values()) == {2}


def test_replayed_epoch_with_other_rows_raises(
    spark: "SparkSession", kafka: RealKafka, tmp_path: Path, topic: Topics
) -> None:
    """Random rows break the guarantee: this is reported, and nothing is written twice."""
    name = topic(3)
    frame = lines_of_text(spark, tmp_path, files=2, lines=LINES, prefix=name)
    frame = frame.selectExpr("concat(value, uuid()) as value")
    crash: dict[str, Any] = {"crashat": DRIVER_POINTS[0], "crashonce": str(tmp_path / "once")}
    options = {"topic": name, "deliveryGuarantee": "exactly_once", **crash}
    with pytest.raises(Exception, match="Crashed"):
        write_stream(frame, kafka, tmp_path, **options)
    with pytest.raises(Exception, match="a replayed epoch must have the same rows"):
        write_stream(frame, kafka, tmp_path, **options)
    assert len(stored(kafka, name, 3)) == 2 * LINES


def test_replayed_epoch_with_other_tasks_raises(
    spark: "SparkSession", kafka: RealKafka, tmp_path: Path, topic: Topics
) -> None:
    """Two tasks write it, and one with different rows from either replays it."""
    name = topic(3)
    frame = lines_of_text(spark, tmp_path, files=2, lines=LINES, prefix=name)
    crash: dict[str, Any] = {"crashat": DRIVER_POINTS[0], "crashonce": str(tmp_path / "once")}
    options = {"topic": name, "deliveryGuarantee": "exactly_once", **crash}
    with pytest.raises(Exception, match="Crashed"):
        write_stream(frame, kafka, tmp_path, **options)
    with pytest.raises(Exception, match="a replayed epoch must have the same rows"):
        write_stream(frame.coalesce(1), kafka, tmp_path, **options)
    assert len(stored(kafka, name, 3)) == 2 * LINES


def test_a_batch_write_under_a_name(spark: "SparkSession", kafka: RealKafka, prefix: str) -> None:
    name = f"{prefix}-batch"
    kafka.create_topic(name, 3, None, {})
    frame = spark.range(0, FILES * LINES, 1, 2).selectExpr(f"concat('{name} ', id) as value")

    def write(write_id: str) -> None:
        frame.write.format("crashing_sink").options(
            **{
                "kafka.bootstrap.servers": kafka.bootstrap_servers,
                "topic": name,
                "deliveryGuarantee": "exactly_once",
                "writeId": write_id,
            }
        ).mode("append").save()

    write(f"{prefix}-1")
    write(f"{prefix}-1")
    assert sorted(record.value for record in stored(kafka, name, 3)) == wanted(name)


def test_foreach_batch_under_a_name(
    spark: "SparkSession", kafka: RealKafka, prefix: str, tmp_path: Path
) -> None:
    """It fails once its first epoch is written, and is restarted."""
    name = f"{prefix}-foreach"
    kafka.create_topic(name, 3, None, {})
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "topic": name,
        "deliveryGuarantee": "exactly_once",
        "writeId": "each",
    }
    epochs: list[int] = []

    def take(frame: Any, epoch: int) -> None:
        frame.write.format("crashing_sink").options(**options).mode("append").save()
        epochs.append(epoch)
        if epochs == [0]:
            raise RuntimeError("Crashed")

    frame = lines_of_text(spark, tmp_path, files=FILES, lines=LINES, prefix=name)
    writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="Crashed"):
        writer.start().awaitTermination(PATIENCE)
    assert writer.start().awaitTermination(PATIENCE)
    assert epochs == [0, 0, 1]
    assert sorted(record.value for record in stored(kafka, name, 3)) == wanted(name)


def test_foreach_batch_writes_two_topics_under_one_name(
    spark: "SparkSession", kafka: RealKafka, prefix: str, tmp_path: Path
) -> None:
    """It fails once both are written, and again between the two; then it is restarted."""
    names = [f"{prefix}-fan-{number}" for number in range(2)]
    for name in names:
        kafka.create_topic(name, 3, None, {})
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "deliveryGuarantee": "exactly_once",
        "writeId": "fan-out",
    }
    done: list[tuple[int, str]] = []

    def take(frame: Any, epoch: int) -> None:
        for name in names:
            rows = frame.selectExpr(f"concat('{name} ', value) as value").write
            rows.format("crashing_sink").options(**options, topic=name).mode("append").save()
            done.append((epoch, name))
            if len(done) in (2, 5):
                raise RuntimeError("Crashed")

    source = tmp_path / "in"
    source.mkdir()
    for file in range(FILES):
        numbers = range(file * LINES, (file + 1) * LINES)
        (source / f"{file}.txt").write_text("".join(f"{number}\n" for number in numbers))
    frame = spark.readStream.format("text").option("maxFilesPerTrigger", 2).load(str(source))
    writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        with pytest.raises(Exception, match="Crashed"):
            writer.start().awaitTermination(PATIENCE)
    assert writer.start().awaitTermination(PATIENCE)
    assert [epoch for epoch, _ in done] == [0, 0, 0, 0, 1, 1, 1]
    for name in names:
        assert sorted(record.value for record in stored(kafka, name, 3)) == wanted(name)


def test_java_sees_every_value_once(spark: "SparkSession", kafka: RealKafka, prefix: str) -> None:
    """The console consumer reads all topics of the earlier tests with read_committed."""
    arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--include", f"{prefix}-.*"]
    arguments += ["--from-beginning", "--isolation-level", "read_committed"]
    lines = run(CONSOLE, [*arguments, "--timeout-ms", str(QUIET_MS)], FALLBACK, timeout=240)
    counted = Counter(line for line in lines if line.startswith(prefix))
    topics = {line.split(" ")[0] for line in counted}
    assert topics, "no test before this one has written"
    assert {value: count for value, count in counted.items() if count != 1} == {}
    assert len(counted) == len(topics) * FILES * LINES
