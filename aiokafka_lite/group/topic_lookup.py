"""Topics that a member needs to know of and the client does not track: those of the other members,
and those that the broker's pattern chose."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.cluster.retry import ANY, call
from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["load_topics", "topics_by_id"]

_BY_ID_FROM = 12
"""The first version of Metadata in which topics can be asked for by their id."""


async def load_topics(cluster: Cluster, names: Collection[str], deadline: float) -> Metadata:
    """Metadata in which a broker has told of all these topics, be it that they do not exist.

    They stay tracked for a while; who needs them for longer has to say so.

    Raises:
        KafkaTimeoutError: nothing was told by then (loop time).
        KafkaError: a lasting error of the cluster.
    """
    newer_than = max(map(cluster.add_topic, names), default=-1)
    known = cluster.metadata.topics
    if any(name in known and not known[name].partitions for name in names):
        # It did not exist when it was asked for, and may have been made since.
        newer_than = cluster.request_update()
    return await cluster.wait_for_version(newer_than, deadline)


async def topics_by_id(
    cluster: Cluster, topic_ids: Collection[UUID], deadline: float
) -> dict[str, TopicLayout]:
    """The names and layouts of topics by their ids; those that the broker does not know are left
    out.

    Raises:
        KafkaTimeoutError: nothing was told by then (loop time).
        UnsupportedVersionError: a broker before 3.1.

    Source: KIP-516.
    """

    def build(version: int) -> MetadataRequest:
        topics = [MetadataRequestTopic(topic_id, None) for topic_id in sorted(topic_ids)]
        return MetadataRequest(topics, allow_auto_topic_creation=False)

    response = await call(
        cluster, PerVersion(MetadataRequest, build), ANY, deadline, oldest=_BY_ID_FROM
    )
    return {
        topic.name: TopicLayout(len(topic.partitions), topic_id=topic.topic_id)
        for topic in response.topics
        if topic.name is not None and not topic.error_code
    }
