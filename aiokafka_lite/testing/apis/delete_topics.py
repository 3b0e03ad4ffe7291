"""DeleteTopics, v0-v6: by name, since v6 also by id (KIP-516); v5 adds the error message.

Before v3 there was no error code for `delete.topic.enable=false`.
"""

from collections import Counter
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
)
from aiokafka_lite.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.wording import wording

_DISABLED_SINCE: Final = 3
_STATES_SINCE: Final = 6


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted: list[tuple[str | None, UUID]] = (
        [(topic.name, topic.topic_id) for topic in request.topics]
        if context.version >= _STATES_SINCE
        else [(name, ZERO_UUID) for name in request.topic_names]
    )
    times_meant = Counter(_meant(name, topic_id, context) for name, topic_id in wanted)
    once = {_meant(name, topic_id, context): (name, topic_id) for name, topic_id in wanted}
    return DeleteTopicsResponse(
        responses=[
            _delete(name, topic_id, times_meant[meant], context)
            for meant, (name, topic_id) in once.items()
        ]
    )


def _meant(name: str | None, topic_id: UUID, context: RequestContext) -> tuple[str | None, UUID]:
    """Return a key that is equal for the name and the id of a topic; a request has one of them."""
    topic = context.state.topics_by_id.get(topic_id) if name is None else None
    return (name, topic_id) if topic is None else (topic.name, ZERO_UUID)


def _delete(
    name: str | None, topic_id: UUID, times_named: int, context: RequestContext
) -> DeletableTopicResult:
    try:
        if times_named > 1:
            known = context.state.topics.get(name or "")
            if known is not None and context.allows(Operation.DESCRIBE, Resource.TOPIC, known.name):
                topic_id = known.topic_id
            raise InvalidRequestError("Duplicate topic name or id.")
        if (name is None) == (topic_id == ZERO_UUID):
            raise InvalidRequestError("a topic must be identified by either its name or its id")
        if name is not None:
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        topic = context.topic(name, topic_id)
        if name is None and not context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name):
            raise TopicAuthorizationFailedError("no permission to describe the topic with this id")
        name = topic.name  # a client that may describe a topic may know its name
        context.check(name)
        context.authorize(Operation.DELETE, Resource.TOPIC, name)
        if not context.state.broker_config.boolean("delete.topic.enable"):
            raise _disabled(context.version)
        context.state.delete_topic(name)
    except BrokerResponseError as error:
        return DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=error.errno, error_message=wording(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _disabled(version: int) -> BrokerResponseError:
    detail = "Topic deletion is disabled."
    if version < _DISABLED_SINCE:
        return InvalidRequestError(detail)
    return TopicDeletionDisabledError(detail)
