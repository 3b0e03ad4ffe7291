"""Queries a cluster for a planner: existing partitions and their offsets.

A client between an admin client and a consumer: it reads no records. It caches no results, because
Spark keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from inspect import signature
from typing import Any, Final

from aiokafka_lite._arguments import INT64, milliseconds
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Topic
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer_options import IsolationLevel, isolation
from aiokafka_lite.consumer.offsets.queries import offsets_at
from aiokafka_lite.errors import UnknownTopicOrPartitionError
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.structs import TopicPartition

__all__ = ["ClusterView"]

_CLOSE_WITHIN: Final = 3.0
_SHARED: Final = frozenset(signature(connection_options).parameters) - {
    "request_timeout",
    "max_response_bytes",
}


class ClusterView:
    """A cluster's topics and offsets.

    Args:
        arguments: Arguments of a consumer; those that concern reading are ignored.

    Raises:
        ValueError, TypeError: See `AIOKafkaConsumer`.
    """

    def __init__(self, arguments: Mapping[str, object]) -> None:
        defaults = {
            name: each.default for name, each in signature(AIOKafkaConsumer).parameters.items()
        }
        # Any: validated where it is used, as if the application had passed it to a consumer.
        settings: dict[str, Any] = {**defaults, **arguments}
        request_timeout = milliseconds(
            "request_timeout_ms", settings["request_timeout_ms"], least=1
        )
        timeout_ms = settings["default_api_timeout_ms"]
        self._timeout = (
            request_timeout
            if timeout_ms is None
            else milliseconds("default_api_timeout_ms", timeout_ms, least=1)
        )
        self._isolation: IsolationLevel = isolation(settings["isolation_level"])
        self._cluster = Cluster(
            settings["bootstrap_servers"],
            connection_options(
                request_timeout=request_timeout, **{name: settings[name] for name in _SHARED}
            ),
            metadata_max_age=milliseconds(
                "metadata_max_age_ms", settings["metadata_max_age_ms"], most=INT64
            ),
            retry_backoff=milliseconds("retry_backoff_ms", settings["retry_backoff_ms"]),
            retry_backoff_max=milliseconds(
                "retry_backoff_max_ms", settings["retry_backoff_max_ms"]
            ),
            allow_auto_create_topics=False,
        )

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaConnectionError: No bootstrap address responded.

        Cancellation: closes the connections.
        """
        await self._cluster.start()

    async def stop(self) -> None:
        """Close all connections, within three seconds. Idempotent."""
        await self._cluster.close(asyncio.get_running_loop().time() + _CLOSE_WITHIN)

    async def partitions(self, names: Collection[str] | None) -> dict[str, list[int]]:
        """Return the current partitions of topics, by topic; none for internal topics.

        Args:
            names: None for all topics.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            TopicAuthorizationFailedError: The client has no permission for a topic.
            KafkaTimeoutError: No broker responded in time.
            KafkaError: A broker returned an error for a topic, which may be retriable.
        """
        cluster = self._cluster
        cluster.set_topics(names)
        metadata = await cluster.refresh(self._deadline())
        if names is None:
            found = [topic for topic in metadata.topics.values() if topic.error is None]
        else:
            found = [_there(name, metadata.topics.get(name)) for name in names]
        return {topic.name: sorted(topic.partitions) for topic in found if not topic.is_internal}

    async def offsets(
        self, times: Mapping[TopicPartition, int], *, search: bool = False
    ) -> dict[TopicPartition, int]:
        """Return offsets of partitions that `partitions` has returned.

        Args:
            times: `EARLIEST`, `LATEST` (the last stable offset with "read_committed"), or
                milliseconds since the epoch.
            search: True if there are times among them, which needs brokers that can search.

        Returns:
            The offset of each partition; -1 if it has no record at or after the time.

        Raises:
            KafkaTimeoutError: The brokers did not return all offsets in time.
            KafkaError: A broker returned an error for a partition.
        """
        found = await offsets_at(
            self._cluster, times, self._deadline(), isolation=self._isolation, search=search
        )
        return {tp: found[tp].offset for tp in times}

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._timeout


def _there(name: str, topic: Topic | None) -> Topic:
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Topic {name!r} does not exist")
    if topic.error is not None:
        raise topic.error(f"Topic {name!r} cannot be read")
    return topic
