"""Runs the notebook of docs/spark.md cell by cell, and the blocks of README and
docs/pipelines.md."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokafka_lite.testing import FakeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SERVERS = "localhost:9092"  # as the pages have it


def cells(page: str, section: str, language: str = "python") -> list[str]:
    _, _, text = (ROOT / page).read_text().partition(f"# {section}\n")
    fence = rf"^```{language}\n(.*?)^```$"
    return re.findall(fence, text.partition("\n## ")[0], re.M | re.S)


@pytest.fixture
def servers() -> Iterator[str]:
    """A Kafka with three orders in the first of two partitions."""
    with FakeCluster(topics={"orders": 2}) as cluster:
        for number in range(3):
            order = {"order_id": f"{number}", "item": "tea", "price": 2.5, "quantity": number}
            order["ordered_at"] = datetime.now(UTC).isoformat()
            cluster.produce("orders", json.dumps(order).encode(), partition=0)
        yield cluster.bootstrap_servers


def test_the_notebook(spark: "SparkSession", servers: str, capsys: pytest.CaptureFixture[str]):
    book: dict[str, Any] = {}
    try:
        for cell in cells("docs/spark.md", "Work in a notebook"):
            exec(cell.replace(SERVERS, servers), book)
    finally:
        if "query" in book:
            book["query"].stop()
            spark.streams.removeListener(book["listener"])
            spark.catalog.dropTempView("live")
    assert book["spark"] is spark
    assert [row.offset for row in book["orders"].orderBy("offset").collect()] == [0, 1, 2]
    assert book["recent"].selectExpr("sum(price * quantity)").collect() == [(7.5,)]
    shown = capsys.readouterr().out
    assert "|        0|" in shown  # the one partition that has records
    assert "| tea|    7.5|" in shown


def test_readmes_stream(spark: "SparkSession", servers: str):
    (cell,) = cells("README.md", "In Spark")
    book: dict[str, Any] = {"spark": spark}
    exec(cell.replace(SERVERS, servers), book)
    assert book["orders"].isStreaming
    assert book["orders"].columns[:3] == ["key", "value", "topic"]


def test_pipelines_in_python(
    spark: "SparkSession",
    servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """The specification at the start of the page, and how its last section uses it."""
    (specification,) = cells("docs/pipelines.md", "Write a pipeline", "toml")
    (cell,) = cells("docs/pipelines.md", "Run it from Python")
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(specification.replace("/data", str(tmp_path)))
    book: dict[str, Any] = {"spark": spark}
    try:
        exec(cell.replace("kafka:9092", servers).replace("/data", str(tmp_path)), book)
        book["query"].processAllAvailable()
    finally:
        if "query" in book:
            book["query"].stop()
    assert capsys.readouterr().out.startswith("3 ")  # rows
    assert book["summary"].last.lag.total == 0
    assert spark.range(1).count() == 1, "the session that was there runs on"
    assert spark.read.parquet(str(tmp_path / "big")).count() == 0  # no order is so long
