"""Read, process, write, in a group whose members die and stall, on three failing real brokers: the
output of each input appears exactly once, and in order.

CHAOS_SEED repeats a schedule; CHAOS_MINUTES (0.2 by default) is how long inputs are written.
"""

import asyncio
import os
from collections import Counter

import pytest

from tests.faults.exactly_once import INPUT, OUTPUT, PARTITIONS, Worker, play_out, read
from tests.faults.schedule import (
    CLUSTER_FAULTS,
    Happenings,
    cluster_faults,
    play,
    wire_faults,
)
from tests.faults.stages import DURABLE, real_stage

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MINUTES = float(os.environ.get("CHAOS_MINUTES", "0.2"))
WORKERS = 4
FAULTS = (*CLUSTER_FAULTS, "move_coordinators")
PACE = 6.0
CONFIG = {**DURABLE, "group.min.session.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0}

pytestmark = [pytest.mark.real, pytest.mark.timeout(MINUTES * 120 + 400)]


async def test_output_of_each_input_is_stored_once() -> None:
    happenings = Happenings()
    async with real_stage(SEED, CONFIG) as stage:
        for topic, partitions in ((INPUT, PARTITIONS), (OUTPUT, PARTITIONS), ("grows", 1)):
            await asyncio.to_thread(stage.kafka.create_topic, topic, partitions, None, None)
        stage.topics = ["grows"]
        bootstrap, nodes = stage.bootstrap_servers, stage.kafka.node_ids
        workers = [Worker(bootstrap, number, SEED, "classic", PACE) for number in range(WORKERS)]
        stop_faults = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for faults in (
                cluster_faults(SEED, nodes, 6.0, 4.0, FAULTS),
                wire_faults(SEED, nodes, 4.0, 3.0),
            ):
                group.create_task(play(stage, faults, stop_faults, happenings))
            written = await play_out(bootstrap, workers, MINUTES * 60, stop_faults)
        found = await read(stage.kafka.bootstrap_servers)
    events = sum((worker.events for worker in workers), Counter[str]())
    happenings.tell(f"{dict(happenings.count)}; {sum(written.values())} inputs; {dict(events)}")
    for number, count in written.items():
        assert found[number] == list(range(count)), f"partition {number}"
    assert events["committed"] + events["by exactly_once()"] > 3
