"""A cluster of three embedded brokers, and an admin client for it."""

from collections.abc import AsyncIterator

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.testing import FakeCluster


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3, {"orders": 6, "payments": 1}, racks=["a", "b", None]) as cluster:
        yield cluster


@pytest.fixture
async def admin(brokers: FakeCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(
        bootstrap_servers=brokers.bootstrap_servers, retry_backoff_ms=10
    ) as client:
        yield client
