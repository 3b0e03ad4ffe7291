"""Pipelines beyond one machine's local[*]: a standalone cluster, and a Connect server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.spark.clusters import QUICK, connect_server, standalone_cluster
from tests.spark.processes import TOO_SLOW, TRIES
from tools.kafka import RealKafka

PATIENCE = 480.0  # seconds that a command may take
ORDER = b'{"order_id": "o-%d", "item": "tea", "price": 2.0, "quantity": %d}'


def pipeline(folder: Path, *arguments: str) -> str:
    """Run the command; return its output."""
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, "-m", "aiokafka_lite", "pipeline", *arguments],
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if TOO_SLOW not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def write_orders(kafka: RealKafka, topic: str, count: int) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(count):
                await producer.send(topic, ORDER % (number, number % 2))
            await producer.flush()

    asyncio.run(write())


def keys(kafka: RealKafka, topic: str) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        found: list[bytes | None] = []
        partition = TopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.key for record in records]
        return found

    return sorted(asyncio.run(asyncio.wait_for(read(), 60)), key=str)


def transform(kafka: RealKafka, source: str, target: str) -> list[str]:
    values = {
        "bootstrap": kafka.bootstrap_servers,
        "from": source,
        "to": target,
        "checkpoint": "checkpoint",
    }
    return ["transform", *(part for pair in values.items() for part in ("--set", "=".join(pair)))]


def expected(count: int) -> list[bytes | None]:
    return sorted((b"o-%d" % number for number in range(count) if number % 2), key=str)


@pytest.mark.timeout(1800)
@pytest.mark.long
def test_on_a_standalone_cluster_of_two_workers(
    kafka: RealKafka, topic: Callable[..., str], tmp_path: Path
):
    source, target = topic(4), topic(1)
    write_orders(kafka, source, 200)
    packed = pipeline(tmp_path, "pack", "--output", "lite.tar.gz")
    assert packed.startswith("lite.tar.gz: ")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    conf = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    with standalone_cluster(tmp_path, workers=2) as master:
        place = ["--master", master, "--archive", "lite.tar.gz", *conf]
        findings = pipeline(tmp_path, "doctor", *place).splitlines()
        (executors,) = [line for line in findings if " executors " in line]
        assert executors.startswith("ok ")
        # The executors import the packed modules, not those installed here.
        folders = {worker for worker in ("worker-0", "worker-1") if worker in executors}
        assert folders == {"worker-0", "worker-1"}
        assert executors.count("aiokafka_lite_packed/aiokafka_lite/__init__.py") >= 2
        said = pipeline(tmp_path, "run", *transform(kafka, source, target), "--once", *place)
    assert "transform: all read: 200 rows" in said
    assert keys(kafka, target) == expected(200)


@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None, reason="pyspark[connect] is not installed (grpc)"
)
@pytest.mark.long
def test_over_spark_connect(kafka: RealKafka, topic: Callable[..., str], tmp_path: Path):
    source, target = topic(2), topic(1)
    write_orders(kafka, source, 100)
    with connect_server(tmp_path) as server:
        said = pipeline(
            tmp_path, "run", *transform(kafka, source, target), "--once", "--remote", server
        )
    assert "transform: all read: 100 rows" in said
    assert keys(kafka, target) == expected(100)
