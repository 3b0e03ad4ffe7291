"""Writes from a real Spark to a real Kafka: at least once, the common case, and errors."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.crashing import CrashingSink
from tests.spark.sunk import lines_of_text, stored, write_stream
from tools.kafka import RealKafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Topics = Callable[..., str]


@pytest.fixture
def spark(spark: "SparkSession") -> "SparkSession":
    spark.dataSource.register(CrashingSink)
    return spark


def write(frame: "DataFrame", kafka: RealKafka, **options: str) -> None:
    told = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
    frame.write.format("crashing_sink").options(**told).mode("append").save()


def test_a_data_frame(spark: "SparkSession", kafka: RealKafka, topic: Topics) -> None:
    name = topic(3)
    frame = spark.range(0, 25_000, 1, 4).selectExpr(
        "cast(id % 100 as string) as key", "cast(id as string) as value"
    )
    readers = {"startingOffsets": "earliest", "subscribe": "x", "includeHeaders": "true"}
    write(frame, kafka, topic=name, **readers)  # which a job may have in its one set of options
    found = stored(kafka, name, 3)
    assert sorted(int(record.value) for record in found) == list(range(25_000))
    places: dict[bytes, set[int]] = {}
    for record in found:
        places.setdefault(record.key, set()).add(record.partition)
    assert len(places) == 100
    assert {len(each) for each in places.values()} == {1}, "a key has one partition"


def test_every_column(spark: "SparkSession", kafka: RealKafka, topic: Topics) -> None:
    one, other = topic(2), topic(2)
    rows = [
        (one, 1, None, b"a", [("h", b"1"), ("h", None)]),
        (other, 0, "k", None, None),
        (one, None, "k", b"", []),
    ]
    columns = (
        "topic string, partition int, key string, value binary, "
        "headers array<struct<key: string, value: binary>>"
    )
    frame = spark.createDataFrame(rows, columns)
    write(frame.coalesce(1), kafka)
    by_value = {record.value: record for record in stored(kafka, one, 2)}
    assert by_value[b"a"].partition == 1
    assert by_value[b"a"].headers == (("h", b"1"), ("h", None))
    assert (by_value[b""].key, by_value[b""].headers) == (b"k", ())
    (record,) = stored(kafka, other, 2)
    assert (record.partition, record.key, record.value) == (0, b"k", None)


def test_the_option_wins_over_the_column(
    spark: "SparkSession", kafka: RealKafka, topic: Topics
) -> None:
    one, other = topic(1), topic(1)
    frame = spark.createDataFrame([(one, "a")], "topic string, value string")
    write(frame, kafka, topic=other)
    assert [record.value for record in stored(kafka, other, 1)] == [b"a"]
    assert stored(kafka, one, 1) == []


def test_an_empty_data_frame(spark: "SparkSession", kafka: RealKafka, topic: Topics) -> None:
    name = topic(1)
    write(spark.createDataFrame([], "value string"), kafka, topic=name)
    write(
        spark.createDataFrame([], "value string"),
        kafka,
        topic=name,
        deliveryGuarantee="exactly_once",
    )
    assert stored(kafka, name, 1) == []


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("value string", {}, "topic option required when no 'topic' attribute is present"),
        ("key string, topic string", {}, "Required attribute 'value' not found"),
        ("value int", {"topic": "x"}, "value attribute type must be a string or binary, not int"),
        ("value string", {"topic": "x", "kafka.acks": "2"}, "acks"),
        ("value string", {"topic": "x", "kafka.key.serializer": "y"}, "key.serializer"),
        ("value string", {"topic": "x", "kafka.batch.size": "many"}, "batch.size"),
        (
            "value string",
            {
                "topic": "x",
                "deliveryGuarantee": "exactly_once",
                "kafka.enable.idempotence": "false",
            },
            "transactional_id. requires idempotence",
        ),
        ("value string", {"topic": "x", "delivery": "y"}, "delivery is not an option of the"),
    ],
)
def test_what_is_refused(
    spark: "SparkSession", kafka: RealKafka, columns: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.createDataFrame([], columns), kafka, **options)


def test_overwriting_is_refused(spark: "SparkSession", kafka: RealKafka) -> None:
    frame = spark.createDataFrame([], "value string").write.format("crashing_sink")
    told = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "x"}
    with pytest.raises(Exception, match="Save mode overwrite not allowed for Kafka"):
        frame.options(**told).mode("overwrite").save()


def test_a_null_topic_in_the_data(spark: "SparkSession", kafka: RealKafka) -> None:
    frame = spark.createDataFrame([(None, "a")], "topic string, value string")
    with pytest.raises(Exception, match="null topic present in the data"):
        write(frame, kafka)


def test_a_stream(spark: "SparkSession", kafka: RealKafka, topic: Topics, tmp_path: Path) -> None:
    name = topic(3)
    frame = lines_of_text(spark, tmp_path, files=4, lines=250, prefix="n")
    query = write_stream(frame, kafka, tmp_path, topic=name)
    assert query.exception() is None
    values = sorted(record.value for record in stored(kafka, name, 3))
    assert values == sorted(b"n %d" % number for number in range(1000))


@pytest.mark.parametrize("by", ["raise", "kill"])
@pytest.mark.parametrize("at", ["first rows sent", "all rows acknowledged"])
def test_at_least_once_loses_nothing(
    spark: "SparkSession", kafka: RealKafka, topic: Topics, tmp_path: Path, at: str, by: str
) -> None:
    name = topic(2)
    frame = lines_of_text(spark, tmp_path, files=2, lines=300, prefix="n")
    once = tmp_path / "once"
    crash: dict[str, Any] = {"crashat": at, "crashby": by, "crashonce": str(once)}
    write_stream(frame, kafka, tmp_path, topic=name, **crash)
    assert once.exists()
    values = {record.value for record in stored(kafka, name, 2)}
    assert values == {b"n %d" % number for number in range(600)}
