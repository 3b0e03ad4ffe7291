"""Transactions on three failing real brokers: each is read completely or not at all.

Brokers are killed, paused and deposed, and their connections are cut. Producers die meanwhile, and
their successors have to clean up after them. CHAOS_SEED repeats a schedule; CHAOS_MINUTES is the
duration.
"""

import asyncio
import contextlib
import os
from collections import Counter

import pytest

from aiokafka_lite import AIOKafkaConsumer, TopicPartition
from tests.faults.schedule import (
    CLUSTER_FAULTS,
    Happenings,
    cluster_faults,
    play,
    wire_faults,
)
from tests.faults.stages import real_stage
from tests.faults.transaction_workers import (
    PARTITIONS,
    TOPIC,
    Worker,
    committed_offset,
    judge,
    read,
    settle,
)

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.35"))
WORKERS = 4
ENOUGH = 10  # transactions
FAULTS = (*CLUSTER_FAULTS, "move_coordinators")

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(MINUTES * 120 + 400)]


def committed(workers: list[Worker]) -> int:
    return sum(told == "committed" for worker in workers for told in worker.told.values())


async def test_transactions_are_atomic() -> None:
    happenings = Happenings()
    async with real_stage(SEED) as stage:
        for topic, partitions in ((TOPIC, PARTITIONS), ("input", 1)):
            await asyncio.to_thread(stage.kafka.create_topic, topic, partitions, None, None)
        stage.topics = [TOPIC]
        stop_faults, end = asyncio.Event(), asyncio.Event()
        workers = [
            Worker(
                stage.bootstrap_servers,
                f"worker-{number}",
                SEED,
                request_timeout=3.0,
                delivery_timeouts=[4.0, 45.0],
            )
            for number in range(WORKERS)
        ]
        nodes = stage.kafka.node_ids
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(SEED, nodes, 8.0, 3.0, FAULTS),
                wire_faults(SEED, nodes, 4.0, 3.0),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            for worker in workers:
                group.create_task(worker.run(end))
            await asyncio.sleep(MINUTES * 60)
            with contextlib.suppress(TimeoutError):  # on a busy machine the faults last longer
                async with asyncio.timeout(120):
                    while committed(workers) <= ENOUGH:
                        await asyncio.sleep(0.5)
            stop_faults.set()
            end.set()
        for worker in workers:
            worker.bootstrap = stage.kafka.bootstrap_servers  # past the proxies
        await settle(workers)
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        async with AIOKafkaConsumer(bootstrap_servers=stage.kafka.bootstrap_servers) as consumer:
            ends = await consumer.end_offsets(places)
        records = await read(stage.kafka.bootstrap_servers, ends, 60)
        offsets = [await committed_offset(worker) for worker in workers]
    outcomes = Counter(told for worker in workers for told in worker.told.values())
    errors = sum((worker.errors for worker in workers), Counter[str]())
    lives = sum(worker.lives for worker in workers)
    happenings.tell(
        f"{dict(happenings.count)}; {dict(outcomes)} in {lives} lives; {dict(errors)}; "
        f"{sum(records.values())} records"
    )
    for worker, offset in zip(workers, offsets, strict=True):
        judge(worker, records, offset)
    assert outcomes["committed"] > ENOUGH, "hardly anything came through"
