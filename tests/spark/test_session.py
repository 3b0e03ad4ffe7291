"""The session that the tests share, and how a pipeline finds an existing one."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from aiokafka_lite.spark.pipeline.spark_session import is_running
from tests.spark.processes import jvm
from tests.spark.shared_session import SharedSession
from tools.spark.session import WORKER_START

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


def test_a_worker_connects_before_it_imports_anything() -> None:
    """A busy machine takes longer for the imports than Spark waits for the connection."""
    program = """
import os, sys
sys.stdin.read()  # as if the imports took long
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor(timeout=None) as to_spark:
    to_spark.write(to_spark.read(5))
    to_spark.flush()
    assert "PYTHON_WORKER_FACTORY_PORT" not in os.environ
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        environment = {
            **os.environ,
            "PYTHONPATH": str(WORKER_START),
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as worker:
            try:
                made, _ = server.accept()
                with made, made.makefile("rwb") as stream:
                    made.settimeout(60)
                    assert stream.read(10) == b"\0\0\0\x06secret"
                    stream.write(b"\0\0\0\x02ok")
                    stream.flush()
                    assert worker.stdin is not None
                    worker.stdin.close()
                    assert stream.read(4) == worker.pid.to_bytes(4, "big")
                    stream.write(b"hello")
                    stream.flush()
                    assert stream.read(5) == b"hello"
                assert worker.wait(60) == 0
            finally:
                worker.kill()


@pytest.mark.long
def test_a_broken_session_is_replaced(shared_session: SharedSession) -> None:
    broken = shared_session.session()
    os.kill(jvm(), signal.SIGKILL)
    assert shared_session.session() is broken, "nothing failed yet"
    shared_session.doubted = True
    replaced = shared_session.session()
    assert replaced is not broken
    assert replaced.range(10).count() == 10
    shared_session.doubted = True
    assert shared_session.session() is replaced, "it works, although a test failed"


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


@pytest.mark.long
def test_a_session_is_replaced_once_a_timeout_interrupted_a_call(
    shared_session: SharedSession,
) -> None:
    interrupted = shared_session.session()

    assert interrupted._jvm is not None

    def interrupt(*_: object) -> None:
        pytest.fail("as pytest-timeout does")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(pytest.fail.Exception):
            interrupted._jvm.java.lang.Thread.sleep(3000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    shared_session.doubted = shared_session.interrupted = True
    replaced = shared_session.session()
    assert replaced is not interrupted
    assert replaced.range(100).count() == 100
