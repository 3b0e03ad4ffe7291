"""Queries about topics and offsets, independent of the assignment. No position changes."""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import ANY, call
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.consumer.offsets.offset_lookup import Found, list_offsets
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.structs import TopicPartition


async def offsets_at(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    deadline: float,
    *,
    isolation: IsolationLevel,
    search: bool = False,
) -> dict[TopicPartition, Found]:
    """Return the offsets of all partitions at the given times.

    Args:
        times: As for `list_offsets`.
        deadline: In loop time.
        isolation: With READ_COMMITTED, the latest offset is the last stable offset.
        search: True if the brokers must support searching by time.

    Raises:
        KafkaTimeoutError: An offset was not returned in time, or a partition does not exist.
        UnsupportedVersionError: `search` is True, and a broker is older than 0.10.1.
        KafkaError: A broker returned an error for a partition.
    """
    results: dict[TopicPartition, Found | KafkaError] = {}
    await list_offsets(
        cluster, times, deadline, isolation=isolation, on_found=results.__setitem__, search=search
    )
    found: dict[TopicPartition, Found] = {}
    for tp in times:
        answer = results[tp]
        if isinstance(answer, KafkaError):
            raise answer
        found[tp] = answer
    return found


async def topic_names(cluster: Cluster, deadline: float) -> set[str]:
    """Return all topics that this client may describe, except internal ones.

    Raises:
        KafkaTimeoutError: No broker answered in time.
    """
    response = await call(
        cluster,
        # An empty list means all of them in version 0 only, a null list from version 1 on.
        PerVersion(
            MetadataRequest, lambda version: MetadataRequest(topics=None if version else [])
        ),
        ANY,
        deadline,
    )
    return {
        topic.name
        for topic in response.topics
        if topic.name is not None and not topic.error_code and not topic.is_internal
    }
