"""Read, process, write, in a group whose members die and stall, on a failing cluster: the output of
each input appears exactly once, and in order.

CHAOS_SEED is the first seed, CHAOS_SEEDS the number of seeds.
"""

import asyncio
import os
from collections import Counter

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.faults.embedded_stage import Embedded
from tests.faults.exactly_once import INPUT, OUTPUT, PARTITIONS, Worker, play_out, read
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.seeds import seeds

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = seeds(int(os.environ.get("CHAOS_SEEDS", "1")), first=FIRST)
SECONDS = 6.0
WORKERS = 3
CONFIG = {
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_output_of_each_input_is_stored_once(seed: int, protocol: str) -> None:
    happenings = Happenings()
    topics = {INPUT: PARTITIONS, OUTPUT: PARTITIONS, "grows": 1}
    async with FakeCluster(3, topics, broker_configs=CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        stage = Embedded(cluster, seed)
        stage.topics = ["grows"]  # an output's partition follows from its input's number: fixed
        workers = [Worker(bootstrap, number, seed, protocol) for number in range(WORKERS)]
        stop_faults = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(seed, [0, 1, 2], 0.4, 0.3),
                wire_faults(seed, [0, 1, 2], 0.3, 0.3),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            written = await play_out(bootstrap, workers, SECONDS, stop_faults)
        found = await read(bootstrap)
    events = sum((worker.events for worker in workers), Counter[str]())
    print(f"seed {seed}: {happenings.count}, {sum(written.values())} inputs, {events}")
    for number, count in written.items():
        assert found[number] == list(range(count)), f"partition {number}"
    assert events["committed"] + events["by exactly_once()"] > 10
