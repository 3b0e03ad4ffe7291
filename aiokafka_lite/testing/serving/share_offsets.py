"""What the requests that read and change the offsets of share groups have in common."""

from aiokafka_lite.errors import GroupIdNotFound, NonEmptyGroup, UnknownTopicOrPartitionError
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.share.embedded_share_group import ShareGroup
from aiokafka_lite.testing.share.share_settings import check_share_enabled
from aiokafka_lite.testing.topics import Topic

__all__ = ["described_topic", "empty_share_group"]


def empty_share_group(context: RequestContext, group_id: str, operation: Operation) -> ShareGroup:
    """Return a share group without members.

    Raises:
        NonEmptyGroup: It has members.
        BrokerResponseError: Another error for the client.
    """
    context.check()
    check_share_enabled(context.state.features)
    context.authorize(operation, Resource.GROUP, group_id)
    group = context.group(group_id)
    if not isinstance(group, ShareGroup):
        found = "not found" if group is None else "is not a share group"
        raise GroupIdNotFound(f"Group {group_id} {found}.")
    if not group.is_empty:
        raise NonEmptyGroup("The group is not empty.")
    return group


def described_topic(
    context: RequestContext, name: str, operation: Operation, partition: int | None = None
) -> Topic:
    """Return a topic that the client may use.

    Raises:
        BrokerResponseError: The error for the client, real or injected.
    """
    context.check(name, partition)
    context.authorize(operation, Resource.TOPIC, name)
    topic = context.topic(name)
    if partition is not None and not 0 <= partition < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"{name} has no partition {partition}")
    return topic
