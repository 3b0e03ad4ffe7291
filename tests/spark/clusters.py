"""Spark's own servers for a test: a standalone cluster, and a Connect server, on loopback.

pip's pyspark lacks a cluster's start scripts, but has the script that they call.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tools.kafka.broker import free_ports
from tools.spark.session import ROOT

PATIENCE = 180.0  # seconds in which a server starts
ENDING = 20.0  # seconds in which it ends
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Server:
    """A process, and its output.

    Args:
        command: The arguments of Spark's `bin/spark-class`.
        folder: For its files.
        env: Added to this process's environment.
    """

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str]) -> None:
        import pyspark

        script = Path(str(pyspark.__file__)).parent / "bin" / "spark-class"
        self._said: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [str(script), *command],
            cwd=folder,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, times: int = 1) -> re.Match[str]:
        """The last of `times` lines with that pattern."""

        def found() -> list[re.Match[str]]:
            return [match for line in self._said if (match := re.search(pattern, line))]

        with self._changed:
            there = self._changed.wait_for(
                lambda: len(found()) >= times or self.process.poll() is not None, PATIENCE
            )
            if not there or len(found()) < times:
                pytest.fail(f"no {pattern!r} in:\n" + "".join(self._said[-40:]), pytrace=False)
            return found()[-1]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._said.append(line)
                self._changed.notify_all()
        self.process.wait()
        with self._changed:
            self._changed.notify_all()


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a master with that many one-core workers; yield its address."""
    env = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    package = "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:
        loopback = ["--host", "127.0.0.1", "--webui-port", "0"]
        master = Server([f"{package}.master.Master", *loopback, "--port", "0"], folder, env)
        stack.callback(master.stop)
        address = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        for number in range(workers):
            work = folder / f"worker-{number}"
            size = ["--cores", "1", "--memory", "1g", "-d", str(work)]
            worker = Server([f"{package}.worker.Worker", *loopback, *size, address], folder, env)
            stack.callback(worker.stop)
        master.wait_for(r"Registering worker", workers)
        yield address


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server that can import the package; its address."""
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--name", "connect", "spark-internal"]
    env = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    server = Server(command, folder, env)
    try:
        server.wait_for("Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()
