"""Streams beside Spark's own connector: the same options, the same rows in the same batches.

SPARK_JUDGE=1 (`make spark-judge`) compares by more options.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.beside import OURS, Streamed, options_of, stream
from tests.spark.kinds import START, STEP, Kinds, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = {"startingOffsets": "earliest"}
FORMS = (OURS, "kafka")

CASES: list[tuple[str, str, dict[str, str], int | None]] = [
    # name, kind of the topic, options, number of rows (None: the connector decides)
    ("all at once", "plain", {}, 340),
    ("less than a record a partition", "trimmed", {"maxOffsetsPerTrigger": "1"}, 30),
    ("headers", "odd", {"includeHeaders": "true", "maxOffsetsPerTrigger": "33"}, 100),
    ("compacted", "compacted", {"maxOffsetsPerTrigger": "200"}, None),
    (
        "committed",
        "transactional",
        {"maxOffsetsPerTrigger": "40", "kafka.isolation.level": "read_committed"},
        43,
    ),
    (
        "from a time",
        "plain",
        {
            "startingTimestamp": str(START + 60 * STEP),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        100,
    ),
]
MORE: list[tuple[str, str, dict[str, str], int | None]] = [
    ("fifty a batch", "plain", {"maxOffsetsPerTrigger": "50"}, 340),
    ("four batches of odd sizes", "plain", {"maxOffsetsPerTrigger": "101"}, 340),
    (
        "at least and at most",
        "plain",
        {"minOffsetsPerTrigger": "30", "maxOffsetsPerTrigger": "130"},
        None,
    ),
    ("compressed", "compressed", {"maxOffsetsPerTrigger": "500"}, 1360),
    ("uncommitted", "transactional", {"maxOffsetsPerTrigger": "40"}, 93),
    (
        "from offsets",
        "plain",
        {
            "startingOffsets": json.dumps(
                {"TOPIC": {"0": 90, "1": -2, "2": -1, "3": 70, "4": 0, "5": -1}}
            )
        },
        100,
    ),
    ("small tasks", "plain", {"maxRecordsPerPartition": "7", "maxOffsetsPerTrigger": "150"}, 340),
]
if os.environ.get("SPARK_JUDGE") == "1":
    CASES += MORE
LONG = {"less than a record a partition"}  # thirty batches


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        pytest.param(*case[1:], id=case[0], marks=[pytest.mark.long] if case[0] in LONG else [])
        for case in CASES
    ],
)
def test_the_same_batches(
    spark: "SparkSession",
    connector: str,
    kinds: Kinds,
    tmp_path: Path,
    kind: str,
    options: dict[str, str],
    count: int | None,
) -> None:
    topic = getattr(kinds, kind)
    given = options_of(kinds.bootstrap_servers, topic, {**EARLIEST, **options})
    ours, theirs = (stream(spark, form, given, tmp_path / form) for form in (OURS, connector))
    same(ours, theirs)
    if count is not None:
        assert len(ours.rows) == count


def test_streams_go_on_where_they_were(
    spark: "SparkSession", connector: str, kinds: Kinds, tmp_path: Path
) -> None:
    """New records, new partitions, and fewer records per batch than before."""
    topic = kinds.create("growing", 2)
    kinds.write(topic, [*numbered(0, 30), *numbered(1, 10)])
    given = options_of(kinds.bootstrap_servers, topic, EARLIEST)
    same(*both(spark, given, tmp_path), rows=40)
    same(*both(spark, given, tmp_path), rows=0)
    kinds.write(topic, numbered(1, 5, 10))
    kinds.add_partitions(topic, 4)
    kinds.write(topic, [*numbered(2, 20), *numbered(0, 4, 30)])
    less = {**given, "maxOffsetsPerTrigger": "11"}
    same(*both(spark, less, tmp_path), rows=29)
    kinds.write(topic, numbered(3, 3))
    same(*both(spark, given, tmp_path), rows=3)


@pytest.mark.long
def test_streams_find_new_topics_of_their_pattern(
    spark: "SparkSession", connector: str, kinds: Kinds, tmp_path: Path
) -> None:
    first = kinds.create("family", 1)
    kinds.write(first, numbered(0, 5))
    given = options_of(
        kinds.bootstrap_servers, first, {**EARLIEST, "subscribePattern": "TOPIC(-young)?"}
    )
    same(*both(spark, given, tmp_path), rows=5)
    kinds.write(first, numbered(0, 5, 5))
    kinds.create_exactly(f"{first}-young", 2)
    kinds.write(f"{first}-young", numbered(1, 7))
    same(*both(spark, given, tmp_path), rows=12)


def test_new_streams_begin_at_the_end(
    spark: "SparkSession", connector: str, kinds: Kinds, tmp_path: Path
) -> None:
    topic = kinds.create("begun", 2)
    kinds.write(topic, [*numbered(0, 10), *numbered(1, 10)])
    given = options_of(kinds.bootstrap_servers, topic, {})
    same(*both(spark, given, tmp_path), rows=0)
    kinds.write(topic, numbered(1, 5, 10))
    same(*both(spark, given, tmp_path), rows=5)


@pytest.mark.parametrize("fails", [True, False])
def test_records_that_went_before_they_were_read(
    spark: "SparkSession", connector: str, kinds: Kinds, tmp_path: Path, fails: bool
) -> None:
    topic = kinds.create("passing", 1)
    kinds.write(topic, numbered(0, 10))
    given = options_of(
        kinds.bootstrap_servers, topic, {**EARLIEST, "failOnDataLoss": str(fails).lower()}
    )
    same(*both(spark, given, tmp_path), rows=10)
    kinds.write(topic, numbered(0, 20, 10))
    kinds.delete_before(topic, {0: 17})
    if not fails:
        same(*both(spark, given, tmp_path), rows=13)
        return
    for form in FORMS:
        with pytest.raises(Exception, match=r"(?i)failOnDataLoss|data.?loss|may have been lost"):
            stream(spark, form, given, tmp_path / form)


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("an end", {"endingOffsets": "latest"}, "endingoffsets"),
    ("more at least than at most", {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "8"),
    ("no number", {"maxOffsetsPerTrigger": "many"}, "many"),
    ("no topic", {"subscribe": ","}, "subscribe"),
]


@pytest.mark.parametrize(
    ("options", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_the_same_is_refused(
    spark: "SparkSession",
    connector: str,
    kinds: Kinds,
    tmp_path: Path,
    options: dict[str, str],
    told: str,
) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, options)
    with pytest.raises(Exception, match=r".+"):  # each with its own text
        stream(spark, connector, given, tmp_path / connector)
    with pytest.raises(Exception, match=r".+") as refused:
        stream(spark, OURS, given, tmp_path / OURS)
    assert told in str(refused.value).lower()


def test_an_ending_timestamp_is_refused(
    spark: "SparkSession", kinds: Kinds, tmp_path: Path
) -> None:
    """The connector does not detect it."""
    given = options_of(kinds.bootstrap_servers, kinds.plain, {"endingTimestamp": str(START)})
    with pytest.raises(Exception, match=r"(?i)endingTimestamp"):
        stream(spark, OURS, given, tmp_path / OURS)


def both(spark: "SparkSession", options: dict[str, str], folder: Path) -> tuple[Streamed, Streamed]:
    """One run of each format, each from its own checkpoint."""
    ours, theirs = (stream(spark, form, options, folder / form) for form in FORMS)
    return ours, theirs


def same(ours: Streamed, theirs: Streamed, rows: int | None = None) -> None:
    """Both read the same, in the same steps."""
    assert ours.rows == theirs.rows
    assert [end for _, end in ours.batches] == [end for _, end in theirs.batches]
    if rows is not None:
        assert len(ours.rows) == rows
