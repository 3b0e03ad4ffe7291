"""Measures metrics pushes (KIP-714) of a consumer with many partitions: CPU, and blocked loop.

    .venv/bin/python -m benchmarks.metrics_push [--partitions 2000] [--seconds 5]

The embedded broker runs in another thread and requests all metrics every 100 ms. `blocked` is the
maximum CPU time of the event loop's thread in one iteration.
"""

import argparse
import asyncio
import time

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.testing import FakeCluster
from benchmarks.prometheus_scrape import watched_loop


async def measure(partitions: int, seconds: float) -> None:
    with FakeCluster(topics={"many": partitions}, collect_metrics=True) as cluster:
        servers = cluster.bootstrap_servers
        used: dict[bool, float] = {}
        blocked: list[float] = []
        for pushes in (False, True):
            consumer = AIOKafkaConsumer(
                "many",
                bootstrap_servers=servers,
                auto_offset_reset="earliest",
                client_id="c",
                enable_metrics_push=pushes,
            )
            if pushes:
                configs = {"metrics": "*", "interval.ms": "100"}
                async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
                    await admin.alter_configs(
                        [ConfigResource("client_metrics", "all", configs=configs)]
                    )
            async with consumer:
                reading = asyncio.create_task(consumer.getone())
                async with asyncio.timeout(120):
                    while consumer.metrics()["records-lag-max"] is None:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                    while pushes and not cluster.pushed_metrics("c"):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                found: list[float] = []
                before = time.thread_time(), len(cluster.pushed_metrics("c"))
                async with watched_loop(found):
                    await asyncio.sleep(seconds)
                used[pushes] = time.thread_time() - before[0]
                blocked.append(max(found))
                count = len(cluster.pushed_metrics("c")) - before[1]
                reading.cancel()
        size = len(cluster.pushed_metrics("c")[-1].data)
        each = 1000 * (used[True] - used[False]) / max(count, 1)
        print(f"{partitions} partitions, {size / 1e6:.2f} MB before compression, {count} pushes")
        print(f"CPU of a push in the event loop's thread: {each:.1f} ms")
        print(f"loop blocked: at most {blocked[1]:.2f} ms, without pushes {blocked[0]:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.partitions, arguments.seconds))


if __name__ == "__main__":
    main()
