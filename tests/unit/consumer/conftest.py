"""What the consumer's tests share: a cluster, consumers of it, and both builds of the delivery."""

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from types import ModuleType

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.testing import FakeCluster
from tests.skipping_loop import SkippingLoop
from tests.unit.conftest import pytest_asyncio_loop_factories as usual_loops

UNHURRIED = {"test_group_error_table"}
"""Tests in which sessions expire: idle time is skipped, so that these can be long."""

MakeConsumer = Callable[..., AIOKafkaConsumer]


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of all unit tests, or one that skips idle time."""
    if item.path.stem in UNHURRIED:
        return {"asyncio": SkippingLoop}
    return usual_loops(item)


@pytest.fixture(params=["native", "python"])
def delivery(request: pytest.FixtureRequest) -> ModuleType:
    """`_delivery_native`, then its twin."""
    return import_module(f"aiokafka_lite.consumer.partitions._delivery_{request.param}")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker with the topic "orders" of three empty partitions."""
    async with FakeCluster(topics={"orders": 3}) as cluster:
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[MakeConsumer]:
    """Makes consumers of the cluster, quick to try again; they are stopped at the end."""
    made: list[AIOKafkaConsumer] = []

    def make(*topics: str, **options: object) -> AIOKafkaConsumer:
        defaults: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "request_timeout_ms": 5000,
        }
        consumer = AIOKafkaConsumer(*topics, **{**defaults, **options})  # type: ignore[arg-type]  # by name
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()
