"""Reads long streams repeatedly: `python -m tools.spark soak --rows 10000000 --runs 20`.

It fills one topic of a real Kafka, then reads all of it with Trigger.AvailableNow, once per run.
Each run is a driver in its own process, with a new JVM and a new checkpoint. With `--restarts` the
driver is killed with SIGKILL that many times and restarted on its checkpoint.

Every run must deliver each offset exactly once per micro-batch, and a micro-batch that is repeated
after a kill must deliver the same offsets again. Spark does not retry a task (`local[2]`), and a
crashing Python process prints its stacks, so that no failure goes unnoticed. A failed run keeps its
folder: the driver's output, the JVM's `hs_err` file if there is one, and what each micro-batch
delivered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from aiokafka_lite import AIOKafkaProducer
from tools.kafka import KafkaNotAvailable, RealKafka, available, open_kafka
from tools.spark.session import ROOT, missing

__all__ = ["Facts", "check", "main", "merged"]

_LOOK: Final = 0.2  # seconds between two checks of a running driver
_CHUNK: Final = 20_000  # records of a partition that are written before the next partition's
_LATER: Final = 2.0  # seconds; a kill follows its micro-batch at random within them

_TELLING: Final = re.compile(
    r"Caused by|Exception|Error\b|SIGSEGV|SIGBUS|OutOfMemory|Killed|failed to connect back"
)

Facts: TypeAlias = dict[str, tuple[int, int, int, int]]
"""By partition: how many records, the first and the last offset, and the sum of all offsets."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run.

    Attributes:
        problem: None if every record was delivered as promised.
        jvm: Most memory of the JVM, in bytes.
        worker: Most memory of a Python process below it, in bytes.
    """

    problem: str | None
    seconds: float
    starts: int
    jvm: int
    worker: int


def main(arguments: Sequence[str]) -> int:
    """Fill a topic, run the streams, and print one line for each run and a summary."""
    asked = _parser().parse_args(arguments)
    reason = missing() or available()
    if reason is not None:
        print(f"tools.spark soak: {reason}", file=sys.stderr)
        return 1
    folder = Path(asked.output or tempfile.mkdtemp(prefix="spark-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open_kafka() as kafka:
            return _soak(asked, kafka, folder)
    except KafkaNotAvailable as error:
        print(f"tools.spark soak: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.spark soak", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records in the topic")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--compression", default=None, help="codec of the topic's batches")
    parser.add_argument("--master", default="local[2]", help="local[2,4] lets Spark retry a task")
    parser.add_argument("--heap", default="1g", help="largest heap of the driver's JVM")
    parser.add_argument("--per-trigger", type=int, default=None, help="maxOffsetsPerTrigger")
    parser.add_argument("--queries", type=int, default=1, help="streams one after the other a run")
    parser.add_argument(
        "--connector", action="store_true", help="every other query by Spark's own connector"
    )
    parser.add_argument("--restarts", type=int, default=0, help="kills of the driver in each run")
    parser.add_argument(
        "--full-jit", action="store_true", help="the JVM's default compilers and GC"
    )
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for a run")
    parser.add_argument("--output", help="folder for what failed runs leave behind")
    return parser


def _soak(asked: argparse.Namespace, kafka: RealKafka, folder: Path) -> int:
    topic, began = f"soak-{uuid.uuid4().hex[:8]}", time.monotonic()
    kafka.create_topic(topic, asked.partitions, None, {})
    each = -(-asked.rows // asked.partitions)
    asyncio.run(_fill(kafka.bootstrap_servers, topic, asked, each))
    rows = each * asked.partitions
    print(f"{rows:,} records written in {time.monotonic() - began:.0f} s; {folder}", flush=True)
    runs = []
    for number in range(1, asked.runs + 1):
        place = folder / f"run-{number}"
        run = _run(asked, kafka.bootstrap_servers, topic, each, place)
        runs.append(run)
        print(
            f"run {number:>3}  {run.seconds:6.1f} s  {run.starts} starts  "
            f"JVM {run.jvm >> 20} MB, Python {run.worker >> 20} MB  {run.problem or 'ok'}",
            flush=True,
        )
        if run.problem is None:
            shutil.rmtree(place)
    failed = sum(run.problem is not None for run in runs)
    middle = statistics.median(run.seconds for run in runs)
    print(f"{len(runs) - failed} of {len(runs)} runs ok, {middle:.1f} s each in the middle")
    return 1 if failed else 0


async def _fill(bootstrap: str, topic: str, asked: argparse.Namespace, each: int) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=asked.compression,
        max_batch_size=131_072,
        linger_ms=5,
    ) as producer:
        for first in range(0, each, _CHUNK):
            numbers = range(first, min(first + _CHUNK, each))
            values = [(b"%d" % number).ljust(asked.size, b".") for number in numbers]
            last = [
                (await producer.send_many(topic, values, partition=partition))[-1]
                for partition in range(asked.partitions)
            ]
            for ack in last:
                await ack


# --- one run


def _run(asked: argparse.Namespace, bootstrap: str, topic: str, each: int, place: Path) -> Run:
    """Read the topic in a new driver, which is killed and restarted if requested."""
    place.mkdir()
    rows = each * asked.partitions
    per_trigger = asked.per_trigger or (
        rows // (4 * asked.restarts + 4) if asked.restarts else None
    )
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **({"maxOffsetsPerTrigger": str(per_trigger)} if per_trigger else {}),
    }
    began, jvm, worker = time.monotonic(), 0, 0
    deadline = began + asked.timeout
    batches = -(-rows // per_trigger) if per_trigger else 1
    kills = [batches * (number + 1) // (asked.restarts + 1) for number in range(asked.restarts)]
    for starts in range(1, asked.restarts + 2):
        kill_at = kills[starts - 1] if starts <= len(kills) else None
        driver = _start(asked, options, place)
        try:
            while driver.poll() is None and time.monotonic() < deadline:
                time.sleep(_LOOK)
                now_jvm, now_worker = _memory(driver.pid)
                jvm, worker = max(jvm, now_jvm), max(worker, now_worker)
                if kill_at is not None and len(list(place.glob("found/0-*.json"))) >= kill_at:
                    time.sleep(random.uniform(0, _LATER))
                    break
            late = time.monotonic() >= deadline
            code = driver.poll()
        finally:
            _kill(driver)
        if late or (code is not None and kill_at is None) or code not in (None, 0):
            break
    problem = _problem(place, code, late, asked, each)
    return Run(problem, time.monotonic() - began, starts, jvm, worker)


def _start(
    asked: argparse.Namespace, options: Mapping[str, str], place: Path
) -> subprocess.Popen[bytes]:
    given = {
        "options": options,
        "folder": str(place),
        "master": asked.master,
        "heap": asked.heap,
        "queries": asked.queries,
        "connector": asked.connector,
        "quick": not asked.full_jit,
    }
    with (place / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tools.spark.soak_driver", json.dumps(given)],
            cwd=place,
            env={
                **os.environ,
                "PYTHONFAULTHANDLER": "1",
                "TMPDIR": str(place),  # files that a killed driver leaves behind
                "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            },
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill the driver and its JVM if it is still running."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def _problem(
    place: Path, code: int | None, late: bool, asked: argparse.Namespace, each: int
) -> str | None:
    if late:
        return f"not done within {asked.timeout:.0f} s"
    if code != 0:
        said = (place / "said.txt").read_text(errors="replace").splitlines()
        telling = [line.strip() for line in said if _TELLING.search(line)]
        crashes = [path.name for path in place.glob("hs_err*")]
        return f"exit code {code}: {'; '.join([*crashes, *telling[-3:]])[:600] or 'said nothing'}"
    for query in range(asked.queries):
        found = [
            (int(path.stem.split("-")[1]), json.loads(path.read_text()))
            for path in sorted(place.glob(f"found/{query}-*.json"))
        ]
        try:
            problem = check(merged(found), asked.partitions, each)
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            return problem
    return None


def merged(found: Sequence[tuple[int, Mapping[str, Sequence[int]]]]) -> Facts:
    """The records delivered by all micro-batches, each counted once.

    Args:
        found: The records that one attempt delivered, by micro-batch.

    Raises:
        ValueError: Two attempts of one micro-batch delivered different records.
    """
    batches: dict[int, Mapping[str, Sequence[int]]] = {}
    for number, facts in found:
        if batches.setdefault(number, facts) != facts:
            raise ValueError(f"micro-batch {number} was repeated with other records")
    total: Facts = {}
    for facts in batches.values():
        for partition, (count, first, last, offsets) in facts.items():
            before = total.get(partition, (0, first, last, 0))
            total[partition] = (
                before[0] + count,
                min(before[1], first),
                max(before[2], last),
                before[3] + offsets,
            )
    return total


def check(total: Facts, partitions: int, each: int) -> str | None:
    """The problem if not every offset of the partitions was delivered once; else None."""
    right = (each, 0, each - 1, each * (each - 1) // 2)
    wrong = {
        number: total.get(str(number))
        for number in range(partitions)
        if total.get(str(number)) != right
    }
    return f"delivered {wrong} instead of {right} a partition" if wrong else None


# --- memory


def _memory(root: int) -> tuple[int, int]:
    """Resident bytes of the largest JVM and of the largest Python process below `root`."""
    jvm = python = 0
    for pid in _below(root):
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        size = pages * os.sysconf("SC_PAGE_SIZE")
        if name == "java":
            jvm = max(jvm, size)
        elif name.startswith("python"):
            python = max(python, size)
    return jvm, python


def _below(root: int) -> Iterator[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:  # the list grows during the iteration
        found += [child for child, parent in parents.items() if parent == pid]
    yield from found[1:]
