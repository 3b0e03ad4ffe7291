"""OffsetDelete, v0: delete a group's offsets of topics that no member reads (KIP-496)."""

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupIdNotFound,
    GroupSubscribedToTopicError,
    NonEmptyGroup,
)
from aiokafka_lite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.consumer_protocol import PROTOCOL_TYPE
from aiokafka_lite.testing.security.acl_table import Operation, Resource


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    try:
        context.check()
        context.authorize(Operation.DELETE, Resource.GROUP, request.group_id)
        group = _group(request.group_id, context)
    except BrokerResponseError as error:
        return OffsetDeleteResponse(error_code=error.errno)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name, partitions=_delete(topic, _refusal(topic.name, context), group)
            )
            for topic in request.topics
        ]
    )


def _refusal(name: str, context: RequestContext) -> int:
    """Return the error code of a topic that is missing or that the client may not read, or 0."""
    try:
        context.authorize(Operation.READ, Resource.TOPIC, name)
        context.topic(name)
    except BrokerResponseError as error:
        return error.errno
    return 0


def _group(group_id: str, context: RequestContext) -> Group:
    """Return the group if its offsets may be deleted.

    Raises:
        GroupIdNotFound, InvalidGroupIdError, NotCoordinatorForGroupError
        NonEmptyGroup: It has members with unknown subscriptions.
    """
    group = context.group(group_id)
    if group is None:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    others = isinstance(group, ClassicGroup) and group.protocol_type != PROTOCOL_TYPE
    if others and not group.is_empty:
        raise NonEmptyGroup(f"group {group_id} still has members")
    return group


def _delete(
    topic: OffsetDeleteRequestTopic, refusal: int, group: Group
) -> list[OffsetDeleteResponsePartition]:
    if not refusal and group.is_subscribed(topic.name):
        refusal = GroupSubscribedToTopicError.errno
    for partition in topic.partitions:
        if not refusal:
            group.offsets.delete(topic.name, partition.partition_index)
    return [
        OffsetDeleteResponsePartition(partition.partition_index, refusal)
        for partition in topic.partitions
    ]
