"""The format as Spark finds it, and its filters: with PySpark's classes, but without Java."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="needs pyspark >= 4.2")

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark import KafkaLiteDataSource
from aiokafka_lite.spark.arrow_batches import arrow_schema, column_names
from aiokafka_lite.spark.filters import bounds
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.spark.runtime import close_idle
from aiokafka_lite.spark.source import record_schema, register
from aiokafka_lite.spark.source_reader import KafkaPartition
from aiokafka_lite.testing import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Topics `a` and `b`: ten records at 1,000 to 1,009 ms in each of two partitions."""
    with FakeCluster(1, {"a": 2, "b": 2}) as cluster:
        for topic in "ab":
            for partition in range(2):
                for offset in range(10):
                    cluster.produce(topic, b"v", partition=partition, timestamp_ms=1000 + offset)
        yield cluster
        close_idle()


def source(cluster: FakeCluster, **told: str) -> KafkaLiteDataSource:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "a,b"}
    return KafkaLiteDataSource({**given, **told})


def ranges(reader: DataSourceReader) -> list[OffsetRange]:
    planned = reader.partitions()
    assert all(isinstance(each, KafkaPartition) for each in planned)
    return sorted(
        one for each in planned if isinstance(each, KafkaPartition) for one in each.ranges
    )


@pytest.mark.parametrize("headers", [False, True])
def test_the_batches_of_tasks_have_sparks_schema(headers: bool) -> None:
    expected = to_arrow_schema(record_schema(headers), timezone="UTC")
    assert arrow_schema(column_names(include_headers=headers)).equals(expected)


def test_the_schema_depends_on_one_option() -> None:
    told = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
    assert KafkaLiteDataSource(told).schema() == record_schema(False)
    assert KafkaLiteDataSource({**told, "INCLUDEHEADERS": "true"}).schema() == record_schema(True)
    assert record_schema(True).fieldNames()[-1] == "headers"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "kafka.bootstrap.server": "b:1"}, "kafka.bootstrap.server"),
        ({"subscribe": "a", "minPartitons": "3"}, "did you mean 'minPartitions'"),
        ({"subscribe": "a", "maxTasks": "none"}, "maxTasks"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "can't be earliest"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "startingOffsets"),
    ],
)
def test_invalid_reader_options_fail_at_load(told: dict[str, str], message: str) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", **told}
    with pytest.raises(KafkaConfigurationError, match=re.escape(message)):
        KafkaLiteDataSource(given).schema()


@pytest.mark.parametrize(
    "told",
    [
        {"startingOffsets": "latest"},  # of a stream
        {"maxOffsetsPerTrigger": "100"},
        {"endingOffsets": "latest"},  # of a batch
        {"pushdown": "true"},
    ],
)
def test_options_of_one_query_type_are_accepted_at_load(
    told: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a", "mine": "1", **told}
    assert KafkaLiteDataSource(given).schema() == record_schema(False)
    assert not caplog.records  # the reader warns


class Refusal(AnalysisException):
    """Spark's filter for a condition."""

    def __init__(self, condition: str) -> None:
        super().__init__(f"[{condition}]")
        self.condition = condition

    def getCondition(self) -> str:
        return self.condition


class Refusing:
    """A session whose registry rejects every format."""

    def __init__(self, condition: str) -> None:
        self.dataSource = self
        self.condition = condition

    def register(self, source: type) -> None:
        assert source is KafkaLiteDataSource
        raise Refusal(self.condition)


def test_registering_twice_has_no_effect() -> None:
    register(cast(SparkSession, Refusing("DATA_SOURCE_ALREADY_EXISTS")))


def test_registering_warns_of_workers_that_lack_the_package(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    session: Any = Refusing("DATA_SOURCE_ALREADY_EXISTS")
    session.sparkContext = SimpleNamespace(master="local[2]", pythonExec=str(python))
    register(cast(SparkSession, session))
    assert f"starts its Python workers with {python}" in caplog.text


def test_other_registration_errors_are_raised() -> None:
    with pytest.raises(AnalysisException, match="UNSUPPORTED"):
        register(cast(SparkSession, Refusing("UNSUPPORTED")))


def test_a_custom_schema_is_an_error(cluster: FakeCluster) -> None:
    own = StructType([StructField("at", TimestampType())])
    for make in (source(cluster).reader, source(cluster).streamReader):
        with pytest.raises(KafkaConfigurationError, match="fixed schema"):
            make(own)


def test_a_batch(cluster: FakeCluster) -> None:
    reader = source(cluster, maxTasks="1").reader(record_schema(False))
    (task,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(task)) == 40
    assert list(reader.read(InputPartition(None))) == []  # Spark's representation of no partition


def test_spark_finds_the_format_by_its_module() -> None:
    import pyspark_aiokafka_lite

    assert pyspark_aiokafka_lite.DefaultSource is KafkaLiteDataSource
    assert pyspark_aiokafka_lite.DefaultSource.name() == "kafka_lite"


def test_spark_finds_it_however_it_is_installed(tmp_path: Path) -> None:
    """It lists the folders on the path, so it does not find modules of import hooks (as in most
    editable installations)."""
    try:
        distribution("aiokafka_lite")
    except PackageNotFoundError:
        pytest.skip("run from a source tree that is not installed")
    script = "import pkgutil; print(*(each.name for each in pkgutil.iter_modules()))"
    elsewhere = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
    listed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=elsewhere,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "pyspark_aiokafka_lite" in listed.stdout.split()


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_the_module_can_be_imported_whatever_is_missing(missing: str) -> None:
    """An error in it would break the lookup of every other format."""
    script = f"""
import sys
sys.modules[{missing!r}] = None
import aiokafka_lite.spark
import pyspark_aiokafka_lite as module
if {missing!r} == "pyspark":
    assert not hasattr(module, "DefaultSource")
else:
    assert module.DefaultSource.name() == "kafka_lite"
    try:
        module.DefaultSource({{}})
    except ImportError as error:
        assert "pip install aiokafka_lite[spark]" in str(error), error
    else:
        raise SystemExit("nothing was missed")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_the_module_can_be_imported_whatever_is_broken() -> None:
    """Incompatible libraries fail with all kinds of errors."""
    script = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "aiokafka_lite.spark.options":
            raise AttributeError("_ARRAY_API not found")
sys.meta_path.insert(0, Broken())
import pyspark_aiokafka_lite as module
try:
    module.DefaultSource({})
except ImportError as error:
    assert "_ARRAY_API not found" in str(error), error
else:
    raise SystemExit("nothing was missed")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


# Filters


def test_filters_are_accepted_only_with_pushdown(cluster: FakeCluster) -> None:
    plain = source(cluster).reader(record_schema(False))
    assert type(plain).pushFilters is DataSourceReader.pushFilters  # or Spark rejects the query
    narrowing = source(cluster, pushdown="true").reader(record_schema(False))
    assert type(narrowing).pushFilters is not DataSourceReader.pushFilters


def narrowed(cluster: FakeCluster, *filters: Filter) -> list[OffsetRange]:
    reader = source(cluster, pushdown="true").reader(record_schema(False))
    assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark applies them again
    return ranges(reader)


A0, A1, B0, B1 = (OffsetRange(topic, number, 0, 10) for topic in "ab" for number in (0, 1))


def test_filters_reduce_the_offset_ranges(cluster: FakeCluster) -> None:
    assert narrowed(cluster) == [A0, A1, B0, B1]
    assert narrowed(cluster, EqualTo(("topic",), "a")) == [A0, A1]
    assert narrowed(cluster, In(("topic",), ("b", "c")), EqualTo(("partition",), 1)) == [B1]
    assert narrowed(cluster, In(("partition",), (0, 7)), EqualNullSafe(("topic",), "b")) == [B0]
    assert narrowed(cluster, GreaterThan(("partition",), 0), LessThan(("partition",), 9)) == [
        A1,
        B1,
    ]
    assert narrowed(
        cluster,
        EqualTo(("topic",), "a"),
        GreaterThanOrEqual(("offset",), 3),
        LessThan(("offset",), 9),
        LessThanOrEqual(("offset",), 6),
        LessThanOrEqual(("partition",), 0),
    ) == [OffsetRange("a", 0, 3, 7)]
    assert narrowed(cluster, EqualTo(("offset",), 4), EqualTo(("topic",), "a")) == [
        OffsetRange("a", 0, 4, 5),
        OffsetRange("a", 1, 4, 5),
    ]
    assert narrowed(cluster, EqualTo(("topic",), "a"), EqualTo(("topic",), "b")) == []


def test_a_time_filter_skips_earlier_offsets(cluster: FakeCluster) -> None:
    def at(milliseconds: int) -> datetime:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    only_a0 = (EqualTo(("topic",), "a"), EqualTo(("partition",), 0))
    for condition in (
        GreaterThanOrEqual(("timestamp",), at(1004)),
        GreaterThan(("timestamp",), at(1004)),  # to a millisecond; Spark filters again
        EqualTo(("timestamp",), at(1004)),
    ):
        assert narrowed(cluster, condition, *only_a0) == [OffsetRange("a", 0, 4, 10)]
    assert narrowed(cluster, GreaterThanOrEqual(("timestamp",), at(5000))) == []
    assert narrowed(cluster, GreaterThanOrEqual(("timestamp",), at(500))) == [A0, A1, B0, B1]


def test_a_time_filter_before_1970_skips_nothing(cluster: FakeCluster) -> None:
    """A record without a timestamp has the time -1 ms, so a search by time does not find it."""
    none_at_all = datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    for moment in (datetime(1960, 1, 1, tzinfo=UTC), none_at_all):
        for condition in (EqualTo, GreaterThan, GreaterThanOrEqual):
            assert bounds([condition(("timestamp",), moment)]) == bounds([])
    assert bounds([EqualTo(("timestamp",), datetime(1970, 1, 1, tzinfo=UTC))]) != bounds([])


def test_other_filters_are_left_to_spark(cluster: FakeCluster) -> None:
    others = [
        IsNotNull(("offset",)),
        Not(EqualTo(("topic",), "a")),
        EqualTo(("value",), b"v"),
        LessThan(("timestamp",), datetime(1971, 1, 1, tzinfo=UTC)),
        EqualTo(("headers", "key"), "k"),
        EqualTo(("topic",), None),
    ]
    assert bounds(others) == bounds([])
