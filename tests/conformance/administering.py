"""Helpers of the administration scenarios: short requests, and the harness's configurations."""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

__all__ = [
    "BROKER",
    "CLIENT_METRICS",
    "GROUP",
    "HARNESS",
    "LOGGER",
    "TOPIC",
    "alter",
    "describe",
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
    "log.cleaner.dedupe.buffer.size": 16777216,
    "log.retention.ms": -1,
    "log.segment.delete.delay.ms": 1000,
    "num.io.threads": 4,
    "num.network.threads": 2,
    "num.partitions": 4,
}
"""What the harness starts its real brokers with; see `tools.kafka.config`."""


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
