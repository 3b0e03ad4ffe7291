"""A scrape of a consumer with many partitions: how long it takes, how long it blocks the loop.

    .venv/bin/python -m benchmarks.prometheus_scrape [--partitions 2000] [--rounds 20]

The scrape runs in a thread, as `prometheus_client.start_http_server` does it. `blocked` is the most
CPU time that the thread of the event loop used in one iteration while scrapes ran.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, generate_latest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.prometheus import KafkaCollector
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
            took: list[float] = []
            used: list[float] = []
            idle: list[float] = []
            blocked: list[float] = []
            async with watched_loop(idle):
                await asyncio.sleep(1)
            async with watched_loop(blocked):
                for _ in range(rounds):
                    began, before = time.perf_counter(), time.process_time()
                    text = await asyncio.to_thread(generate_latest, registry)
                    took.append(1000 * (time.perf_counter() - began))
                    used.append(1000 * (time.process_time() - before))
                    await asyncio.sleep(0.05)
            reading.cancel()
            lines = sum(not line.startswith(b"#") for line in text.splitlines())
            size = len(text) / 1e6
            print(f"{partitions} partitions, {lines} series, {size:.2f} MB, {rounds} rounds")
            print(f"scrape: median {statistics.median(took):.1f} ms, least {min(took):.1f} ms")
            print(
                f"CPU of the process: median {statistics.median(used):.1f} ms, "
                f"least {min(used):.1f} ms"
            )
            without = max(idle)
            print(f"loop blocked: at most {max(blocked):.2f} ms, without scrapes {without:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.partitions, arguments.rounds))


if __name__ == "__main__":
    main()
