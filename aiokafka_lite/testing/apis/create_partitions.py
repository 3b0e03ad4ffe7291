"""CreatePartitions, v0-v3: add partitions to topics. v3 throttling (KIP-599) never occurs here."""

from collections import Counter

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.wording import wording


def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}
    return CreatePartitionsResponse(
        results=[
            _create(topic, times_named[name], context, validate_only=request.validate_only)
            for name, topic in wanted.items()
        ]
    )


def _create(
    wanted: CreatePartitionsTopic, times_named: int, context: RequestContext, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    replicas = None
    if wanted.assignments is not None:
        replicas = [assignment.broker_ids for assignment in wanted.assignments]
    try:
        context.check(wanted.name)
        if times_named > 1:
            raise InvalidRequestError("Duplicate topic name.")
        context.authorize(Operation.ALTER, Resource.TOPIC, wanted.name)
        context.topic(wanted.name)
        context.state.add_partitions(
            wanted.name, wanted.count, replicas, validate_only=validate_only
        )
    except BrokerResponseError as error:
        return CreatePartitionsTopicResult(
            name=wanted.name, error_code=error.errno, error_message=wording(error)
        )
    return CreatePartitionsTopicResult(name=wanted.name)
