"""The pipeline demo: counts orders per minute, from Kafka through Spark and back to Kafka.

A producer sends slightly unordered orders to the embedded broker. The bundled pipeline `window`
runs on Spark in its own process and counts them by minute and item. The asyncio consumer reads
its output and checks that every window appears once, with the right sums. Then SIGTERM ends the
pipeline, as for a service.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.spark.pipeline.spark_session import need_spark
from aiokafka_lite.testing import FakeCluster

if TYPE_CHECKING:
    from aiokafka_lite.spark.pipeline.commands import Commands

ORDERS, RESULTS = "orders", "orders-by-minute"
PARTITIONS = 6
ITEMS = ("tea", "coffee", "cake", "bread", "soup")
MINUTES = 10  # of orders, sent in `SENDING` seconds
SENDING = 12.0
LATE = 20.0  # seconds that an order may be late; the watermark is 30
PATIENCE = 180.0  # seconds for all windows after the last order; a cold JVM starts meanwhile
ENDING = 30.0  # seconds for the pipeline to end
QUICK = {
    # The optimizing compiler does not pay off in a JVM that lives for a minute.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
}
BEGIN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class Group(NamedTuple):
    """The group key of the pipeline."""

    minute: datetime
    item: str


class Sums(NamedTuple):
    rows: int
    amount: float


@dataclass(slots=True)
class Ledger:
    """The expected sums, updated while orders are sent."""

    expected: dict[Group, Sums] = field(default_factory=dict)
    found: dict[Group, list[Sums]] = field(default_factory=lambda: defaultdict(list))

    def ordered(self, at: datetime, item: str, amount: float) -> None:
        group = Group(at.replace(second=0, microsecond=0), item)
        rows, total = self.expected.get(group, Sums(0, 0.0))
        self.expected[group] = Sums(rows + 1, total + amount)

    def read(self, value: bytes) -> None:
        row = json.loads(value)
        group = Group(datetime.fromisoformat(row["window_start"]), row["item"])
        self.found[group].append(Sums(row["rows"], row["amount"]))

    def problems(self) -> Iterator[str]:
        for group in sorted(self.expected.keys() | self.found.keys()):
            wanted, got = self.expected.get(group), self.found.get(group, [])
            if got != [wanted]:
                yield f"{group.minute:%H:%M} {group.item}: expected {wanted} once, got {got}"


def add_command(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo", help="run a demo that counts orders per minute and checks the result"
    )
    demo.add_argument(
        "--orders", metavar="N", type=int, default=60_000, help="number of orders; default: 60,000"
    )
    demo.add_argument(
        "--master", metavar="URL", default="local[2]", help="Spark master; default: local[2]"
    )
    demo.set_defaults(execute=_run)


def _run(args: argparse.Namespace) -> int:
    if args.orders < 1:
        raise ValueError("--orders must be at least 1")
    need_spark()
    try:
        return asyncio.run(_demo(args.orders, args.master))
    except asyncio.CancelledError:
        print("demo: ended by SIGTERM", file=sys.stderr)
        return 1


async def _demo(orders: int, master: str) -> int:
    # The Spark process must not outlive the demo.
    demo = asyncio.current_task()
    if demo is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, demo.cancel)
    began = time.monotonic()
    ledger = Ledger()
    topics = {ORDERS: PARTITIONS, RESULTS: 3}
    with tempfile.TemporaryDirectory(prefix="aiokafka-lite-pipeline-") as folder:
        async with FakeCluster(topics=topics) as cluster:
            bootstrap = cluster.bootstrap_servers
            print(
                f"Kafka: the embedded broker at {bootstrap}; Spark: {master}, starting", flush=True
            )
            pipeline = await _start(bootstrap, master, f"{folder}/checkpoint")
            try:
                await _produce(bootstrap, orders, ledger)
                print(f"sent {orders:,} orders of {MINUTES} minutes", flush=True)
                await _read(bootstrap, ledger, pipeline)
                status = await _end(pipeline)
            finally:
                if pipeline.returncode is None:
                    pipeline.kill()
                    await pipeline.wait()
    problems = list(ledger.problems())
    for problem in problems[:5]:
        print(f"  {problem}")
    windows = len(ledger.expected)
    if problems or status:
        print(
            f"FAILED: {len(problems)} of {windows} sums are wrong; exit status of the pipeline: "
            f"{status}"
        )
        return 1
    print(
        f"OK: {windows} sums of {orders:,} orders came through Spark, each once and correct,"
        f" in {time.monotonic() - began:.0f} s"
    )
    return 0


async def _start(bootstrap: str, master: str, checkpoint: str) -> asyncio.subprocess.Process:
    values = {"bootstrap": bootstrap, "from": ORDERS, "to": RESULTS, "checkpoint": checkpoint}
    settings = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    for name, value in QUICK.items():
        settings += ["--conf", f"{name}={value}"]
    command = ["-m", "aiokafka_lite", "pipeline", "run", "window", "--master", master, *settings]
    # Like the broker, Spark listens only on loopback; by default it resolves the host name.
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ}
    return await asyncio.create_subprocess_exec(sys.executable, *command, env=environment)


async def _produce(bootstrap: str, orders: int, ledger: Ledger) -> None:
    """Send the orders evenly over `SENDING` seconds, then one that closes every window."""
    chance = random.Random(8)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:

        async def send(number: int, at: datetime, item: str, price: float, quantity: int) -> None:
            order = {
                "order_id": f"order-{number:07d}",
                "item": item,
                "price": price,
                "quantity": quantity,
                "ordered_at": at.isoformat(),
            }
            await producer.send(ORDERS, json.dumps(order).encode(), key=item.encode())

        for number in range(orders):
            share = number / orders
            since = max(0.0, share * MINUTES * 60 - chance.uniform(0, LATE))
            at = BEGIN + timedelta(milliseconds=int(since * 1000))
            item = chance.choice(ITEMS)
            price, quantity = chance.randrange(4, 60) * 0.25, chance.randint(1, 4)
            await send(number, at, item, price, quantity)
            ledger.ordered(at, item, price * quantity)
            if number % 500 == 0:
                await producer.flush()
                await asyncio.sleep(max(0.0, began + share * SENDING - loop.time()))
        await producer.flush()
        await send(orders, BEGIN + timedelta(hours=1), ITEMS[0], 1.0, 1)


async def _read(bootstrap: str, ledger: Ledger, pipeline: asyncio.subprocess.Process) -> None:
    """Read until every window has arrived, the pipeline has ended, or `PATIENCE` has expired."""
    consumer = AIOKafkaConsumer(RESULTS, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while ledger.expected.keys() - ledger.found.keys():
                    if pipeline.returncode is not None:
                        return
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        for record in records:
                            ledger.read(record.value or b"")


async def _end(pipeline: asyncio.subprocess.Process) -> int | str:
    if pipeline.returncode is None:
        pipeline.terminate()
    try:
        async with asyncio.timeout(ENDING):
            return await pipeline.wait()
    except TimeoutError:
        return f"nothing within {ENDING:.0f} s of SIGTERM"
