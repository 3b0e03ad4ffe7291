"""Compares the share consumer with Java's and with the plain consumer, with its own real Kafka.

    python -m benchmarks.share                       both parts
    python -m benchmarks.share cost --rounds 7 --records 300000
    python -m benchmarks.share latency

- cost: CPU per record of `run` with a handler that does nothing and concurrency 1,000, of
  `async for` with `accept`, of the plain consumer's `async for`, and of Java's KafkaShareConsumer
  that acknowledges each record. The rows read the same topic in turns, each time in a new group.
  Each client's process has read as many records before. Start and stop are included.
- latency: 100 records per second in one process. The part measures the time from `send` until the
  application has received and accepted the record, compared with the plain consumer's read, and
  the time until the broker has the acceptance.

The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer, ShareRecord
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from tools.kafka import KafkaCluster, jars, jvm
from tools.kafka.releases import NEWEST

from .topics import create_topic, load_topic
from .work import Meter

OF_PLAIN = 3.0
OF_JAVA = 0.5
OF_PLAIN_P99 = 1.5
CONCURRENCY = 1000
PARTITIONS = 6
SIZE = 100
PACE = 100  # records per second of the latency part
TOPIC = "bench-share"
JAVA = Path(__file__).parent / "java" / "ShareGroup.java"

RUN, EACH, PLAIN = "run", "async for and accept", "plain async for"
JAVA_ASYNC, JAVA_SYNC = "Java, commitAsync", "Java, commitSync"
ROWS = (RUN, EACH, PLAIN, JAVA_ASYNC, JAVA_SYNC)

Figures = dict[str, Any]
_groups = itertools.count()


async def new_group(servers: str) -> str:
    """Return a new share group that starts at the earliest offset."""
    group = f"bench-{os.getpid()}-{next(_groups)}"
    changes = {"share.auto.offset.reset": "earliest"}
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        result = await admin.incremental_alter_configs({ConfigResource("group", group): changes})
        result.raise_for_errors()
    return group


# --- cost


async def read_by_run(servers: str, topic: str, group: str, count: int) -> int:
    seen = 0
    enough = asyncio.Event()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            enough.set()

    async with AIOKafkaShareConsumer(topic, bootstrap_servers=servers, group_id=group) as consumer:
        running = asyncio.create_task(consumer.run(handle, concurrency=CONCURRENCY))
        await enough.wait()
    await running
    return seen


async def read_by_each(servers: str, topic: str, group: str, count: int) -> int:
    seen = 0
    async with AIOKafkaShareConsumer(topic, bootstrap_servers=servers, group_id=group) as consumer:
        async for record in consumer:
            record.accept()
            seen += 1
            if seen == count:
                break
    return seen


async def read_plainly(servers: str, topic: str, group: str, count: int) -> int:
    seen = 0
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        async for _ in consumer:
            seen += 1
            if seen == count:
                break
    return seen


READERS = {RUN: read_by_run, EACH: read_by_each, PLAIN: read_plainly}


async def serve_turns(servers: str) -> None:
    """Run a turn for each line of JSON on standard input, and print its figures as JSON."""
    for line in sys.stdin:
        row, topic, group, count = json.loads(line)
        meter = Meter()
        meter.start()
        seen = await READERS[row](servers, topic, group, count)
        print(json.dumps(meter.stop(seen)), flush=True)


Turn = Callable[[str, str, str, int], Figures]
"""Function that takes row, topic, group and number of records, and returns the figures."""


@contextmanager
def process(command: list[str]) -> Iterator[Callable[[str], str]]:
    """Start a process that answers each line with a line; yield a function that asks it."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line: str) -> str:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the process has no pipes")
        child.stdin.write(line + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        if not answer:
            raise SystemExit(f"{command[0]} failed")
        return answer

    try:
        yield ask
    finally:
        child.communicate(timeout=60)


@contextmanager
def ours(servers: str) -> Iterator[Turn]:
    command = [sys.executable, "-m", "benchmarks.share", "--serve", servers]
    with process(command) as ask:

        def turn(row: str, topic: str, group: str, count: int) -> Figures:
            figures: Figures = json.loads(ask(json.dumps([row, topic, group, count])))
            return figures

        yield turn


@contextmanager
def java(servers: str) -> Iterator[Turn]:
    command = [jars.java(), *jvm.options(NEWEST, quick=False)]
    command += ["-Dorg.apache.logging.log4j.level=OFF", "-cp", jars.class_path(), str(JAVA)]
    with process([*command, servers]) as ask:

        def turn(row: str, topic: str, group: str, count: int) -> Figures:
            how = "sync" if row == JAVA_SYNC else "async"
            answer = ask(f"{topic} {group} {count} {how}").split()
            cpu, seconds, records, size = (float(each) for each in answer)
            if records < count or size != records * SIZE:
                raise SystemExit(f"Java read {records} records with {size} bytes")
            return {"cpu_us": cpu, "rate": records / seconds, "records": int(records)}

        yield turn


async def cost(servers: str, records: int, rounds: int, rows: list[str]) -> bool:
    await asyncio.to_thread(create_topic, servers, TOPIC, PARTITIONS)
    await asyncio.to_thread(
        load_topic,
        servers,
        TOPIC,
        records=records,
        size=SIZE,
        compression=None,
        partitions=PARTITIONS,
    )
    found: dict[str, list[Figures]] = {row: [] for row in rows}
    with ours(servers) as our_turn, java(servers) as java_turn:
        for number in range(rounds + 1):
            start = number % len(rows)
            for row in [*rows[start:], *rows[:start]]:
                turn = our_turn if row in READERS else java_turn
                group = await new_group(servers)
                figures = await asyncio.to_thread(turn, row, TOPIC, group, records)
                if number:  # the first round warms up
                    found[row].append(figures)
                line = f"{figures['cpu_us']:.2f} us, {figures['rate']:,.0f} records/s"
                print(f"#   round {number}, {row}: {line}", flush=True)
    print_table(found, "cpu_us", "rate")
    return all(
        [
            judged(found, RUN, PLAIN, "cpu_us", OF_PLAIN),
            judged(found, RUN, JAVA_ASYNC, "cpu_us", OF_JAVA),
        ]
    )


# --- latency


async def latencies(
    servers: str, topic: str, row: str, count: int
) -> tuple[list[float], list[float]]:
    """Return seconds per record from `send` to the application, and to the broker's confirmation.

    The plain consumer has no confirmations.
    """
    arrived: list[float] = []
    confirmed: list[float] = []
    sent: dict[bytes, float] = {}
    ready = asyncio.Event()

    async def read_shared() -> None:
        group = await new_group(servers)
        async with AIOKafkaShareConsumer(
            topic, bootstrap_servers=servers, group_id=group
        ) as consumer:
            ready.set()
            async for record in consumer:
                began = sent.get(record.value or b"")
                acceptance = record.accept()
                if began is None:
                    continue  # the record belongs to an earlier row
                arrived.append(time.perf_counter() - began)
                acceptances.append((acceptance, began))
                if len(arrived) == count:
                    break

    async def read_alone() -> None:
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="latest"
        ) as consumer:
            await consumer.seek_to_end()
            ready.set()
            async for record in consumer:
                began = sent.get(record.value or b"")
                if began is None:
                    continue
                arrived.append(time.perf_counter() - began)
                if len(arrived) == count:
                    break

    acceptances: list[tuple[Any, float]] = []

    async def look() -> None:
        """Record when acceptances are confirmed; awaiting them would send them earlier."""
        while True:
            now = time.perf_counter()
            while acceptances and acceptances[0][0].done():
                acceptance, began = acceptances.pop(0)
                acceptance.result()
                confirmed.append(now - began)
            await asyncio.sleep(0.001)

    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        reading = asyncio.create_task(read_alone() if row == PLAIN else read_shared())
        looking = asyncio.create_task(look())
        await asyncio.wait_for(ready.wait(), 60)
        await asyncio.sleep(1)
        began = time.perf_counter()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
            value = f"{row} {os.getpid()} {began} {number}".encode()
            sent[value] = time.perf_counter()
            await producer.send(topic, value)
        await asyncio.wait_for(reading, 60)
        looking.cancel()
        await asyncio.wait([looking])
    return arrived, confirmed


async def latency(servers: str, seconds: int, rounds: int) -> bool:
    topic = f"{TOPIC}-latency"
    await asyncio.to_thread(create_topic, servers, topic, 1)
    found: dict[str, list[Figures]] = {EACH: [], PLAIN: []}
    for number in range(rounds + 1):
        for row in (EACH, PLAIN) if number % 2 else (PLAIN, EACH):
            arrived, confirmed = await latencies(servers, topic, row, seconds * PACE)
            figures = {"p50_ms": percentile(arrived, 50), "p99_ms": percentile(arrived, 99)}
            if confirmed:
                figures |= {f"confirmed_p{n}_ms": percentile(confirmed, n) for n in (50, 99)}
            if number:
                found[row].append(figures)
            told = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
            print(f"#   round {number}, {row}: {told}", flush=True)
    print_table(found, "p50_ms", "p99_ms", "confirmed_p50_ms", "confirmed_p99_ms")
    return judged(found, EACH, PLAIN, "p99_ms", OF_PLAIN_P99)


def percentile(seconds: list[float], share: int) -> float:
    """Return a percentile in milliseconds."""
    return statistics.quantiles(seconds, n=100)[share - 1] * 1e3


# --- report


def print_table(found: Mapping[str, list[Figures]], *figures: str) -> None:
    for row, runs in found.items():
        told = []
        for figure in figures:
            values = [run[figure] for run in runs if figure in run]
            if values:
                told.append(f"{figure} {statistics.median(values):,.2f} (min {min(values):,.2f})")
        print(f"{row}: {', '.join(told)}")


def judged(
    found: Mapping[str, list[Figures]], row: str, reference: str, figure: str, most: float
) -> bool:
    """Print the verdict of a bar; return False if the bar is missed."""
    if not found.get(row) or not found.get(reference):
        return True
    value, unit = (statistics.median(run[figure] for run in found[r]) for r in (row, reference))
    met: bool = value <= most * unit
    told = f"{row}: {figure} at most {most:g} of {reference}: {value / unit:.2f}"
    print(f"{'met   ' if met else 'MISSED'} {told}")
    return met


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share", description=__doc__)
    parser.add_argument("parts", nargs="*", help="cost, latency (default: both)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=15, help="duration of a latency round")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=ROWS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(serve_turns(asked.serve))
        return
    met = True
    with KafkaCluster(nodes=1, quick=False, heap="1g") as cluster:
        servers = cluster.bootstrap_servers
        for part in asked.parts or ["cost", "latency"]:
            print(f"# {part}: Apache Kafka {cluster.version}, {os.cpu_count()} cores", flush=True)
            if part == "cost":
                met = asyncio.run(cost(servers, asked.records, asked.rounds, asked.rows)) and met
            elif part == "latency":
                met = asyncio.run(latency(servers, asked.seconds, asked.rounds)) and met
            else:
                raise SystemExit(f"no part {part!r}")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
