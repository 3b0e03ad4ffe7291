"""DeleteTopics, v0-v6: by name, since v6 also by id (KIP-516); v5 adds the error message."""

from collections import Counter
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext

_STATES_SINCE: Final = 6


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted: list[tuple[str | None, UUID]] = (
        [(topic.name, topic.topic_id) for topic in request.topics]
        if context.version >= _STATES_SINCE
        else [(name, ZERO_UUID) for name in request.topic_names]
    )
    return DeleteTopicsResponse(
        responses=[
            _delete(name, topic_id, times_named, context)
            for (name, topic_id), times_named in Counter(wanted).items()
        ]
    )


def _delete(
    name: str | None, topic_id: UUID, times_named: int, context: RequestContext
) -> DeletableTopicResult:
    try:
        if times_named > 1:
            raise InvalidRequestError("Duplicate topic name or id.")
        if (name is None) == (topic_id == ZERO_UUID):
            raise InvalidRequestError("a topic is named either by its name or by its id")
        topic = context.topic(name, topic_id)
        context.check(topic.name)
        context.state.delete_topic(topic.name)
    except BrokerResponseError as error:
        return DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=error.errno, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
