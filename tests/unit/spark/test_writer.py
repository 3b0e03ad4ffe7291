"""Where in a query a task stands, as Spark's local properties tell: neither Spark nor Java."""

from collections.abc import Mapping

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="needs pyspark >= 4.2")

from aiokafka_lite.spark import writer
from aiokafka_lite.spark.exactly_once import Place

QUERY = "0b5d2c1e-6f0c-4a44-9a53-1f4b9c1d7a11"
RUN = "7c1f4d2a-3b9e-4d8e-8f61-52d0a9c3e402"  # names of tests must be the same in each process
STREAMING = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": "7"}


class Task:
    """A task of Spark's, as far as it is asked."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)

    def partitionId(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("group", "run"),
    [
        ({"spark.jobGroup.id": RUN}, RUN),
        ({}, ""),
        # `foreachBatch` may set one, the same in each run: what another run wrote is not known.
        ({"spark.jobGroup.id": "nightly"}, ""),
    ],
)
def test_a_task_knows_its_epoch_and_run(
    monkeypatch: pytest.MonkeyPatch, group: dict[str, str], run: str
) -> None:
    monkeypatch.setattr(writer, "_task", lambda: Task({**STREAMING, **group}))
    assert writer._streaming_place("till") == Place("till", QUERY, 7, 3, run)


def test_a_task_of_no_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_task", lambda: Task({"spark.jobGroup.id": RUN}))
    assert writer._streaming_place("till") is None
