"""Members whose coordinator is killed or frozen, on three real brokers."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from tests.unit.group.crew import Crew, until
from tools.kafka import OwnCluster

PARTITIONS = 6


@pytest.fixture(params=[False, True], ids=["classic", "modern"])
async def crew(
    kafka3: OwnCluster, topic3: Callable[..., str], request: pytest.FixtureRequest
) -> AsyncIterator[Crew]:
    crew = Crew(
        kafka3.bootstrap_servers,
        f"failover-{uuid.uuid4().hex[:12]}",
        topic3(PARTITIONS),
        PARTITIONS,
        modern=request.param,
        new_assignor=CooperativeStickyAssignor,
        session_timeout=45.0,
        heartbeat_interval=1.0,
        request_timeout=10.0,
    )
    yield crew
    await crew.end()


def coordinator(crew: Crew) -> int:
    node = crew.alive[0].cluster.coordinators.get(CoordinatorKind.GROUP, crew.group_id)
    assert node is not None
    return node


async def until_beating(crew: Crew) -> None:
    """Wait until all heartbeats are answered again."""
    before = [member.machine.counters.heartbeats for member in crew.alive]
    await until(
        lambda: all(
            member.machine.counters.heartbeats > count + 1
            for member, count in zip(crew.alive, before, strict=True)
        ),
        lambda: crew.alive,
    )


async def test_killed_coordinator_keeps_the_group(crew: Crew, kafka3: OwnCluster) -> None:
    for _ in range(3):
        await crew.add()
    await crew.until_settled()
    node = coordinator(crew)
    await asyncio.to_thread(kafka3.kill, node)
    try:
        await until_beating(crew)
        assert coordinator(crew) != node
        await crew.add()
        await crew.until_settled()
    finally:
        await asyncio.to_thread(kafka3.start, node)
    await crew.until_settled()
    assert not any(what == "lost" for member in crew.members for what, _ in member.log)


@pytest.mark.long
async def test_frozen_coordinator_is_replaced(crew: Crew, kafka3: OwnCluster) -> None:
    """Its connections stay open without responses; another broker takes over after a while."""
    for _ in range(2):
        await crew.add()
    await crew.until_settled()
    node = coordinator(crew)
    await asyncio.to_thread(kafka3.pause, node)
    try:
        joining = await crew.add()
        await crew.until_settled()
        assert coordinator(crew) != node
        assert joining.held
        await until_beating(crew)
    finally:
        await asyncio.to_thread(kafka3.resume, node)
    await crew.until_settled()
    assert not any(what == "lost" for member in crew.members for what, _ in member.log)
