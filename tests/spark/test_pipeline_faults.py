"""`pipeline run` is killed and restarted: with an exactly-once sink every row appears once.

SPARK_JUDGE=1 (`make spark-judge`) kills it more often, and in both ways.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaConsumer
from tests.spark.kinds import Kinds, numbered
from tests.spark.processes import TOO_SLOW, TRIES, below, is_there, kill
from tests.spark.sunk import stored
from tools.kafka import RealKafka
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

PATIENCE = 300.0  # seconds in which a run writes something, or ends
JUDGED = os.environ.get("SPARK_JUDGE") == "1"
WAYS = ["all of it", "its own process"] * 3 if JUDGED else ["all of it"]
"""What SIGKILL hits: the whole process tree with the JVM; or only the process that the user
started, in which case the JVM detects later that its parent is gone, and may write for a moment."""
PARTITIONS = 3
EPOCH = 3_000  # records
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
QUIET_MS = 5_000
"""Seconds without a record after which the console consumer assumes that there are no more."""

Process = subprocess.Popen[bytes]

SPECIFICATION = f"""\
name = "copied"

[variables]
bootstrap = ""
from = ""
to = ""
jvm = ""

[spark]
master = "local[2]"

[spark.conf]
spark.driver.memory = "1g"
spark.driver.extraJavaOptions = "${{jvm}}"

[kafka]
bootstrap.servers = "${{bootstrap}}"

[source]
format = "kafka_lite"

[source.options]
subscribe = "${{from}}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {EPOCH}

[[steps]]
sql = "SELECT key, concat('${{to}} ', string(value)) AS value FROM records"

[sink]
format = "kafka_lite"
options = {{ topic = "${{to}}", deliveryGuarantee = "exactly_once" }}
checkpoint = "checkpoint"
"""


def command(kafka: RealKafka, source: str, target: str, folder: Path) -> list[str]:
    jvm = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}"
    given = {"bootstrap": kafka.bootstrap_servers, "from": source, "to": target, "jvm": jvm}
    sets = [f"--set={name}={value}" for name, value in given.items()]
    specification = folder / "copied.toml"
    specification.write_text(SPECIFICATION)
    pipeline = [sys.executable, "-m", "aiokafka_lite", "pipeline"]
    return [*pipeline, "run", str(specification), "--quiet", *sets]


def started(arguments: list[str], folder: Path) -> Process:
    output = folder / "said.log"
    output.unlink(missing_ok=True)  # what is left of a killed run may still write to its own
    with output.open("xb") as log:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def said(folder: Path) -> str:
    """The last output lines of the latest run."""
    return (folder / "said.log").read_text()[-3000:]


class Ended(Exception):
    """The run has ended before it could be killed."""


def was_too_slow(folder: Path) -> bool:
    """True if the latest run failed because a Python process started too slowly."""
    return TOO_SLOW in (folder / "said.log").read_text()


async def written(
    kafka: RealKafka, topic: str, least: int, process: subprocess.Popen[bytes]
) -> int:
    """The sum of the partitions' end offsets, once it is at least `least`.

    Raises:
        Ended: It never was.
    """
    servers = kafka.bootstrap_servers
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers) as consumer:
        while process.poll() is None:
            end = sum((await consumer.end_offsets(consumer.assignment())).values())
            if end >= least:
                return end
            await asyncio.sleep(0.02)
    raise Ended


def kill_it(process: Process, way: str) -> list[int]:
    """Kill it; return the process ids of its descendants."""
    children = below(process.pid)
    for pid in [process.pid, *(children if way == WAYS[0] else ())]:
        kill(pid)
    process.wait()
    return children


def end(orphans: list[int]) -> None:
    """Wait until the remaining processes have ended by themselves."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in orphans if is_there(pid)]:
        if time.monotonic() > deadline:
            for pid in left:
                kill(pid)
            raise AssertionError(f"{len(left)} processes have outlived their driver")
        time.sleep(0.05)


def values(kafka: RealKafka, topic: str) -> list[str]:
    """The values of all committed records."""
    if not JUDGED:
        return [record.value.decode() for record in stored(kafka, topic, PARTITIONS)]
    arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", topic]
    arguments += ["--from-beginning", "--isolation-level", "read_committed"]
    lines = run(CONSOLE, [*arguments, "--timeout-ms", str(QUIET_MS)], FALLBACK, timeout=240)
    return [line for line in lines if line.startswith(topic)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_killed_pipeline_writes_every_row_once(
    kafka: RealKafka, kinds: Kinds, tmp_path: Path
) -> None:
    source, target = kinds.create("piped", PARTITIONS), kinds.create("copied", PARTITIONS)
    each = EPOCH * (len(WAYS) + 2) // PARTITIONS
    for partition in range(PARTITIONS):
        kinds.write(source, numbered(partition, each))
    arguments = command(kafka, source, target, tmp_path)
    orphans: list[int] = []
    there = 0
    try:
        ways, slow = list(WAYS), 0
        while ways:
            process = started(arguments, tmp_path)  # without an end that it could come to before
            try:
                waiting = written(kafka, target, there + EPOCH // 2, process)
                there = asyncio.run(asyncio.wait_for(waiting, PATIENCE))
                way = ways.pop(0)
            except (Ended, TimeoutError) as error:
                way, slow = WAYS[0], slow + 1
                if slow == TRIES or not was_too_slow(tmp_path):
                    raise AssertionError(said(tmp_path)) from error
            finally:
                orphans += kill_it(process, way)
        while True:
            last = started([*arguments, "--once"], tmp_path)
            try:
                status = last.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                orphans += kill_it(last, WAYS[0])
                raise AssertionError(said(tmp_path)) from None
            if status == 0:
                break
            slow += 1
            if slow == TRIES or not was_too_slow(tmp_path):
                raise AssertionError(said(tmp_path))
    finally:
        end(orphans)

    counted = Counter(values(kafka, target))
    places = product(range(PARTITIONS), range(each))
    assert counted.keys() == {f"{target} {partition}/{number}" for partition, number in places}
    assert set(counted.values()) == {1}
