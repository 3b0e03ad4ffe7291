"""Measures scrapes of a consumer with many partitions: time, CPU, and blocking of the loop.

    .venv/bin/python -m benchmarks.prometheus_scrape [--partitions 2000] [--rounds 20]

First `prometheus_client` generates the text, then `aiokafka_lite.prometheus.generate_latest`. The
scrape runs in a thread, as in `prometheus_client.start_http_server`. `blocked` is the maximum CPU
time of the event loop's thread in one iteration during the scrapes.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import prometheus_client
from prometheus_client import CollectorRegistry

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.prometheus import KafkaCollector, generate_latest
from aiokafka_lite.testing import FakeCluster


@asynccontextmanager
async def watched_loop(found: list[float]) -> AsyncIterator[None]:
    """Append to `found` the CPU milliseconds of this thread between ticks of one millisecond."""

    async def tick() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            found.append(1000 * (now - before))
            before = now

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()


async def measure(partitions: int, rounds: int) -> None:
    with FakeCluster(topics={"many": partitions}) as cluster:
        consumer = AIOKafkaConsumer(
            "many", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with consumer:
            reading = asyncio.create_task(consumer.getone())
            async with asyncio.timeout(120):
                while consumer.metrics()["records-lag-max"] is None:  # noqa: ASYNC110 (no event)
                    await asyncio.sleep(0.1)
            registry = CollectorRegistry()
            KafkaCollector(registry, timeout=10).add(consumer)
            idle: list[float] = []
            async with watched_loop(idle):
                await asyncio.sleep(1)
            print(f"{partitions} partitions, {rounds} rounds")
            print(f"loop blocked without scrapes: at most {max(idle):.2f} ms")
            for name, text_of in (
                ("prometheus_client", prometheus_client.generate_latest),
                ("aiokafka_lite.prometheus", generate_latest),
            ):
                print(name)
                await scrape(partial(text_of, registry), rounds)
            reading.cancel()


async def scrape(text_of: Callable[[], bytes], rounds: int) -> None:
    took: list[float] = []
    used: list[float] = []
    blocked: list[float] = []
    async with watched_loop(blocked):
        for _ in range(rounds):
            began, before = time.perf_counter(), time.process_time()
            text = await asyncio.to_thread(text_of)
            took.append(1000 * (time.perf_counter() - began))
            used.append(1000 * (time.process_time() - before))
            await asyncio.sleep(0.05)
    lines = sum(not line.startswith(b"#") for line in text.splitlines())
    print(f"  {lines} series, {len(text) / 1e6:.2f} MB")
    print(f"  scrape: median {statistics.median(took):.1f} ms, minimum {min(took):.1f} ms")
    print(f"  process CPU: median {statistics.median(used):.1f} ms, minimum {min(used):.1f} ms")
    print(f"  loop blocked: at most {max(blocked):.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.partitions, arguments.rounds))


if __name__ == "__main__":
    main()
