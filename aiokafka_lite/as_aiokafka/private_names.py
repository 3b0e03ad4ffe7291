"""Private names of aiokafka that libraries read, so that those libraries work with these clients.

They are not part of the public API: each one stays only as long as a library named here reads it.

| name | read by |
|---|---|
| `AIOKafkaClient._bootstrap_servers`, `_client_id` | OpenTelemetry's instrumentation |
| `AIOKafkaClient._wait_on_metadata` | health checks of services |
| `AIOKafkaConsumer._client`, `_group_id` | OpenTelemetry's instrumentation, kstreams |
| `AIOKafkaConsumer._coordinator.member_id`, `_subscription.topics` | FastStream |
| `AIOKafkaConsumer._coordinator.coordinator_id` | kafkaesk, health checks of services |
| `AIOKafkaConsumer._enable_auto_commit` | kstreams |
| `AIOKafkaProducer._key_serializer`, `_partitioner`, `_metadata` | kstreams |
| `AIOKafkaProducer._sender.sender_task` | cryptofeed, kafkaesk, health checks of services |
| `producer.producer._missing` (the default of `acks`) | FastStream |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

__all__ = ["MISSING", "CoordinatorNames", "SenderTaskNames", "SubscriptionNames", "private_name"]

T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "<default>"


MISSING: Final = _Missing()
"""Marks an argument that was not given."""


class private_name(Generic[T]):
    """A property that a subclass may assign: the subclass then has its own attribute.

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
        coordinator_id: Node id of the group's coordinator; None while it is not known, and
            outside of a group.
    """

    def __init__(self, member_id: str, coordinator_id: int | None) -> None:
        self.member_id = member_id
        self.coordinator_id = coordinator_id


class SenderTaskNames:
    """Methods of the one task that sends aiokafka's batches; here, there is one per broker.

    Args:
        error: Returns the error after which nothing more is sent, or None.
        closed: Returns True once the sender was closed.
    """

    def __init__(
        self, error: Callable[[], BaseException | None], closed: Callable[[], bool]
    ) -> None:
        self._error = error
        self._closed = closed

    def done(self) -> bool:
        """True if nothing more is sent: the producer was stopped, or failed for good."""
        return self._closed() or self._error() is not None

    def cancelled(self) -> bool:
        """False: a producer that was stopped has ended its task itself."""
        return False

    def exception(self) -> BaseException | None:
        """Return the error that ended the task, or None."""
        return self._error()


class SubscriptionNames:
    """Attributes of aiokafka's subscription state.

    Attributes:
        topics: The topics that the consumer is subscribed to.
    """

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
