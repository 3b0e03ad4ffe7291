"""Private names of aiokafka that libraries read, so that those libraries work with these clients.

They are no part of the public API: each stays only as long as a library named here reads it.

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

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

__all__ = ["MISSING", "CoordinatorNames", "SubscriptionNames", "private_name"]

T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "<default>"


MISSING: Final = _Missing()
"""Marks an argument that was not given."""


class private_name(Generic[T]):
    """A property that a subclass may assign: it then has an attribute of its own.

    Args:
        get: Returns the value, given the object.
    """

    def __init__(self, get: Callable[[Any], T]) -> None:
        self._get = get

    def __get__(self, owner: object, kind: type | None = None) -> T:
        return self._get(owner)


class CoordinatorNames:
    """Attributes of aiokafka's group coordinator.

    Attributes:
        member_id: The consumer's member id; "" outside of a group.
    """

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id


class SubscriptionNames:
    """Attributes of aiokafka's subscription state.

    Attributes:
        topics: The topics that the consumer is subscribed to.
    """

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
