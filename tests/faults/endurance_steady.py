"""A service that runs through an endurance piece without being struck itself: nothing may grow.

One process has a producer, a consumer in a group and an admin client. It sends a record, reads it
back and asks for the group's lag, again and again, and measures itself: resident memory, open
descriptors, asyncio tasks and threads, and the client's log lines. After a warm-up the memory must
stay within `GROWTH`, the others must come back to what they were.
"""

import asyncio
import gc
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

from aiokafka_lite import AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import NewTopic
from aiokafka_lite.errors import KafkaError
from tests.faults.acts import LogCounter
from tests.faults.schedule import Happenings

__all__ = ["Gauge", "serve", "trend"]

MINUTES = float(os.environ.get("CHAOS_MINUTES", "10"))
WARM_UP = min(600.0, MINUTES * 60 / 3)  # seconds
EVERY = 5.0  # seconds between two measurements
GROWTH = 0.05  # of the memory after the warm-up
SLACK = 2048  # KiB: pages that the allocator takes for a burst
BURST = 50  # records at a time
PAUSE = 0.25  # seconds between two bursts
TOPIC, GROUP = "steady", "steady"
CALM = 60.0  # seconds of peace that end the run, in which outages' connections close
REPEATS_A_MINUTE = 60  # of one log line


class Gauge:
    """What the process uses.

    Attributes:
        samples: Seconds since the start, KiB, descriptors, tasks and threads.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[float, int, int, int, int]] = []
        self._began = time.monotonic()

    def take(self) -> None:
        """Measure now."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.samples.append(
            (
                time.monotonic() - self._began,
                pages * os.sysconf("SC_PAGE_SIZE") // 1024,
                len(os.listdir("/proc/self/fd")),
                len(asyncio.all_tasks()),
                threading.active_count(),
            )
        )

    def judge(self, warm_up: float) -> list[str]:
        """Compare the end with the time after the warm-up."""
        warm = [each for each in self.samples if each[0] >= warm_up]
        if len(warm) < 6:
            return [f"only {len(warm)} measurements after the warm-up"]
        wrong = []
        early, late = trend([each[1] for each in warm])
        if late > early * (1 + GROWTH) + SLACK:
            wrong.append(f"memory grew from {early:.0f} to {late:.0f} KiB")
        for index, what in ((2, "descriptors"), (3, "tasks"), (4, "threads")):
            early, late = trend([each[index] for each in warm])
            if late > early + 2:
                wrong.append(f"{what} grew from {early:.0f} to {late:.0f}")
        return wrong


def trend(values: list[int]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    third = len(values) // 3
    first, last = sorted(values[:third]), sorted(values[-third:])
    return float(first[third // 2]), float(last[third // 2])


async def serve(bootstrap: str, happenings: Happenings) -> list[str]:
    """Serve for `MINUTES`, then for `CALM`; return what was wrong."""
    loop, gauge, seen = asyncio.get_running_loop(), Gauge(), Counter[str]()
    wrong: list[str] = []
    with LogCounter() as logs:
        async with AIOKafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([NewTopic(TOPIC, 3, 3)])
            async with (
                AIOKafkaProducer(
                    bootstrap_servers=bootstrap, delivery_timeout_ms=60_000, max_block_ms=60_000
                ) as producer,
                AIOKafkaConsumer(
                    TOPIC, bootstrap_servers=bootstrap, group_id=GROUP, auto_offset_reset="earliest"
                ) as consumer,
            ):
                end, measure_at = loop.time() + MINUTES * 60 + CALM, 0.0
                while loop.time() < end:
                    try:
                        acks = [await producer.send(TOPIC, b"x" * 100) for _ in range(BURST)]
                        for ack in acks:
                            await ack
                            seen["acknowledged"] += 1
                        for records in (await consumer.getmany(timeout_ms=100)).values():
                            seen["read"] += len(records)
                        await admin.list_consumer_group_offsets(GROUP)
                        seen["asked"] += 1
                    except KafkaError as error:
                        seen[type(error).__name__] += 1
                    if loop.time() >= measure_at:
                        measure_at = loop.time() + EVERY
                        gauge.take()
                    await asyncio.sleep(PAUSE)
                while seen["read"] < seen["acknowledged"] and loop.time() < end + CALM:
                    for records in (await consumer.getmany(timeout_ms=1000)).values():
                        seen["read"] += len(records)
    wrong += gauge.judge(WARM_UP)
    if seen["read"] < seen["acknowledged"]:
        wrong.append(f"{seen['acknowledged']} acknowledged, {seen['read']} read")
    wrong += [f"logged: {line}" for line in logs.critical]
    for line, count in logs.lines.items():
        if count > REPEATS_A_MINUTE * (MINUTES + CALM / 60):
            wrong.append(f"logged {count} times: {line}")
    first, last = gauge.samples[0], gauge.samples[-1]
    happenings.tell(f"{json.dumps(seen)}; s, KiB, descriptors, tasks, threads: {first} to {last}")
    return wrong
