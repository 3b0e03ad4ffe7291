"""The topics of a subscription: waiting until they exist, and the errors of those that brokers
refuse."""

from __future__ import annotations

from collections.abc import Collection

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import (
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)

__all__ = ["topics_refusal", "wait_for_topics"]


async def wait_for_topics(cluster: Cluster, topics: Collection[str], deadline: float) -> None:
    """Wait until the partitions of all topics are known.

    Args:
        cluster: Whose metadata tracks the topics.
        topics: Their names.
        deadline: In loop time.

    Raises:
        UnknownTopicOrPartitionError: A topic did not exist by the deadline.
        KafkaError: A broker refuses a topic, or no broker answered by the deadline.
    """
    for topic in topics:
        try:
            await cluster.partitions_of(topic, deadline)
        except KafkaTimeoutError as error:
            if isinstance(error.__cause__, UnknownTopicOrPartitionError):
                raise error.__cause__ from error
            raise


def topics_refusal(metadata: Metadata, topics: Collection[str]) -> KafkaError | None:
    """Return the error of the topics that brokers refuse, or None.

    Authorization errors come first, as in Java.
    """
    refused: dict[type[KafkaError], list[str]] = {}
    for name in sorted(topics):
        topic = metadata.topics.get(name)
        if topic is not None and topic.refused and topic.error is not None:
            refused.setdefault(topic.error, []).append(name)
    for kind in sorted(refused, key=lambda kind: kind is InvalidTopicError):
        return kind(*refused[kind])
    return None
