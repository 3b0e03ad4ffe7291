"""ConsumerGroupDescribe, v0-v1: the consumer groups (KIP-848) and their members.

v1 shows which members use the classic protocol.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound
from aiokafka_lite.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.groups.consumer_group_protocol import ConsumerGroup
from aiokafka_lite.testing.groups.consumer_member import ConsumerMember
from aiokafka_lite.testing.groups.consumer_settings import check_enabled
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.serving.group_descriptions import (
    add_authorized_operations,
    check_described_topics,
    named_partitions,
)
from aiokafka_lite.testing.wording import wording

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    described = [_describe(group_id, context) for group_id in request.group_ids]
    if request.include_authorized_operations:
        add_authorized_operations(described, context)
    return ConsumerGroupDescribeResponse(groups=described)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.check()
        check_enabled(context.state.features, context.state.broker_config)
        context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id)
        group = context.group(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        described = _described(group)
        check_described_topics(_topics_of(described.members), context)
    except BrokerResponseError as error:
        return DescribedGroup(
            error_code=error.errno, error_message=wording(error), group_id=group_id
        )
    return described


def _described(group: ConsumerGroup) -> DescribedGroup:
    names = group.topic_names()
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(member, group, names) for member in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, names: Mapping[UUID, str]) -> Member:
    # It still owns the partitions that it has yet to revoke.
    owned = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())}
        for topic_id in [*member.assigned, *member.revoking]
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(owned, names),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), names),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], names: Mapping[UUID, str]) -> Assignment:
    return Assignment([TopicPartitions(*one) for one in named_partitions(partitions, names)])


def _topics_of(members: Iterable[Member]) -> set[str]:
    """Return the topics that members subscribe to, or have partitions of."""
    found: set[str] = set()
    for member in members:
        found.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            found.update(topic.topic_name for topic in assignment.topic_partitions)
    return found
