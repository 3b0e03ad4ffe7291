"""Transactions on a failing embedded cluster: each is read whole or not at all, as reported.

CHAOS_SEED is the first seed, CHAOS_SEEDS the number of seeds.
"""

import asyncio
import contextlib
import os
from collections import Counter
from random import Random

import pytest

from aiokafka_lite import TopicPartition
from aiokafka_lite.testing import CoordinatorType, FakeCluster
from tests.faults.embedded_stage import Embedded
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.transaction_workers import (
    PARTITIONS,
    TOPIC,
    Worker,
    committed_offset,
    judge,
    read,
    settle,
)
from tests.seeds import seeds

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = seeds(int(os.environ.get("CHAOS_SEEDS", "1")), first=FIRST)
SECONDS = 4.0
WORKERS = 3


@pytest.mark.timeout(120)
@pytest.mark.parametrize("release", ["3.9", None], ids=["adds partitions", "batches add"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_transactions_are_atomic(seed: int, release: str | None) -> None:
    happenings = Happenings()
    async with FakeCluster(3, {TOPIC: PARTITIONS, "input": 1}, version=release) as cluster:
        stage = Embedded(cluster, seed)
        stage.topics = [TOPIC]
        stop_faults, end = asyncio.Event(), asyncio.Event()
        workers = [
            Worker(
                cluster.bootstrap_servers,
                f"worker-{number}",
                seed,
                request_timeout=0.4,
                delivery_timeouts=[0.5, 5.0],
            )
            for number in range(WORKERS)
        ]
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(seed, [0, 1, 2], 0.5, 0.1),
                wire_faults(seed, [0, 1, 2], 0.3, 0.1),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            group.create_task(move_coordinators(cluster, workers, stop_faults, seed))
            for worker in workers:
                group.create_task(worker.run(end))
            await asyncio.sleep(SECONDS)
            stop_faults.set()
            end.set()
        await settle(workers)
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = {place: cluster.partition(*place).log.end_offset for place in places}
        records = await read(cluster.bootstrap_servers, ends, 30)
        offsets = [await committed_offset(worker) for worker in workers]
    outcomes = Counter(told for worker in workers for told in worker.told.values())
    errors = sum((worker.errors for worker in workers), Counter[str]())
    print(f"seed {seed}: {happenings.count}, {outcomes}, {errors}")
    assert outcomes["committed"], "nothing came through"
    for worker, offset in zip(workers, offsets, strict=True):
        judge(worker, records, offset)


async def move_coordinators(
    cluster: FakeCluster, workers: list[Worker], end: asyncio.Event, seed: int
) -> None:
    random = Random(seed)
    while not end.is_set():
        await asyncio.sleep(0.2)
        worker = random.choice(workers)
        kind = random.choice([CoordinatorType.TRANSACTION, CoordinatorType.GROUP])
        key = worker.name if kind is CoordinatorType.TRANSACTION else worker.group
        with contextlib.suppress(ValueError):  # that broker is down
            cluster.move_coordinator(key, random.randrange(3), kind)
