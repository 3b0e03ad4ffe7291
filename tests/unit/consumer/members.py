"""Consumers in a group, for the tests: fast, in every protocol, with a log of listener calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

Make = Callable[..., AIOKafkaConsumer]
"""Called with topics and options."""

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"heartbeat_interval_ms": 100},
    "cooperative": {
        "heartbeat_interval_ms": 100,
        "partition_assignment_strategy": [CooperativeStickyPartitionAssignor],
    },
    "modern": {"group_protocol": "consumer"},
}
JOIN = {
    "eager": ApiKey.JOIN_GROUP,
    "cooperative": ApiKey.JOIN_GROUP,
    "modern": ApiKey.CONSUMER_GROUP_HEARTBEAT,
}


@asynccontextmanager
async def members(cluster: FakeCluster, protocol: str) -> AsyncIterator[Make]:
    """Makes members of group g; stops all of them at the end."""
    made: list[AIOKafkaConsumer] = []

    def make(*topics: str, **options: Any) -> AIOKafkaConsumer:
        defaults: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "request_timeout_ms": 5000,
            "metadata_max_age_ms": 200,
            **PROTOCOLS[protocol],
        }
        consumer = AIOKafkaConsumer(*topics, **{**defaults, **options})
        made.append(consumer)
        return consumer

    yield make
    await asyncio.gather(*(consumer.stop() for consumer in made))


class Diary(ConsumerRebalanceListener):
    """Records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[TopicPartition]]] = []

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.told.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.told.append(("assigned", assigned))

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.told.append(("lost", lost))


def orders(*partitions: int) -> set[TopicPartition]:
    return {TopicPartition("orders", partition) for partition in partitions}


async def take(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(60):
        return [(await consumer.getone()).value or b"" for _ in range(count)]
