"""DescribeTopicPartitions, v0: topics ordered by name, in pages of partitions.

KIP-966. Unlike in Metadata, a partition without a leader has no error.
"""

from collections.abc import Iterator
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
)
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.placement import in_sync_replicas
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.topics import Partition, check_topic_name

_LIMIT: Final = "max.request.partition.size.limit"


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    asked = sorted({topic.name for topic in request.topics} or context.state.topics)
    try:
        context.check()
        names = _names_from(asked, request)
    except BrokerResponseError as error:
        return DescribeTopicPartitionsResponse(
            topics=[_refusal(topic.name, error) for topic in request.topics]
        )
    limit = min(context.state.broker_config.integer(_LIMIT), request.response_partition_limit)
    page = _Page(max(limit, 1))
    denied = []
    for name in names:
        first = request.cursor.partition_index if request.cursor and name == names[0] else 0
        try:
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, name)
        except BrokerResponseError as error:
            if request.topics:  # unrequested topics are omitted instead
                denied.append(_refusal(name, error))
            continue
        if not page.add(name, first, context):
            break
    return DescribeTopicPartitionsResponse(
        topics=[*page.topics, *denied], next_cursor=page.next_cursor
    )


def _names_from(asked: list[str], request: DescribeTopicPartitionsRequest) -> list[str]:
    """Return the topics from the cursor on.

    Raises:
        InvalidRequestError: The cursor is not at a requested topic, or its partition is invalid.
    """
    cursor = request.cursor
    if cursor is None:
        return asked
    if request.topics and cursor.topic_name not in asked:
        raise InvalidRequestError(
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic:"
            f" {cursor.topic_name}"
        )
    if cursor.partition_index < 0:
        raise InvalidRequestError(
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    return [name for name in asked if name >= cursor.topic_name]


def _refusal(name: str, error: BrokerResponseError) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error.errno, name=name)


class _Page:
    """A page of topics; when it is full, `next_cursor` is the start of the next page."""

    def __init__(self, limit: int) -> None:
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None
        self._left = limit

    def add(self, name: str, first: int, context: RequestContext) -> bool:
        """Add a topic's partitions from `first` on; return True if there is room for more."""
        if self._left == 0:
            self.next_cursor = Cursor(name, 0)
            return False
        allowed = context.authorized_operations(Resource.TOPIC, name)
        try:
            context.check(name)
            check_topic_name(name)
            topic = context.topic(name)
        except BrokerResponseError as error:
            refused = _refusal(name, error)
            refused.topic_authorized_operations = allowed
            self.topics.append(refused)
            return True
        partitions = topic.partitions[first : first + self._left]
        self.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=list(_described(partitions, context)),
                topic_authorized_operations=allowed,
            )
        )
        self._left -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            self.next_cursor = Cursor(name, first + len(partitions))
            return False
        return True


def _described(
    partitions: list[Partition], context: RequestContext
) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    alive = {node.node_id for node in context.state.alive}
    for partition in partitions:
        error_code = 0
        try:
            context.check(partition.topic.name, partition.index)
        except BrokerResponseError as error:
            error_code = error.errno
        isr, eligible = in_sync_replicas(partition, context.state.features)
        yield DescribeTopicPartitionsResponsePartition(
            error_code=error_code,
            partition_index=partition.index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=isr,
            eligible_leader_replicas=eligible,
            last_known_elr=list(eligible),
            offline_replicas=[node for node in partition.replicas if node not in alive],
        )
