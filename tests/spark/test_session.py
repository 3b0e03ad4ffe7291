"""The session that the tests share, and whether a pipeline finds an existing one."""

import importlib.util
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from aiokafka_lite.spark.pipeline.spark_session import is_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_session_has_two_cores_and_four_tries(spark: "SparkSession") -> None:
    assert spark.sparkContext.master == "local[2,4]"
    assert spark.range(100).selectExpr("sum(id)").collect()[0][0] == 4950


def test_sparks_own_connector_is_in_the_same_session(spark: "SparkSession", connector: str) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "any"}
    frame = spark.read.format(connector).options(**options).load()
    assert frame.columns[:5] == ["key", "value", "topic", "partition", "offset"]


def test_python_workers_find_the_package(spark: "SparkSession") -> None:
    def name(_: int) -> str:
        import aiokafka_lite

        return aiokafka_lite.__name__

    assert spark.sparkContext.parallelize([1], 1).map(name).collect() == ["aiokafka_lite"]


def test_a_session_of_the_process_is_seen(spark: "SparkSession") -> None:
    assert is_running()


@pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="pyspark[connect] is not installed (grpc)"
)
@pytest.mark.parametrize("package", ["pyspark", "pyspark-client"])
def test_a_session_over_connect_is_seen(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    from pyspark import SparkContext
    from pyspark.sql.connect.session import SparkSession

    if package == "pyspark":
        monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    else:  # which has no classic Spark in it
        monkeypatch.delattr("pyspark.SparkContext")
        monkeypatch.delitem(sys.modules, "pyspark.core.context")
    assert not is_running()
    session = SimpleNamespace(is_stopped=False)
    monkeypatch.setattr(SparkSession, "_default_session", session)
    assert is_running()
    session.is_stopped = True
    assert not is_running()
