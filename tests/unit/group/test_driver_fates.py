"""Whatever happens to members and brokers, each partition has one owner at the end; in the
classic protocol it never has two."""

import asyncio
from random import Random

import pytest

from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.seeds import seeds
from tests.unit.group.crew import Crew
from tests.unit.group.test_membership_driver import CONFIGS

pytestmark = pytest.mark.unhurried

EVENTS = 25
PARTITIONS = 8

NODES = 3

KINDS = [
    *("join", "join", "close", "die", "leave", "rejoin", "grow"),
    *("cut", "kill", "move", "silence", "errors", "lost answers"),
]
GROUP_APIS = [
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
    *(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.FIND_COORDINATOR),
]


class Fates:
    """A group, and its random events from a seed."""

    def __init__(self, kafka: FakeCluster, crew: Crew, seed: int) -> None:
        self.kafka = kafka
        self.crew = crew
        self.random = Random(seed)
        self.down: int | None = None  # at most one broker at a time
        self.silent: int | None = None
        self.twice: list[object] = []

    async def dawdle(self, what: str) -> None:
        await asyncio.sleep(self.random.choice([0.0, 0.0, 0.1, 0.4]))

    async def happen(self, kind: str) -> None:
        kafka, crew, random = self.kafka, self.crew, self.random
        victim = random.choice(crew.alive)
        match kind:
            case "join" if len(crew.alive) < 5:
                self.wake()  # a newcomer's first metadata may take long
                (await crew.add()).listener = self.dawdle
            case "close" if len(crew.alive) > 1:
                await victim.stop()
            case "die" if len(crew.alive) > 1:
                await victim.die()
            case "leave":
                now = asyncio.get_running_loop().time()
                await victim.driver.leave("unsubscribed", now + random.choice([0.0, 0.3]))
                victim.subscribe("t")
            case "rejoin":
                victim.driver.rejoin("fate")
            case "grow" if crew.partitions < PARTITIONS + 2:
                crew.partitions += 1
                kafka.add_partitions("t", crew.partitions)
                for member in crew.alive:
                    member.cluster.request_update()
            case "cut":
                kafka.disconnect(random.choice([None, *range(NODES)]))
            case "kill":
                await self.calm()
                self.down = random.randrange(NODES)
                kafka.kill(self.down)
            case "move":
                up = [node for node in range(NODES) if node != self.down]
                kafka.move_coordinator("g", random.choice(up))
            case "silence":
                await self.calm()
                self.silent = random.randrange(NODES)
                kafka.pause(self.silent)
            case "errors":
                error = random.choice([14, 15, 16])
                kafka.control(random.choice(GROUP_APIS), times=random.randint(1, 3), error=error)
            case "lost answers":
                kafka.control(
                    random.choice(GROUP_APIS),
                    times=random.randint(1, 2),
                    disconnect=random.choice([True, 6]),
                    after_handling=True,
                )

    async def calm(self) -> None:
        if self.down is not None:
            await self.kafka.restart(self.down)
        self.down = None
        self.wake()

    def wake(self) -> None:
        if self.silent is not None:
            self.kafka.resume(self.silent)
        self.silent = None

    async def watch(self) -> None:
        """Look for partitions with two owners."""
        while True:
            held = [tp for member in self.crew.alive for tp in member.held]
            if len(held) != len(set(held)):
                self.twice.append([member for member in self.crew.alive if member.held])
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("seed", seeds(2, first=1))
@pytest.mark.parametrize("kind", ["eager", "cooperative", "modern"])
async def test_members_settle_after_random_faults(kind: str, seed: int) -> None:
    async with FakeCluster(NODES, {"t": PARTITIONS}, broker_configs=CONFIGS, seed=seed) as kafka:
        crew = Crew(
            kafka.bootstrap_servers,
            "g",
            "t",
            PARTITIONS,
            modern=kind == "modern",
            new_assignor=CooperativeStickyAssignor if kind == "cooperative" else RangeAssignor,
            session_timeout=1.5,
            rebalance_timeout=3.0,
            request_timeout=1.5,
        )
        fates = Fates(kafka, crew, seed)
        watching = asyncio.create_task(fates.watch())
        try:
            await crew.add()
            for _ in range(EVENTS):
                await fates.happen(fates.random.choice(KINDS))
                await asyncio.sleep(fates.random.choice([0.0, 0.05, 0.3]))
            await fates.calm()
            await crew.until_settled()
            assert not any(member.failures for member in crew.members)
            if kind != "modern":  # whose members do not count their sessions (as in Java)
                assert not fates.twice
        finally:
            watching.cancel()
            await fates.calm()
            await crew.end()
