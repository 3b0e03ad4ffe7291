"""ShareGroupDescribe, v1: share groups (KIP-932), their members and assignments."""

from collections.abc import Mapping
from uuid import UUID

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound
from aiokafka_lite.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.serving.group_descriptions import (
    add_authorized_operations,
    check_described_topics,
    named_partitions,
)
from aiokafka_lite.testing.share.embedded_share_group import ShareGroup, ShareMember
from aiokafka_lite.testing.share.share_settings import check_share_enabled
from aiokafka_lite.testing.share.sharing_assignor import ASSIGNOR_NAME
from aiokafka_lite.testing.wording import wording


def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    described = [_describe(group_id, context) for group_id in request.group_ids]
    if request.include_authorized_operations:
        add_authorized_operations(described, context)
    return ShareGroupDescribeResponse(groups=described)


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.check()
        check_share_enabled(context.state.features)
        context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id)
        group = context.group(group_id)
        if not isinstance(group, ShareGroup):
            found = "not found" if group is None else "is not a share group"
            raise GroupIdNotFound(f"Group {group_id} {found}.")
        check_described_topics(group.subscribed_topics(), context)
    except BrokerResponseError as error:
        return DescribedGroup(
            error_code=error.errno, error_message=wording(error), group_id=group_id
        )
    names = group.topic_names()
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_member(member, names) for member in group.members.values()],
    )


def _member(member: ShareMember, names: Mapping[UUID, str]) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            [TopicPartitions(*one) for one in named_partitions(member.assigned, names)]
        ),
    )
