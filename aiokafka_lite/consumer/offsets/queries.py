"""What an application asks about topics and offsets, whatever is assigned. No position moves."""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import ANY, call
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.consumer.offsets.position_resolver import Found, list_offsets
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
    """The offsets at these times, all of them.

    Args:
        times: As of `list_offsets`.
        deadline: In loop time.
        isolation: Whether the latest offset is the last stable one.
        search: Whether the brokers must be able to find records by time.

    Raises:
        KafkaTimeoutError: Not all were told in time, or a partition does not exist.
        UnsupportedVersionError: `search`, and a broker before 0.10.1.
        KafkaError: A broker's answer about one of them.
    """
    told: dict[TopicPartition, Found | KafkaError] = {}
    await list_offsets(
        cluster, times, deadline, isolation=isolation, on_found=told.__setitem__, search=search
    )
    found: dict[TopicPartition, Found] = {}
    for tp in times:
        answer = told[tp]
        if isinstance(answer, KafkaError):
            raise answer
        found[tp] = answer
    return found


async def topic_names(cluster: Cluster, deadline: float) -> set[str]:
    """All topics that this client may see, internal ones left out.

    Raises:
        KafkaTimeoutError: No broker told it in time.
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
