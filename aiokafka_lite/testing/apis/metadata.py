"""Metadata, v0-v13: the running brokers, the topics, and the leaders of their partitions.

- v0: an empty list requests all topics; since v1 null does, and an empty list requests none;
- before v4 every topic requested by name may be created; since then the request decides. The
  response to the request that creates a topic does not contain it yet, but an error:
  UNKNOWN_TOPIC_OR_PARTITION with KRaft, LEADER_NOT_AVAILABLE with ZooKeeper;
- v8 adds authorized operations of topics and of the cluster (KIP-430);
- v12: topics may be requested by id; an unknown id gets UNKNOWN_TOPIC_ID.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
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
from aiokafka_lite.testing.placement import in_sync_replicas
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
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
    answer = _Topics(request, context)
    if context.version < _TOPIC_IDS_SINCE and any(
        asked.topic_id != ZERO_UUID or asked.name is None for asked in request.topics or ()
    ):
        # The whole request is invalid: each topic gets an error, and the cluster is omitted.
        refused = [answer.unsupported(asked) for asked in request.topics or ()]
        return MetadataResponse(topics=refused)
    if request.topics is None or (context.version == 0 and not request.topics):
        topics = answer.all()
    else:
        once = {(asked.name, asked.topic_id): asked for asked in request.topics}
        topics = [answer.asked(asked) for asked in once.values()]
    response = MetadataResponse(
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
    if request.include_cluster_authorized_operations:
        allowed = context.authorized_operations(Resource.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = allowed
    return response


class _Topics:
    """Builds the topics of one response."""

    def __init__(self, request: MetadataRequest, context: RequestContext) -> None:
        self._context = context
        self._tell_operations = request.include_topic_authorized_operations
        self._may_create = (
            request.allow_auto_topic_creation
            and context.state.broker_config.boolean("auto.create.topics.enable")
        )

    def all(self) -> list[MetadataResponseTopic]:
        """Return every topic that the client may describe."""
        context = self._context
        return [
            self._known(topic)
            for topic in context.state.topics.values()
            if context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        ]

    def asked(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        """Return the topic with a name or an id, or its error."""
        context = self._context
        name, topic_id = asked.name, asked.topic_id
        nameless = context.version >= _TOPIC_IDS_SINCE
        try:
            if topic_id != ZERO_UUID or name is None:
                topic = context.topic(None, topic_id)
                context.authorize(Operation.DESCRIBE, Resource.TOPIC, topic.name)
                return self._known(topic)
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
            if name not in context.state.topics:
                self._create(name)
            return self._known(context.topic(name))
        except BrokerResponseError as error:
            return self._refused(error.errno, name if nameless else name or "", topic_id)

    def unsupported(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        """Return the error of a topic requested by id in a version that does not support it."""
        return self._refused(InvalidRequestError.errno, asked.name or "", asked.topic_id)

    def _create(self, name: str) -> None:
        """Create a missing topic if allowed; always raise an error for this response.

        On a real broker the controller needs a moment, and the client retries.
        """
        context = self._context
        context.check(name)
        check_topic_name(name)
        if self._may_create:
            if not context.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
                context.authorize(Operation.CREATE, Resource.TOPIC, name)
            context.state.create_topic(name)
            if not context.state.features.on_kraft:
                raise LeaderNotAvailableError(f"topic {name} is being created")
        raise UnknownTopicOrPartitionError(f"topic {name} does not exist")

    def _known(self, topic: Topic) -> MetadataResponseTopic:
        context = self._context
        try:
            context.check(topic.name)
        except BrokerResponseError as error:
            return self._refused(error.errno, topic.name, ZERO_UUID)
        alive = {node.node_id for node in context.state.alive}
        answer = MetadataResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[_partition(partition, alive, context) for partition in topic.partitions],
        )
        if self._tell_operations:
            allowed = context.authorized_operations(Resource.TOPIC, topic.name)
            answer.topic_authorized_operations = allowed
        return answer

    def _refused(self, error_code: int, name: str | None, topic_id: UUID) -> MetadataResponseTopic:
        answer = MetadataResponseTopic(
            error_code=error_code,
            name=name,
            topic_id=topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
        )
        hidden = error_code == TopicAuthorizationFailedError.errno
        if self._tell_operations and name and not hidden:
            allowed = self._context.authorized_operations(Resource.TOPIC, name)
            answer.topic_authorized_operations = allowed
        return answer


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
        isr_nodes=in_sync_replicas(partition, context.state.features)[0],
        offline_replicas=_missing(partition.replicas, alive),
    )


def _missing(replicas: Sequence[int], alive: set[int]) -> list[int]:
    return [replica for replica in replicas if replica not in alive]
