"""The steps of a pipeline, each on a few rows, as one batch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokafka_lite.spark.pipeline import Pipeline, SpecError
from aiokafka_lite.spark.pipeline.building import build

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from tests.spark.shared_session import SharedSession

ROWS = [
    {"key": "a", "value": '{"id": 1, "item": "tea", "price": 2.5}', "timestamp": "12:00:01"},
    {"key": "b", "value": '{"id": 2, "item": "cake", "price": 4}', "timestamp": "12:00:31"},
    {"key": "c", "value": "{no json", "timestamp": "12:00:41"},
    {"key": "d", "value": None, "timestamp": "12:00:51"},
    {"key": "a", "value": '{"id": 1, "item": "tea", "price": 2.5}', "timestamp": "12:01:05"},
]
DECODE = {
    "decode": "json",
    "schema": "id INT, item STRING, price DOUBLE",
    "keep": ["timestamp AS at"],
    "on_error": "drop",
}


@pytest.fixture(scope="module")
def rows(shared_session: SharedSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet folder with a topic's columns."""
    spark = shared_session.session()
    path = tmp_path_factory.mktemp("rows") / "topic"
    frame = spark.createDataFrame(
        [(row["key"], row["value"], f"2026-01-01 {row['timestamp']}") for row in ROWS],
        "key STRING, value STRING, timestamp STRING",
    )
    frame.selectExpr(
        "CAST(key AS BINARY) AS key", "CAST(value AS BINARY) AS value", "timestamp"
    ).coalesce(1).write.parquet(str(path))
    return path


def built(spark: SparkSession, rows: Path, *steps: Mapping[str, object]) -> DataFrame:
    source = {"format": "parquet", "options": {"path": str(rows)}, "bounded": True}
    mapping = {"source": source, "steps": list(steps), "sink": {"format": "noop"}}
    return build(Pipeline.parse(mapping), spark)


def test_decode_makes_columns_and_leaves_out_what_is_none(spark: SparkSession, rows: Path):
    frame = built(spark, rows, DECODE)
    assert frame.columns == ["id", "item", "price", "at"]
    assert [tuple(row)[:3] for row in frame.collect()] == [
        (1, "tea", 2.5),
        (2, "cake", 4.0),
        (1, "tea", 2.5),
    ]


def test_decode_may_leave_columns_null(spark: SparkSession, rows: Path):
    frame = built(spark, rows, {**DECODE, "on_error": "null"})
    assert [row.id for row in frame.collect()] == [1, 2, None, None, 1]


def test_decode_fails_at_what_is_none_by_default(spark: SparkSession, rows: Path):
    from py4j.protocol import Py4JJavaError

    frame = built(spark, rows, {**DECODE, "on_error": "fail"})
    with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD_IN_PARSING"):
        frame.collect()


def test_decode_refuses_a_name_twice(spark: SparkSession, rows: Path):
    with pytest.raises(SpecError, match=r"steps\[0\]: keep and schema both contain item"):
        built(spark, rows, {**DECODE, "keep": ["key AS item"]})


def test_one_query_after_the_other_sees_what_the_one_before_gave(spark: SparkSession, rows: Path):
    frame = built(
        spark,
        rows,
        DECODE,
        {"sql": "SELECT id, price * 2 AS price FROM records"},
        {"sql": "-- doubled again\nWITH big AS (SELECT * FROM records WHERE price > 5) "
                "SELECT b.id, b.price * 2 AS price FROM big b JOIN records r ON b.id = r.id"},
        {"sql": "/* the end */ with recursive n AS (SELECT 1 AS i UNION ALL "
                "SELECT i + 1 FROM n WHERE i < 2) SELECT id, price, i FROM records, n"},
    )  # fmt: skip
    assert sorted(map(tuple, frame.collect())) == [(2, 16.0, 1), (2, 16.0, 2)]


def test_an_invalid_query_is_reported_with_its_position(spark: SparkSession, rows: Path):
    with pytest.raises(SpecError, match=r"steps\[1\]: .*UNRESOLVED_COLUMN"):
        built(spark, rows, DECODE, {"sql": "SELECT colour FROM records"})


def test_tables_can_be_joined(spark: SparkSession, rows: Path, tmp_path: Path):
    (tmp_path / "names.csv").write_text("tea,Tee\ncake,Kuchen\n")
    mapping = {
        "source": {"format": "parquet", "options": {"path": str(rows)}, "bounded": True},
        "tables": {
            "names": {
                "format": "csv",
                "schema": "item STRING, name STRING",
                "options": {"path": str(tmp_path / "names.csv")},
            }
        },
        "steps": [DECODE, {"sql": "SELECT id, name FROM records JOIN names USING (item)"}],
        "sink": {"format": "noop"},
    }
    frame = build(Pipeline.parse(mapping), spark)
    assert sorted(map(tuple, frame.collect())) == [(1, "Tee"), (1, "Tee"), (2, "Kuchen")]


STEPS_MODULE = """
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

@udf("double")
def half(price):
    return price / 2

def halved(records, name="half"):
    return records.withColumn(name, half(F.col("price")))

def nothing(records):
    return 3
"""


def test_a_python_function_is_found_by_its_path(
    spark: SparkSession, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "steps_of_mine.py").write_text(STEPS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "steps_of_mine", raising=False)
    python = "steps_of_mine:halved"
    frame = built(spark, rows, DECODE, {"python": python, "arguments": {"name": "h"}})
    assert [row.h for row in frame.collect()] == [1.25, 2.0, 1.25]
    for step, words in (
        ({"python": "steps_of_mine:nothing"}, "returned int, not a DataFrame"),
        ({"python": "steps_of_mine:missing"}, "has no function missing"),
        ({"python": "no_module_of_mine:f"}, "cannot be imported"),
        ({"python": python, "arguments": {"nam": "h"}}, "does not accept these arguments"),
    ):
        with pytest.raises(SpecError, match=words):
            built(spark, rows, DECODE, step)


def test_windows_count_by_time_and_more(spark: SparkSession, rows: Path):
    window = {
        "window": "1 minute",
        "time": "at",
        "by": ["upper(item) AS what"],
        "watermark": "1 minute",
        "aggregates": {"n": "count(*)", "total": "sum(price)"},
    }
    frame = built(spark, rows, DECODE, window)
    assert frame.columns == ["window_start", "window_end", "what", "n", "total"]
    first, second = datetime(2026, 1, 1, 12, 0), datetime(2026, 1, 1, 12, 1)
    assert sorted(starts(frame.collect())) == [
        (first, "CAKE", 1, 4.0),
        (first, "TEA", 1, 2.5),
        (second, "TEA", 1, 2.5),
    ]


def starts(rows: list[Row]) -> list[tuple[object, ...]]:
    # A session in UTC gives local times of the driver: the same instants here.
    offset = datetime.now().astimezone().utcoffset()
    assert offset is not None
    return [(row.window_start - offset, row.what, row.n, row.total) for row in rows]


def test_sessions_end_where_nothing_came(spark: SparkSession, rows: Path):
    session = {"session": "32 seconds", "time": "at", "aggregates": {"n": "count(*)"}}
    frame = built(spark, rows, DECODE, session)
    assert sorted(row.n for row in frame.collect()) == [1, 2]


def test_deduplicate_drops_repeated_rows(spark: SparkSession, rows: Path):
    once = {"deduplicate": ["id"], "time": "at", "watermark": "1 hour"}
    assert sorted(row.id for row in built(spark, rows, DECODE, once).collect()) == [1, 2]


def test_encode_makes_a_row_for_kafka(spark: SparkSession, rows: Path):
    encode = {
        "encode": "json",
        "key": "item",
        "columns": ["id", "price"],
        "topic": "concat('to-', item)",
        "partition": "id",
        "headers": "array(struct('kind' AS key, CAST('x' AS BINARY) AS value))",
    }
    frame = built(spark, rows, DECODE, encode)
    assert frame.columns == ["value", "key", "topic", "partition", "headers"]
    first = frame.collect()[0]
    assert first.asDict(recursive=True) == {
        "value": '{"id":1,"price":2.5}',
        "key": "tea",
        "topic": "to-tea",
        "partition": 1,
        "headers": [{"key": "kind", "value": bytearray(b"x")}],
    }
    csv = built(spark, rows, DECODE, {"encode": "csv"}).collect()
    assert csv[0].value.startswith("1,tea,2.5,")


def test_files_without_a_schema_of_their_own_require_one(spark: SparkSession, tmp_path: Path):
    mapping = {
        "source": {"format": "json", "options": {"path": str(tmp_path)}},
        "sink": {"format": "noop"},
    }
    with pytest.raises(SpecError, match=r"source.schema is missing"):
        build(Pipeline.parse(mapping), spark)
