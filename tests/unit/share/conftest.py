"""Fixtures of the share consumer's tests: a cluster, and its consumers."""

from collections.abc import AsyncIterator, Callable

import pytest

from aiokafka_lite import AIOKafkaShareConsumer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.testing import FakeCluster, VirtualClock

GROUP = "workers"

MakeShareConsumer = Callable[..., AIOKafkaShareConsumer]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Two brokers with the topic "jobs" of two partitions; the group begins at the earliest."""
    async with FakeCluster(2, topics={"jobs": 2}, clock=VirtualClock()) as cluster:
        for number in range(2):
            cluster.move_leader("jobs", number, number)
        servers = cluster.bootstrap_servers
        async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
            changes = {"share.auto.offset.reset": "earliest"}
            outcome = await admin.incremental_alter_configs(
                {ConfigResource("group", GROUP): changes}
            )
            outcome.raise_for_errors()
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[MakeShareConsumer]:
    """Makes consumers of the cluster that retry quickly; stops them at the end."""
    made: list[AIOKafkaShareConsumer] = []

    def make(*topics: str, **options: object) -> AIOKafkaShareConsumer:
        defaults: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": GROUP,
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "request_timeout_ms": 5000,
        }
        consumer = AIOKafkaShareConsumer(*topics, **{**defaults, **options})  # type: ignore[arg-type]  # by name
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()
