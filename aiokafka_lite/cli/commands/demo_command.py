"""The demo: many coroutines produce, one task reads back and checks that nothing is lost.

1,000 coroutines send 200 keyed records each through `AIOKafkaProducer.send`, while a second task
reads the topic with `async for`. A value is a function of its key and number, so the reader can
predict the next record of every key and checks that each arrives once, in order, byte for byte. The
broker is the embedded one on loopback, or any real Kafka with `--bootstrap`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite._build import NATIVE
from aiokafka_lite.cli.demonstration import display
from aiokafka_lite.cli.demonstration.temporary_topic import created_topic
from aiokafka_lite.testing import FakeCluster

PARTITIONS = 6
WINDOW = 20  # unacknowledged records per coroutine before it waits
PATIENCE = 20.0  # seconds without a new record after which the reader gives up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="address of a real Kafka; by default the embedded broker is used",
    )
    parser.add_argument(
        "--records", type=int, default=200_000, help="number of records; default: 200,000"
    )
    parser.add_argument(
        "--tasks", type=int, default=1_000, help="number of sending coroutines; default: 1,000"
    )
    parser.add_argument(
        "--size", type=int, default=100, help="size of each value in bytes; default: 100"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo; return 0 if every record came back once, in order and unchanged, otherwise
    1."""
    if args.records < 1 or args.tasks < 1 or args.size < 32:
        print("demo: --records and --tasks must be at least 1, --size at least 32", file=sys.stderr)
        return 2
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        return uvloop.run(_demo(args))
    return asyncio.run(_demo(args))


class Ledger:
    """The next expected record of every key, and all deviations from it."""

    def __init__(self, records: int, tasks: int, size: int) -> None:
        self.counts = [records // tasks + (n < records % tasks) for n in range(tasks)]
        self.size = size
        self.problems: list[str] = []
        self.unexpected = 0
        self._next = {self.key(n): 0 for n in range(tasks)}

    @staticmethod
    def key(task: int) -> bytes:
        return b"sensor-%05d" % task

    def value(self, key: bytes, number: int) -> bytes:
        head = b"%s #%08d " % (key, number)
        return head.ljust(self.size, b"%c" % (97 + number % 26))

    def check(self, key: bytes | None, value: bytes | None) -> None:
        """Check one record."""
        expected = self._next.get(key) if key is not None else None
        if key is None or expected is None:
            self._problem(f"a record with a key that was never sent: {key!r}")
        elif value != self.value(key, expected):
            self._problem(f"{key.decode()}: expected number {expected}, got {value!r:.60}")
        else:
            self._next[key] = expected + 1

    def missing(self) -> int:
        return sum(self.counts) - sum(self._next.values())

    def _problem(self, text: str) -> None:
        self.unexpected += 1
        if len(self.problems) < 5:
            self.problems.append(text)


async def _demo(args: argparse.Namespace) -> int:
    ledger = Ledger(args.records, args.tasks, args.size)
    async with _kafka(args.bootstrap) as (bootstrap, topic, what):
        hot = "native" if NATIVE else "pure Python (no C compiler was found: slower)"
        print(f"Kafka: {what} at {bootstrap}; hot paths: {hot}")
        print(
            f"{args.records:,} records of {args.size} B from {args.tasks:,} coroutines, and back:"
        )
        progress = display.Progress(args.records)
        async with display.live(progress):
            produced = asyncio.Event()
            reading = _read(bootstrap, topic, ledger, progress, produced)
            reader = asyncio.create_task(reading, name="demo reader")
            try:
                await _produce(bootstrap, topic, ledger, progress)
                produced.set()
                await reader
            finally:
                reader.cancel()
                await asyncio.wait([reader])
    return _verdict(ledger, progress)


@asynccontextmanager
async def _kafka(bootstrap: str | None) -> AsyncIterator[tuple[str, str, str]]:
    """Yield (bootstrap, topic, description) of the broker under test."""
    if bootstrap is not None:
        topic = f"aiokafka-lite-demo-{uuid.uuid4().hex[:8]}"
        async with created_topic(bootstrap, topic, PARTITIONS):
            yield bootstrap, topic, "yours"
    else:
        async with FakeCluster(topics={"demo": PARTITIONS}) as cluster:
            yield cluster.bootstrap_servers, "demo", "the embedded broker"


async def _produce(bootstrap: str, topic: str, ledger: Ledger, progress: display.Progress) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        clock = time.perf_counter

        async def sensor(task: int) -> None:
            key, count = ledger.key(task), ledger.counts[task]
            for first in range(0, count, WINDOW):
                under_way = []
                for number in range(first, min(first + WINDOW, count)):
                    ack = await producer.send(topic, ledger.value(key, number), key)
                    under_way.append((clock(), ack))
                for sent, ack in under_way:
                    await ack
                    progress.latencies.append(clock() - sent)
                progress.acked += len(under_way)

        progress.began = clock()
        async with asyncio.TaskGroup() as sensors:
            for task in range(len(ledger.counts)):
                sensors.create_task(sensor(task))
        progress.produced_in = clock() - progress.began


async def _read(
    bootstrap: str,
    topic: str,
    ledger: Ledger,
    progress: display.Progress,
    produced: asyncio.Event,
) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        watch = asyncio.create_task(_stop_when_silent(consumer, progress), name="demo watch")
        try:
            async for record in consumer:
                ledger.check(record.key, record.value)
                progress.read += 1
                if progress.read >= progress.total:
                    break
            progress.read_in = time.perf_counter() - progress.began
            if progress.read >= progress.total:  # otherwise the reader timed out
                await produced.wait()
                await _read_the_rest(consumer, ledger, progress)
        finally:
            watch.cancel()
            await asyncio.wait([watch])


async def _read_the_rest(
    consumer: AIOKafkaConsumer, ledger: Ledger, progress: display.Progress
) -> None:
    """Read to the end of the topic after sending; there must be no more records."""
    ends = await consumer.end_offsets(consumer.assignment())
    while any([await consumer.position(tp) < end for tp, end in ends.items()]):
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for record in records:
                ledger.check(record.key, record.value)
                progress.read += 1


async def _stop_when_silent(consumer: AIOKafkaConsumer, progress: display.Progress) -> None:
    """Stop the reader's `async for` after `PATIENCE` seconds without records."""
    last, since = -1, time.perf_counter()
    while time.perf_counter() - since < PATIENCE:
        if progress.read != last:
            last, since = progress.read, time.perf_counter()
        await asyncio.sleep(0.5)
    await consumer.stop()


def _verdict(ledger: Ledger, progress: display.Progress) -> int:
    p50, p99, worst = progress.percentiles(0.5, 0.99, 1.0)
    print(
        f"produced {progress.acked:,} in {progress.produced_in or 0:.2f} s "
        f"({progress.produce_rate():,.0f}/s; send to ack p50 {p50:.2f}, p99 {p99:.2f}, "
        f"max {worst:.2f} ms); read back {progress.read:,} ({progress.read_rate():,.0f}/s)"
    )
    for problem in ledger.problems:
        print(f"  unexpected: {problem}")
    missing = ledger.missing()
    if missing or ledger.unexpected or progress.acked != progress.total:
        print(f"FAILED: {missing:,} records missing, {ledger.unexpected:,} unexpected")
        return 1
    print("OK: every record came back once, in order by key, byte for byte")
    return 0
