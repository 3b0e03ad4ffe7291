"""DescribeShareGroupOffsets, v0-v1: the start offsets of share groups.

v1 adds the lag (KIP-1226).
"""

from typing import Final

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.share.kept_states import UNKNOWN_OFFSET
from aiokafka_lite.testing.share.share_settings import check_share_enabled
from aiokafka_lite.testing.topics import Topic
from aiokafka_lite.testing.wording import wording

_UNKNOWN_LAG: Final = -1


def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[_describe(group, context) for group in request.groups]
    )


def _describe(
    asked: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    described = DescribeShareGroupOffsetsResponseGroup(asked.group_id, error_message=None)
    try:
        context.check()
        check_share_enabled(context.state.features)
        context.authorize(Operation.DESCRIBE, Resource.GROUP, asked.group_id)
        context.check_coordinator(CoordinatorType.GROUP, asked.group_id)
    except BrokerResponseError as error:
        described.error_code, described.error_message = error.errno, wording(error)
        return described
    topics = _all(asked.group_id, context) if asked.topics is None else asked.topics
    described.topics = [_topic(asked.group_id, topic, context) for topic in topics]
    return described


def _all(group_id: str, context: RequestContext) -> list[DescribeShareGroupOffsetsRequestTopic]:
    """Return all partitions with a state that the client may see."""
    known = context.state.topics_by_id
    return [
        DescribeShareGroupOffsetsRequestTopic(known[topic_id].name, sorted(indexes))
        for topic_id, indexes in context.state.share.states.of_group(group_id).items()
        if topic_id in known
        and context.allows(Operation.DESCRIBE, Resource.TOPIC, known[topic_id].name)
    ]


def _topic(
    group_id: str, asked: DescribeShareGroupOffsetsRequestTopic, context: RequestContext
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = context.state.topics.get(asked.topic_name)
    described = DescribeShareGroupOffsetsResponseTopic(asked.topic_name)
    if topic is not None:
        described.topic_id = topic.topic_id
    for index in asked.partitions:
        try:
            context.check(asked.topic_name, index)
            context.authorize(Operation.DESCRIBE, Resource.TOPIC, asked.topic_name)
            described.partitions.append(_partition(group_id, topic, index, context))
        except BrokerResponseError as error:
            described.partitions.append(
                DescribeShareGroupOffsetsResponsePartition(
                    index, error_code=error.errno, error_message=wording(error)
                )
            )
    return described


def _partition(
    group_id: str, topic: Topic | None, index: int, context: RequestContext
) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a partition; one without a state has no offset, even if it does not exist."""
    described = DescribeShareGroupOffsetsResponsePartition(
        index, UNKNOWN_OFFSET, lag=_UNKNOWN_LAG, error_message=None
    )
    if topic is None:
        return described
    kept = context.state.share.states.get((group_id, topic.topic_id, index))
    if kept is not None and kept.start_offset != UNKNOWN_OFFSET:
        described.start_offset = kept.start_offset
        described.leader_epoch = kept.leader_epoch
        if kept.completed >= 0:
            end = topic.partition(index).log.high_watermark
            described.lag = end - kept.start_offset - kept.completed
    return described
