"""Which build of the package Spark's processes run: the pure-Python one is logged, or refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from tools.spark.session import ROOT

PATIENCE = 600.0  # seconds
COPY = """
import sys

from tools.spark import open_session

kafka = {"kafka.bootstrap.servers": sys.argv[1]}
with open_session() as spark:
    for _ in range(2):
        rows = spark.read.format("kafka_lite").options(**kafka, subscribe="from").load()
        rows = rows.select("value").write.format("kafka_lite").mode("append")
        rows.options(**kafka, topic="to").save()
"""


def copied(folder: Path, **environment: str) -> tuple[int, str]:
    """Exit status and log of a job that copies a topic, twice."""
    with FakeCluster(1, {"from": 1, "to": 1}) as cluster:
        cluster.produce("from", b"v", partition=0)
        done = subprocess.run(
            [sys.executable, "-c", COPY, cluster.bootstrap_servers],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.long
def test_the_log_says_that_tasks_run_the_pure_python_modules(tmp_path: Path) -> None:
    status, said = copied(tmp_path, AIOKAFKA_LITE_PURE="1")
    assert status == 0, said[-3000:]
    for process in (
        "A Python worker of a Spark task runs the pure-Python modules",
        "The driver's planner of a batch runs the pure-Python modules",
        "1 of 1 tasks that wrote to Kafka ran the pure-Python modules",
    ):
        assert process in said
    assert str(ROOT / "aiokafka_lite") in said


@pytest.mark.long
def test_the_log_says_nothing_of_native_modules(tmp_path: Path) -> None:
    pytest.importorskip("aiokafka_lite.record._batch_native", reason="the native build")
    status, said = copied(tmp_path, AIOKAFKA_LITE_REQUIRE_NATIVE="1")
    assert status == 0, said[-3000:]
    assert "pure-Python" not in said
