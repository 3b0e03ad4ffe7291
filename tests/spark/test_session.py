"""The session that every test here shares."""

from typing import TYPE_CHECKING

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
