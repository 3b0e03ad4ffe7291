"""A service that runs through an endurance piece without faults of its own: no resource may grow.

One process has all kinds of clients. A producer sends records; a consumer of each group protocol
and a share consumer read them; an exactly-once loop copies them; an admin client repeatedly
requests a lag. The process measures itself: resident memory, open descriptors and sockets, asyncio
tasks, threads, objects that Python's collector tracks (futures among them), and the clients' log
lines. After a warm-up, the memory must stay within `GROWTH`, and the others must return to their
earlier values. Once all clients have stopped, none of their tasks, sockets or descriptors may be
left.
"""

import asyncio
import contextlib
import gc
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    exactly_once,
)
from aiokafka_lite.admin import ConfigResource, NewTopic
from aiokafka_lite.errors import KafkaError, TopicAlreadyExistsError
from tests.faults.acts import LogCounter
from tests.faults.process_watch import growth, trend
from tests.faults.schedule import Happenings

__all__ = ["Gauge", "Sample", "left_over", "measure", "serve"]

MINUTES = float(os.environ.get("CHAOS_MINUTES", "10"))
WARM_UP = min(600.0, MINUTES * 60 / 3)  # seconds
EVERY = 5.0  # seconds between two measurements
BURST = 50  # records at a time
PAUSE = 0.25  # seconds between two bursts
TOPIC, GROUP, COPIES = "steady", "steady", "steady-copies"
CALM = 60.0  # seconds without faults at the end, in which outages' connections close
IDLE = 20_000  # milliseconds after which an unused connection is closed
REPEATS_A_MINUTE = 60  # of one log line
SLACKS: Final = {"descriptors": 3, "sockets": 3, "tasks": 4, "threads": 2, "objects": 3000}
"""The permitted differences at the end: one connection more or less, for example."""


class Sample(NamedTuple):
    """The resources of the process at one time.

    Attributes:
        memory: KiB.
        objects: Those that the collector tracks.
    """

    memory: int
    descriptors: int
    sockets: int
    tasks: int
    threads: int
    objects: int


def measure() -> Sample:
    """The current resources of the process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    targets = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
    return Sample(
        pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        len(targets),
        sum(target.startswith("socket:") for target in targets),
        len(asyncio.all_tasks()),
        threading.active_count(),
        len(gc.get_objects()),
    )


class Gauge:
    """The resources of the process.

    Attributes:
        samples: The time since the start, in seconds, and the measurement.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[float, Sample]] = []
        self._began = time.monotonic()

    def take(self) -> Sample:
        """Measure now."""
        sample = measure()
        self.samples.append((time.monotonic() - self._began, sample))
        return sample

    def judge(self, warm_up: float) -> list[str]:
        """Compare the end with the time after the warm-up."""
        warm = [sample for at, sample in self.samples if at >= warm_up]
        if len(warm) < 6:
            return [f"only {len(warm)} measurements after the warm-up"]
        wrong = []
        if grown := growth([sample.memory for sample in warm]):
            wrong.append(grown)
        for what, slack in SLACKS.items():
            early, late = trend([getattr(sample, what) for sample in warm])
            if late > early + slack:
                wrong.append(f"{what} grew from {early:.0f} to {late:.0f}")
        return wrong


def left_over(before: Sample, after: Sample) -> list[str]:
    """The resources that the clients left behind, now that all of them have stopped."""
    return [
        f"{getattr(after, what) - getattr(before, what)} {what} are left of stopped clients"
        for what in ("descriptors", "sockets", "tasks")
        if getattr(after, what) > getattr(before, what)
    ]


class Service:
    """All kinds of clients, which work until `end`.

    Args:
        bootstrap: Of the cluster.
        modern: With the consumer protocol and a share group, which Kafka 3.9 does not have.
    """

    def __init__(self, bootstrap: str, modern: bool) -> None:
        self._common: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "connections_max_idle_ms": IDLE,
        }
        self._modern = modern
        self.end = asyncio.Event()
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        """Work until the end."""
        async with AIOKafkaAdminClient(**self._common) as admin:
            topics = [NewTopic(TOPIC, 3, 3), NewTopic(COPIES, 3, 3)]
            with contextlib.suppress(TopicAlreadyExistsError):  # by an attempt without an answer
                (await admin.create_topics(topics, timeout_ms=60_000)).raise_for_errors()
            if self._modern:
                change = {"share.auto.offset.reset": "earliest"}
                resource = ConfigResource("group", f"{GROUP}-share")
                (await admin.incremental_alter_configs({resource: change})).raise_for_errors()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(admin))
                group.create_task(self._produce())
                group.create_task(self._read(GROUP))
                group.create_task(self._copy())
                if self._modern:
                    group.create_task(self._read(f"{GROUP}-modern", group_protocol="consumer"))
                    group.create_task(self._share())

    async def _ask(self, admin: AIOKafkaAdminClient) -> None:
        while not self.end.is_set():
            try:
                await admin.list_consumer_group_offsets(GROUP)
                self.seen["asked"] += 1
            except KafkaError as error:
                self.seen[f"asking: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE)

    async def _produce(self) -> None:
        settings = {"delivery_timeout_ms": 60_000, "max_block_ms": 60_000}
        async with AIOKafkaProducer(**self._common, **settings) as producer:
            while not self.end.is_set():
                try:
                    acks = [await producer.send(TOPIC, b"x" * 100) for _ in range(BURST)]
                    for ack in acks:
                        await ack
                        self.seen["acknowledged"] += 1
                except KafkaError as error:
                    self.seen[f"producing: {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE)

    def _consumer(self, topic: str, group: str, **settings: Any) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic, group_id=group, auto_offset_reset="earliest", **self._common, **settings
        )

    async def _read(self, group: str, **settings: Any) -> None:
        async with self._consumer(TOPIC, group, **settings) as consumer:
            while not self.end.is_set() or self._lags(group):
                try:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        self.seen[group] += len(records)
                except KafkaError as error:
                    self.seen[f"{group}: {type(error).__name__}"] += 1

    def _lags(self, group: str) -> bool:
        """True if the group has not received all records, and there is time left for it."""
        in_time = asyncio.get_running_loop().time() < self.deadline
        return in_time and self.seen[group] < self.seen["acknowledged"]

    deadline = float("inf")

    async def _share(self) -> None:
        group = f"{GROUP}-share"
        async with AIOKafkaShareConsumer(TOPIC, group_id=group, **self._common) as consumer:
            while not self.end.is_set() or self._lags(group):
                try:
                    for record in await consumer.getmany(timeout_ms=500):
                        record.accept()
                        self.seen[group] += 1
                except KafkaError as error:
                    self.seen[f"{group}: {type(error).__name__}"] += 1

    async def _copy(self) -> None:
        """Copy records exactly once, with new clients after an error that ends a producer."""
        while not self.end.is_set():
            try:
                async with (
                    self._consumer(TOPIC, f"{GROUP}-copy", enable_auto_commit=False) as consumer,
                    AIOKafkaProducer(**self._common, transactional_id=COPIES) as producer,
                    asyncio.TaskGroup() as group,
                ):
                    group.create_task(self._stop(consumer))
                    async with exactly_once(consumer, producer) as batches:
                        async for batch in batches:
                            for part in batch.parts:
                                values = [record.value for record in part.records]
                                await producer.send_many(COPIES, values)
                            self.seen["copied"] += len(batch)
            except* KafkaError as errors:
                for error in errors.exceptions:
                    self.seen[f"copying: {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE)

    async def _stop(self, consumer: AIOKafkaConsumer) -> None:
        await self.end.wait()
        await consumer.stop()


async def serve(bootstrap: str, modern: bool, happenings: Happenings) -> list[str]:
    """Serve for `MINUTES`, then for `CALM`; return the problems.

    Args:
        bootstrap: Of the cluster.
        modern: As for `Service`.
        happenings: The log of events.
    """
    loop, gauge = asyncio.get_running_loop(), Gauge()
    service, before = Service(bootstrap, modern), measure()
    with LogCounter() as logs:
        running = asyncio.create_task(service.run())
        end = loop.time() + MINUTES * 60 + CALM
        while loop.time() < end and not running.done():
            gauge.take()
            await asyncio.wait([running], timeout=EVERY)
        service.deadline = loop.time() + 2 * CALM
        service.end.set()
        await running
    seen = service.seen
    wrong = gauge.judge(WARM_UP) + left_over(before, measure())
    groups = [GROUP, *([f"{GROUP}-modern", f"{GROUP}-share"] if modern else ())]
    for group in groups:
        if seen[group] < seen["acknowledged"]:
            wrong.append(f"{seen['acknowledged']} acknowledged, {seen[group]} read by {group}")
    if not seen["copied"]:
        wrong.append("nothing was copied")
    wrong += [f"logged: {line}" for line in logs.critical]
    for line, count in logs.lines.items():
        if count > REPEATS_A_MINUTE * (MINUTES + CALM / 60):
            wrong.append(f"logged {count} times: {line}")
    happenings.tell(f"{json.dumps(seen)}; {gauge.samples[0][1]} to {gauge.samples[-1][1]}")
    return wrong
