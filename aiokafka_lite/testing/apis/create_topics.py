"""CreateTopics, v0-v7: any broker takes it, as in KRaft.

v1 adds ``validate_only``; v4 lets partitions and replication factor be the defaults (-1); v5
answers what was made, with its configurations (KIP-525); v7 with the topic's id.
"""

from collections import Counter
from typing import Final

from aiokafka_lite.errors import BrokerResponseError, InvalidRequestError
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aiokafka_lite.testing.configs import TOPIC_DEFAULTS
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.topics import Topic

_DEFAULT_CONFIG: Final = 5  # KIP-226: where a configuration comes from
_TOPIC_CONFIG: Final = 1


def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}
    return CreateTopicsResponse(
        topics=[
            _create(topic, times_named[topic.name], request.validate_only, context)
            for topic in wanted.values()
        ]
    )


def _create(
    wanted: CreatableTopic, times_named: int, validate_only: bool, context: RequestContext
) -> CreatableTopicResult:
    try:
        context.check(wanted.name)
        if times_named > 1:
            raise InvalidRequestError("Duplicate topic name.")
        topic = context.state.create_topic(
            wanted.name,
            wanted.num_partitions,
            wanted.replication_factor,
            {item.partition_index: item.broker_ids for item in wanted.assignments},
            {config.name: config.value for config in wanted.configs},
            validate_only=validate_only,
        )
    except BrokerResponseError as error:
        return CreatableTopicResult(
            name=wanted.name, error_code=error.errno, error_message=str(error), configs=[]
        )
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(topic),
    )


def _configs(topic: Topic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=name,
            value=topic.config(name),
            config_source=_TOPIC_CONFIG if name in topic.configs else _DEFAULT_CONFIG,
        )
        for name in TOPIC_DEFAULTS
    ]
