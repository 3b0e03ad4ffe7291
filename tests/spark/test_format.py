"""The format kafka_lite in a real session: what cannot be compared with Spark's own connector."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.beside import OURS, options_of, read, rows_of, stream
from tests.spark.kinds import START, STEP, Kinds, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushes_down(spark: "SparkSession") -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize(
    "condition",
    [
        "partition = 1 AND offset BETWEEN 5 AND 8",
        "partition IN (0, 3) AND offset > 70",
        f"timestamp >= timestamp_millis({START + 60 * STEP})",
        "topic = 'another'",
        "topic LIKE 'kinds%' AND partition < 1 AND NOT offset = 3",
    ],
)
def test_filters_that_are_pushed_down_change_no_row(
    spark: "SparkSession", kinds: Kinds, pushes_down: None, condition: str
) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, {})
    narrowed = rows_of(read(spark, OURS, {**given, "pushdown": "true"}).where(condition))
    assert narrowed == rows_of(read(spark, OURS, given).where(condition))


def test_a_query_without_the_switch_raises_an_error_that_names_it(
    spark: "SparkSession", kinds: Kinds
) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, {"pushdown": "true"})
    with pytest.raises(Exception, match="filterPushdown"):
        read(spark, OURS, given).collect()


def test_a_schema_of_the_users_own_is_refused(spark: "SparkSession", kinds: Kinds) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, {})
    with pytest.raises(Exception, match="Kafka source has a fixed schema"):
        spark.read.format(OURS).schema("value STRING").options(**given).load().collect()


def test_one_micro_batch_takes_all_there_is(
    spark: "SparkSession", kinds: Kinds, tmp_path: Path
) -> None:
    """Trigger.Once: deprecated, and its first micro-batch must not be an empty one."""
    topic = kinds.create("once", 2)
    kinds.write(topic, [*numbered(0, 30), *numbered(1, 10)])
    given = options_of(
        kinds.bootstrap_servers, topic, {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"}
    )
    seen: list[int] = []
    for more in (0, 5, 0):
        kinds.write(topic, numbered(1, more, 10))
        loaded = spark.readStream.format(OURS).options(**given).load()
        writer = loaded.writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(once=True).start()
        assert query.awaitTermination(200)
    assert seen == [40, 5]


def test_a_query_keeps_its_place_when_it_moves(
    spark: "SparkSession", connector: str, kinds: Kinds, tmp_path: Path
) -> None:
    """This package can use a checkpoint of Spark's own connector: its offsets are the same JSON."""
    topic = kinds.create("moved", 2)
    given = options_of(kinds.bootstrap_servers, topic, {"startingOffsets": "earliest"})
    kinds.write(topic, numbered(0, 12))
    assert len(stream(spark, connector, given, tmp_path).rows) == 12
    kinds.write(topic, [*numbered(0, 3, 12), *numbered(1, 4)])
    rows = stream(spark, OURS, given, tmp_path).rows
    assert [row[3:5] for row in rows] == [(0, 12), (0, 13), (0, 14), *((1, n) for n in range(4))]


def test_few_records_are_read_by_few_tasks(spark: "SparkSession", kinds: Kinds) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, {})
    for options, tasks in ({}, 1), ({"maxTasks": "3"}, 3), ({"minPartitions": "2"}, 4):
        assert read(spark, OURS, {**given, **options}).rdd.getNumPartitions() == tasks
