"""Helpers of the administration scenarios: short requests, and the harness's configurations."""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.conformance.target import Target

__all__ = [
    "BROKER",
    "CLIENT_METRICS",
    "GROUP",
    "HARNESS",
    "LOGGER",
    "TOPIC",
    "alter",
    "describe",
    "in_sync",
    "move",
    "placed",
]

TOPIC: Final = 2
BROKER: Final = 4
LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

HARNESS: Final[Mapping[str, object]] = {
    "broker.heartbeat.interval.ms": 1000,
    "broker.session.timeout.ms": 6000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.min.record.lock.duration.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.dedupe.buffer.size": 16777216,
    "log.retention.ms": -1,
    "log.segment.delete.delay.ms": 1000,
    "num.io.threads": 4,
    "num.network.threads": 2,
    "num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}
"""The configurations of the harness's real brokers; see `tools.kafka.config`."""


def describe(
    kind: int, name: str, *keys: str, synonyms: bool = True, documentation: bool = False
) -> DescribeConfigsRequest:
    """Some configurations of one resource; without `keys` all."""
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    return DescribeConfigsRequest([resource], synonyms, documentation)


def alter(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Changes (name, operation, value) of one resource."""
    wanted = [AlterableConfig(key, operation, value) for key, operation, value in changes]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, wanted)], validate_only)


async def placed(target: Target, *replicas: list[int]) -> str:
    """A topic whose partitions have these replicas, ready for use."""
    name = target.unique("placed")
    assignments = [CreatableReplicaAssignment(index, nodes) for index, nodes in enumerate(replicas)]
    request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assignments)], 20_000)
    (created,) = (await target.quietly(request, 5)).topics
    assert not created.error_code
    await in_sync(target, name, *map(len, replicas))
    await target.known_everywhere(name, len(replicas))
    return name


async def in_sync(target: Target, name: str, *counts: int, replicas: int | None = None) -> None:
    """Wait until this many replicas of each partition are in sync."""

    def are(answer: DescribeTopicPartitionsResponse) -> bool:
        parts = answer.topics[0].partitions
        return [len(part.isr_nodes) for part in parts] == list(counts) and [
            len(part.replica_nodes) for part in parts
        ] == [replicas or count for count in counts]

    await target.until(DescribeTopicPartitionsRequest([TopicRequest(name)]), 0, are)


async def move(
    target: Target, topic: str, index: int, replicas: list[int], *, may_change: bool = True
) -> None:
    """Move a partition to other replicas, the leader first; `may_change` allows another count."""
    wanted = [ReassignableTopic(topic, [ReassignablePartition(index, replicas)])]
    request = AlterPartitionReassignmentsRequest(5000, may_change, wanted)
    await target.ask(request, 1)
    asked = ListPartitionReassignmentsTopics(topic, [index])
    await target.until(
        ListPartitionReassignmentsRequest(5000, [asked]), 0, lambda answer: not answer.topics
    )
