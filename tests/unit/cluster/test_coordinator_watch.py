"""A watch over coordinators that do not respond."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinator_watch import CoordinatorWatch
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.testing import ApiKey, CoordinatorType, FakeCluster

GROUP, TRANSACTION = CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION
INTERVAL = 0.05


class Rig:
    """A watch, and the cluster that it queries."""

    def __init__(self, fake: FakeCluster, cluster: Cluster, tasks: TaskOwner) -> None:
        self.fake = fake
        self.cluster = cluster
        self.loop = asyncio.get_running_loop()
        self.watch = CoordinatorWatch(cluster, INTERVAL, tasks.spawn, self.loop)

    def ask(self, kind: CoordinatorKind, key: str, node_id: int) -> "asyncio.Future[None]":
        answer: asyncio.Future[None] = self.loop.create_future()
        self.watch.watch(kind, key, node_id, answer, answer.set_exception)
        return answer

    @property
    def lookups(self) -> int:
        return self.fake.count(ApiKey.FIND_COORDINATOR)

    async def until_looked_up(self, times: int) -> None:
        async with asyncio.timeout(20):
            while self.lookups < times:
                await asyncio.sleep(0.01)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    mistakes: list[BaseException] = []
    tasks = TaskOwner("watch", lambda name, error: mistakes.append(error))
    async with FakeCluster(brokers=3) as fake:
        for key, kind in (("g", CoordinatorType.GROUP), ("t", CoordinatorType.TRANSACTION)):
            fake.move_coordinator(key, 0, kind)
        cluster = Cluster(fake.bootstrap_servers, ConnectionOptions(), retry_backoff=0.01)
        await cluster.start()
        rig = Rig(fake, cluster, tasks)
        yield rig
        rig.watch.close()
        assert not await tasks.close(rig.loop.time() + 5)
        await cluster.close(rig.loop.time() + 5)
    assert not mistakes


async def test_a_coordinator_that_was_not_replaced_is_awaited(rig: Rig) -> None:
    answer = rig.ask(GROUP, "g", 0)
    await rig.until_looked_up(3)
    assert not answer.done()
    answer.set_result(None)


async def test_a_replaced_coordinator_is_left_and_the_new_one_is_cached(rig: Rig) -> None:
    answer, other = rig.ask(GROUP, "g", 0), rig.ask(TRANSACTION, "t", 0)
    rig.fake.move_coordinator("g", 1)
    with pytest.raises(KafkaConnectionError, match=r"broker 0 .* of group g: broker 1 is"):
        await asyncio.wait_for(answer, 20)
    assert rig.cluster.coordinators.get(GROUP, "g") == 1
    assert not other.done()
    rig.fake.move_coordinator("t", 2, CoordinatorType.TRANSACTION)
    with pytest.raises(KafkaConnectionError, match="of transactional id t: broker 2 is"):
        await asyncio.wait_for(other, 20)


async def test_an_answer_ends_the_lookups(rig: Rig) -> None:
    first = rig.ask(GROUP, "g", 0)
    await rig.until_looked_up(1)
    first.set_result(None)
    second = rig.ask(TRANSACTION, "t", 0)
    await rig.until_looked_up(rig.lookups + 2)
    second.set_result(None)
    assert rig.ask(GROUP, "g", 0).cancel()
    async with asyncio.timeout(20):
        while rig.watch._timer is not None or rig.watch._looking:
            await asyncio.sleep(0.01)
    before = rig.lookups
    await asyncio.sleep(3 * INTERVAL)
    assert rig.lookups == before


async def test_a_failed_lookup_is_repeated(rig: Rig) -> None:
    rig.fake.control(ApiKey.FIND_COORDINATOR, error=30, times=2)
    answer = rig.ask(GROUP, "g", 0)
    rig.fake.move_coordinator("g", 1)
    with pytest.raises(KafkaConnectionError):
        await asyncio.wait_for(answer, 20)
    assert rig.lookups == 3


async def test_a_closed_watch_looks_up_nothing(rig: Rig) -> None:
    rig.ask(GROUP, "g", 0)
    rig.watch.close()
    rig.ask(GROUP, "g", 0)
    await asyncio.sleep(3 * INTERVAL)
    assert rig.lookups == 0
