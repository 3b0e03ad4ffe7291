"""What a planner asks of a cluster: which partitions there are, and where their records are.

A client of its own kind, between an admin and a consumer: it reads no record. Every question is
asked anew, since Spark remembers the answers.
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
        arguments: Those of a consumer; what is about reading is passed over.

    Raises:
        ValueError, TypeError: As of `AIOKafkaConsumer`.
    """

    def __init__(self, arguments: Mapping[str, object]) -> None:
        defaults = {
            name: each.default for name, each in signature(AIOKafkaConsumer).parameters.items()
        }
        # Any: checked by whoever takes it, as if the application had passed it to a consumer.
        told: dict[str, Any] = {**defaults, **arguments}
        request_timeout = milliseconds("request_timeout_ms", told["request_timeout_ms"], least=1)
        timeout_ms = told["default_api_timeout_ms"]
        self._timeout = (
            request_timeout
            if timeout_ms is None
            else milliseconds("default_api_timeout_ms", timeout_ms, least=1)
        )
        self._isolation: IsolationLevel = isolation(told["isolation_level"])
        self._cluster = Cluster(
            told["bootstrap_servers"],
            connection_options(
                request_timeout=request_timeout, **{name: told[name] for name in _SHARED}
            ),
            metadata_max_age=milliseconds(
                "metadata_max_age_ms", told["metadata_max_age_ms"], most=INT64
            ),
            retry_backoff=milliseconds("retry_backoff_ms", told["retry_backoff_ms"]),
            retry_backoff_max=milliseconds("retry_backoff_max_ms", told["retry_backoff_max_ms"]),
            allow_auto_create_topics=False,
        )

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaConnectionError: No bootstrap address answered.

        Cancellation: closes what was opened.
        """
        await self._cluster.start()

    async def stop(self) -> None:
        """Close all connections, within three seconds. Idempotent."""
        await self._cluster.close(asyncio.get_running_loop().time() + _CLOSE_WITHIN)

    async def partitions(self, names: Collection[str] | None) -> dict[str, list[int]]:
        """The partitions of topics, by topic; asked for now. Internal topics have none to show.

        Args:
            names: None for all topics.

        Raises:
            UnknownTopicOrPartitionError: One of the names is no topic.
            TopicAuthorizationFailedError: One of them may not be read.
            KafkaTimeoutError: Nobody told in time.
            KafkaError: A broker's answer about one of them, which may pass.
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
        """Offsets of partitions that `partitions` has told of.

        Args:
            times: `EARLIEST`, `LATEST` (the last stable offset with "read_committed"), or
                milliseconds since the epoch.
            search: Whether there are times among them, so that brokers must know to search.

        Returns:
            Of each; -1 where no record is that late.

        Raises:
            KafkaTimeoutError: Not all were told in time.
            KafkaError: A broker's answer about one of them.
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
