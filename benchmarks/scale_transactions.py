"""Measures the cost per producer of many transactional producers in one process.

    python -m benchmarks.scale_transactions --producers 10000

The producers start, a limited number at a time; the embedded broker runs in its own process. Then
each producer runs one transaction of one record, and all stop. CPU and memory are those of the
client process. Each producer has a connection to the coordinator, one to the leader and one for
metadata, so the limit of open files (`ulimit -n`) must allow four files per producer, in this
process and in the cluster's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aiokafka_lite import AIOKafkaProducer

from .loop_watch import Watch
from .scale import Cluster, memory

AT_ONCE = 50
PARTITIONS = 10


async def each(
    name: str,
    producers: Sequence[AIOKafkaProducer],
    step: Callable[[AIOKafkaProducer], Awaitable[object]],
) -> None:
    """Run a step for all producers, and print its cost."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(producer: AIOKafkaProducer) -> None:
        async with turns:
            await step(producer)

    gc.collect()
    watch = Watch()
    before, cpu, began = memory(), time.process_time(), time.perf_counter()
    await asyncio.gather(*map(one, producers))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    blocked, without_gc = watch.blocked * 1e3, watch.without_gc * 1e3
    watch.stop()
    gc.collect()
    count = len(producers)
    print(
        f"{name:12}{used / count * 1e3:6.2f} ms CPU each, {took:6.1f} s in total, "
        f"{(memory() - before) * 1024 / count:6.1f} KiB each, "
        f"blocked {blocked:.1f} ms ({without_gc:.1f} without collections)",
        flush=True,
    )


def open_files() -> int:
    """Return the number of open files of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def transact(producer: AIOKafkaProducer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("topic-0", b"x")


async def idle(seconds: float) -> None:
    cpu = time.process_time()
    await asyncio.sleep(seconds)
    print(f"{'idle':12}{(time.process_time() - cpu) / seconds:6.1%} of a core for all producers")


async def run(cluster: Cluster, count: int) -> None:
    producers = [
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=f"t-{number}",
            request_timeout_ms=120_000,
        )
        for number in range(count)
    ]
    try:
        await each("start", producers, lambda producer: producer.start())
        await each("transaction", producers, transact)
        files = open_files()
        print(f"{files / count:.1f} open files each")
        await idle(10)
    finally:
        await each("stop", producers, lambda producer: producer.stop())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    arguments.add_argument("--producers", type=int, default=10_000)
    given = arguments.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the cluster inherits the limit
    cluster = Cluster(1, 1, PARTITIONS)
    try:
        asyncio.run(run(cluster, given.producers))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
