"""CreateTopics, v0-v7: any broker accepts it, as in KRaft.

v1 adds `validate_only`; v4 default values (-1) of partitions and replication factor; v5 returns
the created topic with the configurations that the client may describe (KIP-525); v6 throttling
(KIP-599), which never occurs here; v7 returns the topic's id.
"""

from collections import Counter
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aiokafka_lite.testing.configs.config_store import ConfigSource
from aiokafka_lite.testing.configs.topic_configs import TOPIC_SETTINGS, broker_names
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.topics import Topic
from aiokafka_lite.testing.wording import wording

_METADATA_TOPIC: Final = "__cluster_metadata"


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
    name = wanted.name
    assignments = {item.partition_index: item.broker_ids for item in wanted.assignments}
    try:
        context.check(name)
        if times_named > 1:
            raise InvalidRequestError("Duplicate topic name.")
        if name == _METADATA_TOPIC:
            raise InvalidRequestError(f"Creation of internal topic {name} is prohibited.")
        if not context.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
            context.authorize(Operation.CREATE, Resource.TOPIC, name)
        if len(assignments) < len(wanted.assignments):
            raise InvalidRequestError(f"a partition of {name} is assigned more than once")
        topic = context.state.create_topic(
            name,
            wanted.num_partitions,
            wanted.replication_factor,
            assignments,
            {config.name: config.value for config in wanted.configs},
            validate_only=validate_only,
        )
    except BrokerResponseError as error:
        return CreatableTopicResult(
            name=name, error_code=error.errno, error_message=wording(error), configs=[]
        )
    made = CreatableTopicResult(name=name, topic_id=topic.topic_id, error_message=None)
    if context.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name):
        made.num_partitions = len(topic.partitions)
        made.replication_factor = len(topic.partitions[0].replicas)
        made.configs = [_config(topic, name, context) for name in TOPIC_SETTINGS]
    else:
        made.topic_config_error_code = TopicAuthorizationFailedError.errno
    return made


def _config(topic: Topic, name: str, context: RequestContext) -> CreatableTopicConfigs:
    """Return the effective value of a configuration, and its source."""
    source = ConfigSource.TOPIC_CONFIG
    if name not in topic.configs:
        brokers = context.state.broker_config
        found = [brokers.synonyms(known, context.node_id) for known in broker_names(name)]
        source = next((values[0][0] for values in found if values), ConfigSource.DEFAULT_CONFIG)
    return CreatableTopicConfigs(name=name, value=topic.config(name), config_source=source)
