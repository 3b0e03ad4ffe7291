"""Lists topics.

Source: MetadataRequest.json v0-v13.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.metadata import metadata_request
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID

__all__ = ["TopicListing", "list_topics"]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic of the cluster.

    Attributes:
        topic_id: None from brokers before 2.8.
        is_internal: True for topics of Kafka's own, such as `__consumer_offsets`.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool


async def list_topics(
    dispatcher: Dispatcher, timeout_ms: float | None, *, list_internal: bool
) -> dict[str, TopicListing]:
    """See `AIOKafkaAdminClient.list_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    request = PerVersion(MetadataRequest, lambda v: metadata_request(None, v, auto_create=False))
    response = await dispatcher.ask(request, ANY, deadline)
    return {
        topic.name: TopicListing(
            topic.name,
            None if topic.topic_id == ZERO_UUID else topic.topic_id,
            topic.is_internal,
        )
        for topic in response.topics
        if topic.name is not None and (list_internal or not topic.is_internal)
    }
