"""The driver with both machines, on the embedded broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.unit.group.crew import Crew, CrewMember, until


@pytest.fixture
async def kafka() -> AsyncIterator[FakeCluster]:
    configs = {
        "group.initial.rebalance.delay.ms": 50,
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.min.heartbeat.interval.ms": 200,
    }
    async with FakeCluster(brokers=3, topics={"t": 6}, broker_configs=configs) as cluster:
        yield cluster


@pytest.fixture(params=[False, True], ids=["classic", "modern"])
async def crew(kafka: FakeCluster, request: pytest.FixtureRequest) -> AsyncIterator[Crew]:
    crew = Crew(kafka.bootstrap_servers, "g", "t", 6, modern=request.param)
    yield crew
    await crew.end()


async def test_members_come_and_go(crew: Crew) -> None:
    first = await crew.add()
    await crew.until_settled()
    assert first.log[-1] == ("assign", first.held)
    second = await crew.add()
    await crew.until_settled()
    await first.stop()
    assert first.machine.closed
    assert not first.held
    await crew.until_settled()
    assert len(second.held) == 6
    assert not any(what == "lost" for what, _ in first.log + second.log)
