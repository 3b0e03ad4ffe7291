"""Measures the embedded broker: its start, tests that use it, and its throughput.

    python -m benchmarks.embedded                everything, five rounds
    python -m benchmarks.embedded --rounds 1 --tests 200

- start: the time to import `FakeCluster` and start it in a new interpreter (asyncio is already
  imported), and the time to start and stop it in a process that has done so before.
- tests: the time of a pytest process for a generated file of tests, each with a new broker.
- throughput: each client in turn writes records of 100 B in 16 KiB batches and reads them. The
  standalone broker runs on one core, and the client on another. The table also shows the broker's
  own CPU per record.

The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .work import Work

WARM_START = 0.050  # seconds, in a process that has started a broker before
TESTS_A_SECOND = 1000 / 60
RECORDS_A_SECOND = 200_000
SIZE = 100  # bytes per value
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

COLD = """
import asyncio, time
began = time.perf_counter()
from aiokafka_lite.testing import FakeCluster
with FakeCluster():
    cold = time.perf_counter() - began
began = time.perf_counter()
for _ in range(50):
    with FakeCluster():
        pass
print(cold, (time.perf_counter() - began) / 50)
"""

TESTS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_with_a_fresh_broker(kafka_broker, kafka_topic, number):
    assert kafka_broker.produce(kafka_topic, b"x") == 0
    assert len(kafka_broker.records(kafka_topic)) == 1
"""


BESIDE = """
import asyncio, time
from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.testing import FakeCluster

async def main(servers):
    began = time.perf_counter()
    async with AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for _ in range({records}):
            await producer.send("bench", b"x" * {size})
        await producer.flush()
    written = time.perf_counter()
    read = 0
    async with AIOKafkaConsumer(
        "bench", bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        while read < {records}:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
    print({records} / (written - began), {records} / (time.perf_counter() - written))

with FakeCluster(topics={{"bench": 6}}) as cluster:
    asyncio.run(main(cluster.bootstrap_servers))
"""


def starts(rounds: int) -> tuple[float, float]:
    """Return the median seconds of a (cold, warm) start."""
    runs = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", COLD], capture_output=True, text=True, check=True, timeout=60
        )
        runs.append(tuple(map(float, done.stdout.split())))
    cold, warm = zip(*runs, strict=True)
    return statistics.median(cold), statistics.median(warm)


def tests(count: int) -> float:
    """Return the seconds of a pytest run of `count` tests, including the start of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_fresh.py").write_text(TESTS.format(count=count))
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    if f"{count} passed" not in done.stdout:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.perf_counter() - began


@contextmanager
def broker(core: int | None, *options: str) -> Iterator[tuple[int, str]]:
    """Run a standalone broker on `core` (None: any); yield (process id, bootstrap address)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aiokafka_lite", "broker", "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().split()[4]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def measure(work: Work, core: int | None) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", work.dump()],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def throughput(
    client: str, records: int, rounds: int, *options: str
) -> Iterator[tuple[str, float, float]]:
    """Yield the median (direction, records per second, broker's CPU us per record)."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    ours, theirs = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    found: dict[str, list[tuple[float, float]]] = {"in": [], "out": []}
    for _ in range(rounds):
        with broker(ours, "--topics", "bench:6", *options) as (pid, bootstrap):
            for direction, kind in (("in", "produce"), ("out", "consume_lists")):
                work = Work(client, kind, bootstrap, "bench", records, SIZE)
                before = cpu_of(pid)
                rate = measure(work, theirs)["rate"]
                found[direction].append(
                    (rate, (cpu_of(pid) - before) / (records + work.warmup) * 1e6)
                )
    for direction, runs in found.items():
        yield (direction, *(statistics.median(column) for column in zip(*runs, strict=True)))


def beside(records: int, rounds: int) -> tuple[float, float]:
    """Return the (in, out) records per second of a client in the broker's process, as in tests."""
    runs = []
    for _ in range(rounds):
        code = BESIDE.format(records=records, size=SIZE)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
        )
        runs.append(tuple(map(float, done.stdout.split())))
    into, out = zip(*runs, strict=True)
    return statistics.median(into), statistics.median(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--clients", nargs="+", default=["ours", "confluent"])
    args = parser.parse_args()
    missed = []

    cold, warm = starts(args.rounds)
    print(f"start: {cold * 1e3:.0f} ms cold, imports included; {warm * 1e3:.2f} ms warm")
    if warm > WARM_START:
        missed.append("warm start")
    seconds = tests(args.tests)
    print(f"tests: {args.tests:,} with a new broker each in {seconds:.1f} s")
    if args.tests / seconds < TESTS_A_SECOND:
        missed.append("tests")

    print("\n| broker | client | in, records/s | us of broker | out, records/s | us of broker |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, client in enumerate(args.clients):
            for where in ("in memory", "in a folder"):
                options = ["--data-dir", f"{folder}/{number}"] if where == "in a folder" else []
                rounds = args.rounds if not options else 1  # one round fills the folder
                cells = [where, client]
                for direction, rate, cpu in throughput(client, args.records, rounds, *options):
                    cells += [f"{rate:,.0f}", f"{cpu:.2f}"]
                    if not options and client == "ours" and rate < RECORDS_A_SECOND:
                        missed.append(f"records {direction}")
                print("| " + " | ".join(cells) + " |", flush=True)
    into, out = beside(args.records, args.rounds)
    print(f"| in the client's process | ours | {into:,.0f} | - | {out:,.0f} | - |")
    for name in missed:
        print(f"MISSED: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
