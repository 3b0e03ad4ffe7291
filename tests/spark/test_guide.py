"""The notebook of docs/spark.md, cell by cell, and README's few lines."""

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


def cells(page: str, section: str) -> list[str]:
    _, _, text = (ROOT / page).read_text().partition(f"## {section}\n")
    return re.findall(r"^```python\n(.*?)^```$", text.partition("\n## ")[0], re.M | re.S)


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
        for cell in cells("docs/spark.md", "In a notebook"):
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
    assert "|        0|" in shown  # the one partition that has something
    assert "| tea|    7.5|" in shown


def test_readmes_stream(spark: "SparkSession", servers: str):
    (cell,) = cells("README.md", "In Spark, without a Kafka jar")
    book: dict[str, Any] = {"spark": spark}
    exec(cell.replace(SERVERS, servers), book)
    assert book["orders"].isStreaming
    assert book["orders"].columns[:3] == ["key", "value", "topic"]
