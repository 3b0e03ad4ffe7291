"""Metadata, v0-v13: the brokers that are up, the topics, and who leads their partitions.

- v0: an empty list asks for all topics; since v1 null does, and an empty list asks for none;
- before v4 every topic asked for by name may be created; since then the request decides;
- v12: topics may be asked for by id; an unknown id is answered with UNKNOWN_TOPIC_ID.
"""

from collections.abc import Sequence
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.topics import (
    INTERNAL_TOPICS,
    NO_LEADER,
    Partition,
    Topic,
    check_topic_name,
)

_TOPIC_IDS_SINCE: Final = 12


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    state = context.state
    if request.topics is None or (context.version == 0 and not request.topics):
        topics = [_topic(topic, context) for topic in state.topics.values()]
    else:
        may_create = request.allow_auto_topic_creation and state.broker_config.boolean(
            "auto.create.topics.enable"
        )
        once = {(asked.name, asked.topic_id): asked for asked in request.topics}
        topics = [_asked_topic(asked, may_create, context) for asked in once.values()]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in state.alive
        ],
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        topics=topics,
    )


def _asked_topic(
    asked: MetadataRequestTopic, may_create: bool, context: RequestContext
) -> MetadataResponseTopic:
    state = context.state
    by_id = asked.topic_id != ZERO_UUID
    nameless = context.version >= _TOPIC_IDS_SINCE
    try:
        if not nameless and (by_id or asked.name is None):
            raise InvalidRequestError("topic ids are not supported before Metadata v12")
        if not by_id and asked.name is not None and asked.name not in state.topics:
            context.check(asked.name)
            if not may_create:
                check_topic_name(asked.name)
                raise UnknownTopicOrPartitionError(f"no topic has the name {asked.name}")
            state.create_topic(asked.name)
        return _topic(state.topic(asked.name, asked.topic_id), context)
    except BrokerResponseError as error:
        return MetadataResponseTopic(
            error_code=error.errno,
            name=asked.name if nameless else asked.name or "",
            topic_id=asked.topic_id,
            is_internal=asked.name in INTERNAL_TOPICS,
            partitions=[],
        )


def _topic(topic: Topic, context: RequestContext) -> MetadataResponseTopic:
    try:
        context.check(topic.name)
    except BrokerResponseError as error:
        return MetadataResponseTopic(
            error_code=error.errno, name=topic.name, topic_id=ZERO_UUID, partitions=[]
        )
    alive = {node.node_id for node in context.state.alive}
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, alive, context) for partition in topic.partitions],
    )


def _partition(
    partition: Partition, alive: set[int], context: RequestContext
) -> MetadataResponsePartition:
    try:
        context.check(partition.topic.name, partition.index)
        if partition.leader == NO_LEADER:
            raise LeaderNotAvailableError(f"{partition} has no leader")
    except BrokerResponseError as error:
        error_code = error.errno
    else:
        error_code = 0
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=_missing(partition.replicas, alive),
    )


def _missing(replicas: Sequence[int], alive: set[int]) -> list[int]:
    return [replica for replica in replicas if replica not in alive]
