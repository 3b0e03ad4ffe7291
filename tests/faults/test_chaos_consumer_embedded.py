"""Chaos in a group on the embedded cluster, with the members, schedule and checks of the real one.

CHAOS_SEED is the first seed, CHAOS_SEEDS the number of seeds.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.faults.acts import LogCounter
from tests.faults.consumer_fleet import lagging, member_plans
from tests.faults.consumer_journal import Journal, Place, Verb, read
from tests.faults.consumer_ledger import GroupLedger
from tests.faults.consumer_load import Load
from tests.faults.consumer_worker import ACTS, Client, Member, Plan
from tests.faults.embedded_stage import Embedded
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.seeds import seeds

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = seeds(int(os.environ.get("CHAOS_SEEDS", "1")), first=FIRST)
SECONDS = 4.0
RECORDS = 20_000
CATCH_UP = 20.0  # seconds after the last record, without further faults
PROCESSES = 3  # of two members each, were they processes
SESSION = 0.6  # seconds
QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": int(SESSION * 1000),
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 80,
    "group.consumer.min.heartbeat.interval.ms": 10,
}
TOPICS = {"orders": 8, "events": 2}
FAULTS = ("kill", "restart", "freeze", "lead_elsewhere", "grow", "move_coordinator")
STRUCK = (
    *(ApiKey.FETCH, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS),
    *(ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT),
    *(ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
    *(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT),
)


class GroupStage(Embedded):
    """Faults of the requests that consumers send."""

    def __init__(self, cluster: FakeCluster, seed: int, group: str) -> None:
        super().__init__(cluster, seed)
        self.topics = list(TOPICS)
        self._group = group
        self._draw = random.Random(seed)

    async def move_coordinator(self, node: int, seconds: float) -> None:
        self.cluster.move_coordinator(self._group, node)

    async def cut(self, node: int, seconds: float) -> None:
        await self._strike(seconds, disconnect=True)

    async def delay(self, node: int, seconds: float) -> None:
        await self._strike(seconds, delay=self.overdue)

    async def stall(self, node: int, seconds: float) -> None:
        await self._strike(seconds, drop=True)

    async def _strike(self, seconds: float, **what: object) -> None:
        faults = [
            self.cluster.control(
                key,
                after_handling=self._draw.random() < 0.5,
                times=self._draw.randint(1, 3),
                **what,
            )
            for key in self._draw.sample(STRUCK, 4)
        ]
        await asyncio.sleep(seconds)
        for fault in faults:
            fault.remove()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["eager", "cooperative", "consumer"])
async def test_every_record_is_read_and_no_committed_one_twice(
    tmp_path: Path, mode: str, seed: int
) -> None:
    happenings = Happenings()
    path = tmp_path / "journal"
    journal, ends = Journal(path), asyncio.Event()
    async with FakeCluster(brokers=3, topics=TOPICS, broker_configs=QUICK) as cluster:
        plan = Plan(
            *(cluster.bootstrap_servers, "aiokafka_lite", list(TOPICS), "readers", mode),
            journal=str(path),
            members=[each for number in range(PROCESSES) for each in member_plans(number)],
            seed=str(seed),
            calm=8.0,
            session=SESSION,
            max_poll=0.8,
            pace=0.1,
            acts=(*ACTS, "crash"),
        )
        client = Client(plan.client)
        load = Load(cluster.bootstrap_servers, list(TOPICS), rate=RECORDS / SECONDS, count=RECORDS)
        stage, over = GroupStage(cluster, seed, plan.group), asyncio.Event()
        with LogCounter() as logs:
            members = [Member(client, plan, each, journal, ends) for each in plan.members]
            living = [asyncio.create_task(member.live()) for member in members]
            async with asyncio.TaskGroup() as group:
                for faults in (
                    cluster_faults(seed, [0, 1, 2], 0.5, 0.3, FAULTS),
                    wire_faults(seed, [0, 1, 2], 0.3, 0.3),
                ):
                    group.create_task(play(stage, faults, over, happenings))
                await load.run()
                over.set()
            loop = asyncio.get_running_loop()
            deadline = loop.time() + CATCH_UP
            while left := lagging(load.ends, _seen(path)):
                assert loop.time() < deadline, f"not read in time: {left}"
                await asyncio.sleep(0.2)
            ends.set()
            await asyncio.wait_for(asyncio.gather(*living), 10)
    journal.close()
    ledger = GroupLedger()
    wrong = ledger.judge(read(path), load.ends)
    tally = ledger.tally
    print(f"seed {seed}: {happenings.count}, {tally}, {logs.lines}")
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:30]])
    assert not logs.critical
    assert tally.generations < 10 + 4 * (tally.lives + tally.events["act"] + 20)


def _seen(path: Path) -> dict[Place, int]:
    seen: dict[Place, int] = {}
    for event in read(path):
        if event.verb is Verb.GIVEN:
            for place, (_, last) in event.spread.items():
                seen[place] = max(seen.get(place, 0), last + 1)
    return seen
