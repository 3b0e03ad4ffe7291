"""Chaos on the embedded cluster: the same load, schedule and judgement as on the real one, quick.

CHAOS_SEED is the first of the seeds, CHAOS_SEEDS how many of them are played.
"""

import asyncio
import os
from collections import defaultdict

import pytest

from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing import FakeCluster
from tests.faults.acts import SMALL_MESSAGES, LogCounter, acts, perform
from tests.faults.ledger import Ledger
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.faults.stages import Embedded

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CHAOS_SEEDS", "1")))
SECONDS = 4.0
TOPICS = {"orders": 3, "payments": 4, "events": 3}


def everything(cluster: FakeCluster) -> dict[str, dict[int, list[tuple[int, bytes]]]]:
    logs: dict[str, dict[int, list[tuple[int, bytes]]]] = defaultdict(dict)
    for topic in TOPICS:
        for number in range(len(cluster.state.topics[topic].partitions)):
            data = bytes(cluster.partition(topic, number).log.read(0, 1 << 30))
            records = RecordSet(data, topic, number, 0).read(1 << 30) if data else []
            logs[topic][number] = [(record.offset, record.value or b"") for record in records]
    return logs


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    ledger, happenings = Ledger(), Happenings()
    async with FakeCluster(brokers=3) as cluster:
        for topic, partitions in TOPICS.items():
            configs = SMALL_MESSAGES if topic == "events" else None
            cluster.create_topic(topic, partitions, configs=configs)
        with LogCounter() as logs:
            stage = Embedded(cluster, seed)
            stage.topics = list(TOPICS)
            nodes = [0, 1, 2]
            end, loop = asyncio.Event(), asyncio.get_running_loop()
            deadline = loop.time() + SECONDS
            async with asyncio.TaskGroup() as group:
                for faults in (
                    cluster_faults(seed, nodes, 0.5, 0.1),
                    wire_faults(seed, nodes, 0.3, 0.1),
                ):
                    group.create_task(play(stage, faults, end, happenings))
                for act in acts(seed, 1.0):
                    await perform(
                        act,
                        cluster.bootstrap_servers,
                        ledger,
                        list(TOPICS),
                        happenings,
                        rate=4_000,
                        senders=100,
                        seed=seed,
                        request_timeout=0.4,
                        delivery_timeout=8.0,
                    )
                    if loop.time() > deadline:
                        break
                end.set()
        print(f"seed {seed}: {happenings.count}, {ledger.counts()}, {ledger.errors}")
        print(logs.lines)
        assert ledger.judge(everything(cluster)) == []
        assert not logs.critical
