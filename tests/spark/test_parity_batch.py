"""Batch reads beside Spark's own connector: the same options, the same rows."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.beside import OURS, options_of, read, rows_of
from tests.spark.kinds import START, STEP, Kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HALF = START + 45 * STEP  # of the longest partition of `plain`
FILLED = '{"TOPIC": [0, 1, 2, 3]}'  # the partitions of `plain` that hold records
ALL = {"plain": 340, "odd": 100, "compressed": 1360, "trimmed": 30, "stamped_by_the_broker": 40}


def places(**offsets: int) -> str:
    """JSON of offsets: `places(p0=10)` is partition 0 of TOPIC from 10 on."""
    return json.dumps({"TOPIC": {name[1:]: offset for name, offset in offsets.items()}})


def six(**offsets: int) -> str:
    """All six partitions of `plain`, by default from their start."""
    return places(**{**{f"p{number}": -2 for number in range(6)}, **offsets})


CASES: list[tuple[str, str, dict[str, str], int | None]] = [
    # name, kind of the topic, options, number of rows (None: the connector decides)
    *((f"all of {kind}", kind, {}, count) for kind, count in ALL.items()),
    ("a compacted topic", "compacted", {}, None),
    ("headers", "odd", {"includeHeaders": "true"}, 100),
    ("headers of records without", "plain", {"includeHeaders": "TRUE"}, 340),
    ("uncommitted", "transactional", {}, 93),
    ("committed", "transactional", {"kafka.isolation.level": "read_committed"}, 43),
    ("assigned", "plain", {"assign": '{"TOPIC": [3, 0, 5]}'}, 170),
    ("a list of topics", "plain", {"subscribe": " TOPIC , TOPIC,"}, 340),
    ("a pattern", "plain", {"subscribePattern": "TOP.*|TOPIC|nothing"}, 340),
    ("explicit ends", "plain", {"startingOffsets": "earliest", "endingOffsets": "latest"}, 340),
    ("from offsets", "plain", {"startingOffsets": six(p0=10, p1=90, p2=79)}, 161),
    (
        "between offsets",
        "plain",
        {
            "startingOffsets": six(p0=10),
            "endingOffsets": places(p0=20, p1=0, p2=80, p3=-1, p4=0, p5=-1),
        },
        160,
    ),
    ("from a time", "plain", {"startingTimestamp": str(HALF), "assign": FILLED}, 160),
    ("to a time", "plain", {"endingTimestamp": str(HALF)}, 180),
    (
        "between times",
        "plain",
        {
            "assign": FILLED,
            "startingTimestamp": str(START + 10_500),
            "endingTimestamp": str(START + 20_500),
        },
        40,
    ),
    (
        "a time wins over offsets",
        "plain",
        {"endingTimestamp": str(HALF), "endingOffsets": "latest", "startingOffsets": "earliest"},
        180,
    ),
    (
        "by times of each partition",
        "plain",
        {
            "startingOffsetsByTimestamp": places(
                p0=START, p1=HALF, p2=HALF, p3=HALF, p4=HALF, p5=HALF
            ),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        205,
    ),
    (
        "to times of each partition",
        "plain",
        {
            "endingOffsetsByTimestamp": places(
                p0=START, p1=HALF, p2=HALF + 10**9, p3=HALF, p4=HALF, p5=HALF
            )
        },
        170,
    ),
    (
        "from a time after the last record",
        "plain",
        {
            "startingTimestamp": str(START + 10**9),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        0,
    ),
    ("to a time after the last record", "plain", {"endingTimestamp": str(START + 10**9)}, 340),
    ("more tasks", "plain", {"minPartitions": "14"}, 340),
    ("small tasks", "plain", {"maxRecordsPerPartition": "13"}, 340),
    ("both", "plain", {"maxRecordsPerPartition": "50", "minPartitions": "9"}, 340),
    (
        "the consumer's settings",
        "compressed",
        {
            "kafka.max.poll.records": "7",
            "kafka.fetch.max.bytes": "2000",
            "kafka.max.partition.fetch.bytes": "1500",
            "kafka.fetch.max.wait.ms": "100",
            "kafka.client.id": "spark-beside",
            "kafka.request.timeout.ms": "20000",
            "groupIdPrefix": "parity",
            "kafkaConsumer.pollTimeoutMs": "10000",
            "fetchOffset.numRetries": "2",
            "fetchOffset.retryIntervalMs": "50",
        },
        1360,
    ),
    ("a group", "plain", {"kafka.group.id": "parity-group"}, 340),
    (
        "from before the beginning, allowed",
        "trimmed",
        {"startingOffsets": places(p0=5, p1=5), "failOnDataLoss": "false"},
        30,
    ),
]


@pytest.mark.parametrize(
    ("kind", "options", "count"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_same_rows(
    spark: "SparkSession",
    connector: str,
    kinds: Kinds,
    kind: str,
    options: dict[str, str],
    count: int | None,
) -> None:
    given = options_of(kinds.bootstrap_servers, getattr(kinds, kind), options)
    frames = [read(spark, form, given) for form in (OURS, connector)]
    assert frames[0].schema == frames[1].schema
    ours, theirs = map(rows_of, frames)
    assert ours == theirs
    if count is not None:
        assert len(ours) == count


def test_the_number_of_tasks_equals_the_option(
    spark: "SparkSession", connector: str, kinds: Kinds
) -> None:
    """The connector applies maxRecordsPerPartition only to streams; this package also to
    batches."""
    for form, options, least in (
        (OURS, {"minPartitions": "14"}, 14),
        (connector, {"minPartitions": "14"}, 14),
        (OURS, {"maxRecordsPerPartition": "13"}, 28),
    ):
        given = options_of(kinds.bootstrap_servers, kinds.plain, options)
        tasks = read(spark, form, given).selectExpr("spark_partition_id() AS task")
        assert tasks.distinct().count() >= least, (form, options)


def test_projections_filters_and_aggregates(
    spark: "SparkSession", connector: str, kinds: Kinds
) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, {"includeHeaders": "true"})
    questions = [
        "SELECT count(*) FROM records",
        "SELECT offset FROM records WHERE partition = 1 ORDER BY offset",
        "SELECT partition, max(offset), min(timestamp), sum(length(value)) FROM records "
        "WHERE offset BETWEEN 5 AND 75 AND topic LIKE 'kinds-%' GROUP BY partition ORDER BY 1",
        "SELECT string(key), count(*) FROM records "
        "WHERE timestamp >= timestamp_millis(1700000030000) GROUP BY key ORDER BY 1",
        "SELECT headers, timestampType FROM records LIMIT 3",
        "SELECT count(*) FROM records WHERE topic = 'another'",
    ]
    answers = []
    for form in (OURS, connector):
        read(spark, form, given).createOrReplaceTempView("records")
        answers.append([spark.sql(question).collect() for question in questions])
    assert answers[0] == answers[1]


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("no strategy", {"subscribe": ""}, "subscribe"),
    ("no topic", {"subscribe": " , "}, "subscribe"),
    ("two strategies", {"subscribe": "TOPIC", "assign": '{"TOPIC": [0]}'}, "assign"),
    ("no pattern", {"subscribePattern": " "}, "subscribepattern"),
    ("no JSON", {"assign": "TOPIC"}, "assign"),
    ("from the end", {"startingOffsets": "latest"}, "startingoffsets"),
    ("to the beginning", {"endingOffsets": "earliest"}, "endingoffsets"),
    ("from the end of one", {"startingOffsets": six(p1=-1)}, "latest"),
    ("to the beginning of one", {"endingOffsets": six(p1=-2)}, "earliest"),
    ("some partitions only", {"startingOffsets": places(p0=1)}, "partition"),
    ("no offsets", {"startingOffsets": "sometime"}, "sometime"),
    ("no time", {"startingTimestamp": "today"}, "startingtimestamp"),
    ("a time after the last record", {"startingTimestamp": str(START + 10**9)}, "offset"),
    ("no number", {"minPartitions": "many"}, "many"),
    ("no tasks", {"minPartitions": "0"}, "minpartitions"),
    ("no records", {"maxRecordsPerPartition": "0"}, "maxrecordsperpartition"),
    ("neither true nor false", {"includeHeaders": "perhaps"}, "perhaps"),
    ("a reset", {"kafka.auto.offset.reset": "earliest"}, "auto.offset.reset"),
    ("a deserializer", {"kafka.value.deserializer": "a.b.C"}, "value.deserializer"),
    ("commits", {"kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
    ("interceptors", {"kafka.interceptor.classes": "a.b.C"}, "interceptor.classes"),
    ("no broker", {"kafka.bootstrap.servers": ""}, "contains no address"),
]


@pytest.mark.parametrize(
    ("options", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_the_same_is_refused(
    spark: "SparkSession", connector: str, kinds: Kinds, options: dict[str, str], told: str
) -> None:
    given = options_of(kinds.bootstrap_servers, kinds.plain, options)
    with pytest.raises(Exception, match=r".+"):  # each with its own text
        read(spark, connector, given).collect()
    with pytest.raises(Exception, match=r".+") as refused:
        read(spark, OURS, given).collect()
    assert told in str(refused.value).lower()


def test_lost_records_are_reported(spark: "SparkSession", connector: str, kinds: Kinds) -> None:
    given = options_of(
        kinds.bootstrap_servers, kinds.trimmed, {"startingOffsets": places(p0=5, p1=50)}
    )
    for form in (OURS, connector):
        with pytest.raises(Exception, match=r"(?i)failOnDataLoss|data.?loss|may have been lost"):
            read(spark, form, given).collect()
