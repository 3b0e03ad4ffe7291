"""Fails if a record costs more instructions, requests or objects than before: `make bench-gate`.

    .venv/bin/python -m benchmarks.gate [WORK ...]

Counts do not depend on the machine's speed or load. Valgrind counts the instructions of a client's
process. The gate runs it twice, with few and with many records, to subtract the instructions of its
start. Instructions depend on how Python was compiled, so their limits are ratios to a reference,
which creates an `asyncio.Future`, resolves it and awaits it. The ratios were set with CPython 3.11:
other versions only print that a ratio is exceeded. The embedded broker runs in the runner's
process. The client itself counts requests and kept objects, in a run without valgrind.

A limit of instructions is a sixth above the count at the time it was set. If a change exceeds a
limit on purpose, explain why in the commit that raises it. Lower the limit after an improvement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.testing import FakeCluster

FEW: Final = 20_000
MANY: Final = 120_000
PARTITIONS: Final = 6
VALUES: Final = [b"%0100d" % number for number in range(1000)]
REFERENCE: Final = "future"
_INSTRUCTIONS: Final = re.compile(r"I\s+refs:\s+([\d,]+)")


@dataclass(frozen=True)
class Limit:
    """Maximum cost of a record.

    Attributes:
        instructions: Ratio to the instructions of the reference.
        requests: Requests per 1,000 records.
        kept: Python memory blocks per record that exist after all records are sent or read.
    """

    instructions: float
    requests: float
    kept: float


LIMITS: Final = {
    "send": Limit(1.05, 2.5, 1.15),
    "send_many": Limit(0.35, 2.5, 0.1),
    "send_columns": Limit(0.4, 2.5, 0.1),
    "iterate": Limit(0.6, 0.3, 0.05),
    "lists": Limit(0.42, 0.3, 0.05),
    "columns": Limit(0.16, 0.3, 0.05),
}


def _requests(client: AIOKafkaProducer | AIOKafkaConsumer) -> float:
    return sum(node["request-total"] or 0.0 for node in client.node_metrics().values())


async def _reference(_: str, records: int) -> tuple[float, int]:
    loop = asyncio.get_running_loop()
    for _ in range(records):
        future = loop.create_future()
        future.set_result(None)
        await future
    return 0.0, 0


async def _produce(
    servers: str, records: int, send: Callable[[AIOKafkaProducer, int], Awaitable[object]]
) -> tuple[float, int]:
    async with AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        await producer.send_and_wait("written", b"first")
        before, blocks = _requests(producer), sys.getallocatedblocks()
        kept = await send(producer, records)
        await producer.flush()
        blocks = sys.getallocatedblocks() - blocks
        del kept
        return _requests(producer) - before, blocks


async def _send(producer: AIOKafkaProducer, records: int) -> object:
    acks = [await producer.send("written", VALUES[at % 1000]) for at in range(records)]
    for ack in acks:
        await ack
    return acks


async def _send_many(producer: AIOKafkaProducer, records: int) -> object:
    sent = [await producer.send_many("written", VALUES) for _ in range(records // 1000)]
    for each in sent:
        await each
    return sent


async def _send_columns(producer: AIOKafkaProducer, records: int) -> object:
    data = b"".join(VALUES)
    offsets = memoryview(b"".join((100 * at).to_bytes(4, sys.byteorder) for at in range(1001)))
    column = (data, offsets.cast("i"))
    sent = [await producer.send_columns("written", column) for _ in range(records // 1000)]
    for each in sent:
        await each
    return sent


async def _consume(
    servers: str, records: int, read: Callable[[AIOKafkaConsumer, int], Awaitable[None]]
) -> tuple[float, int]:
    async with AIOKafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        before, blocks = _requests(consumer), sys.getallocatedblocks()
        consumer.assign([TopicPartition("read", number) for number in range(PARTITIONS)])
        await read(consumer, records)
        blocks = sys.getallocatedblocks() - blocks
        return _requests(consumer) - before, blocks


async def _iterate(consumer: AIOKafkaConsumer, records: int) -> None:
    async for record in consumer:
        len(record.value)
        records -= 1
        if not records:
            break


async def _lists(consumer: AIOKafkaConsumer, records: int) -> None:
    while records > 0:
        for some in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
            for record in some:
                len(record.value)
            records -= len(some)


async def _columns(consumer: AIOKafkaConsumer, records: int) -> None:
    async with consumer.batches(columns=True) as batches:
        async for batch in batches:
            records -= len(batch)
            if records <= 0:
                break


WORKS: Final[dict[str, Callable[[str, int], Awaitable[tuple[float, int]]]]] = {
    REFERENCE: _reference,
    "send": lambda servers, records: _produce(servers, records, _send),
    "send_many": lambda servers, records: _produce(servers, records, _send_many),
    "send_columns": lambda servers, records: _produce(servers, records, _send_columns),
    "iterate": lambda servers, records: _consume(servers, records, _iterate),
    "lists": lambda servers, records: _consume(servers, records, _lists),
    "columns": lambda servers, records: _consume(servers, records, _columns),
}


def _run(work: str, servers: str, records: int, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "benchmarks.gate", "--do", work, servers]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, str(records)], capture_output=True, text=True, env=environment, timeout=300
    )
    if done.returncode:
        raise SystemExit(f"{work} failed:\n{done.stderr[-4000:]}")
    return done


def _instructions(work: str, servers: str, records: int) -> int:
    valgrind = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]
    found = _INSTRUCTIONS.search(_run(work, servers, records, *valgrind).stderr)
    if found is None:
        raise SystemExit("valgrind's output has no instruction count")
    return int(found[1].replace(",", ""))


async def _fill(servers: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for _ in range(MANY // 1000):
            await producer.send_many("read", VALUES)


def judge(works: list[str]) -> int:
    """Measure the works; return 1 if a limit is exceeded."""
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind, which counts the instructions, is not installed")
        return 0
    topics = {"written": PARTITIONS, "read": PARTITIONS}
    exceeded = False
    with FakeCluster(topics=topics) as cluster, ThreadPoolExecutor(2) as pool:
        servers = cluster.bootstrap_servers
        asyncio.run(_fill(servers))
        counts = {
            work: [pool.submit(_instructions, work, servers, number) for number in (FEW, MANY)]
            for work in [REFERENCE, *works]
        }
        per_record = {
            work: (many.result() - few.result()) / (MANY - FEW)
            for work, (few, many) in counts.items()
        }
        unit = per_record[REFERENCE]
        print(f"{'per record':<14}{'instructions':>14}{'of a future':>13}{'limit':>7}", end="")
        print(f"{'requests/1000':>15}{'limit':>7}{'kept':>8}{'limit':>7}")
        print(f"{REFERENCE:<14}{unit:>14.0f}{1:>13.2f}")
        for work in works:
            requests, blocks = json.loads(_run(work, servers, MANY).stdout)
            limit = LIMITS[work]
            ratio, thousand, kept = per_record[work] / unit, 1000 * requests / MANY, blocks / MANY
            slower = ratio > limit.instructions
            over = thousand > limit.requests or kept > limit.kept
            exceeded |= over or (slower and sys.version_info[:2] == (3, 11))
            print(
                f"{work:<14}{per_record[work]:>14.0f}{ratio:>13.2f}{limit.instructions:>7}", end=""
            )
            print(f"{thousand:>15.2f}{limit.requests:>7}{kept:>8.3f}{limit.kept:>7}", end="")
            print("  EXCEEDED" if over or slower else "")
    return int(exceeded)


def main() -> int:
    """Run the gate, or one work as its child process."""
    if sys.argv[1:2] == ["--do"]:
        _, _, work, servers, records = sys.argv
        print(json.dumps(asyncio.run(_result(work, servers, int(records)))))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("works", nargs="*", choices=[*LIMITS, []], metavar="WORK")
    return judge(parser.parse_args().works or list(LIMITS))


async def _result(work: str, servers: str, records: int) -> tuple[float, int]:
    return await WORKS[work](servers, records)


if __name__ == "__main__":
    sys.exit(main())
