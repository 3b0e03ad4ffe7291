"""The clusters of these tests; tests with a loop run on asyncio's and on uvloop's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from aiokafka_lite.testing import FakeCluster
from tests.fair_loop import new_loop
from tests.unit.testing.raw import RawClient, SocketlessBroker


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": new_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def broker() -> SocketlessBroker:
    return SocketlessBroker()


@pytest.fixture
def three_brokers() -> SocketlessBroker:
    return SocketlessBroker(3)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 2}) as started:
        yield started


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[str], Any]]:
    clients: list[RawClient] = []

    async def open_client(address: str) -> RawClient:
        clients.append(await RawClient.connect(address))
        return clients[-1]

    yield open_client
    for client in clients:
        await client.close()
