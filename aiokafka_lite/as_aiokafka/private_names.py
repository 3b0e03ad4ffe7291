"""Private names of aiokafka that libraries read, so that those libraries work with these clients.

They are read-only and no part of the public API: each stays only as long as a library named here
reads it.

| name | read by |
|---|---|
| `AIOKafkaClient._bootstrap_servers`, `_client_id` | OpenTelemetry's instrumentation |
| `AIOKafkaConsumer._client`, `_group_id` | OpenTelemetry's instrumentation, kstreams |
| `AIOKafkaConsumer._coordinator.member_id`, `_subscription.topics` | FastStream |
| `AIOKafkaConsumer._enable_auto_commit` | kstreams |
| `AIOKafkaProducer._key_serializer`, `_partitioner`, `_metadata` | kstreams |
| `producer.producer._missing` (the default of `acks`) | FastStream |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MISSING", "CoordinatorNames", "SubscriptionNames"]


class _Missing:
    def __repr__(self) -> str:
        return "<default>"


MISSING: Final = _Missing()
"""Marks an argument that was not given."""


@dataclass(frozen=True, slots=True)
class CoordinatorNames:
    """Attributes of aiokafka's group coordinator.

    Attributes:
        member_id: The consumer's member id; "" outside of a group.
    """

    member_id: str


@dataclass(frozen=True, slots=True)
class SubscriptionNames:
    """Attributes of aiokafka's subscription state.

    Attributes:
        topics: The topics that the consumer is subscribed to.
    """

    topics: frozenset[str]
