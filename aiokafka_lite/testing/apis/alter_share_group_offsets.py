"""AlterShareGroupOffsets, v0: set the start offsets of a share group without members.

A group that does not exist is created.
"""

from aiokafka_lite.errors import BrokerResponseError, GroupIdNotFound
from aiokafka_lite.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation
from aiokafka_lite.testing.serving.share_offsets import described_topic, empty_share_group
from aiokafka_lite.testing.share.embedded_share_group import ShareGroup
from aiokafka_lite.testing.wording import wording


def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    try:
        group = _group(request.group_id, context)
    except BrokerResponseError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.errno, error_message=wording(error))
    response = AlterShareGroupOffsetsResponse(error_message=None)
    state_epoch = group.next_state_epoch()
    for asked in request.topics:
        changed = AlterShareGroupOffsetsResponseTopic(asked.topic_name)
        response.responses.append(changed)
        for wanted in asked.partitions:
            index = wanted.partition_index
            result = AlterShareGroupOffsetsResponsePartition(index, error_message=None)
            changed.partitions.append(result)
            try:
                topic = described_topic(context, asked.topic_name, Operation.READ, index)
            except BrokerResponseError as error:
                result.error_code, result.error_message = error.errno, wording(error)
                continue
            changed.topic_id = topic.topic_id
            key = (request.group_id, topic.topic_id, index)
            context.state.share.states.initialize(key, state_epoch, wanted.start_offset)
    return response


def _group(group_id: str, context: RequestContext) -> ShareGroup:
    """Return the group, or a new one.

    Raises:
        BrokerResponseError: The error for the client.
    """
    try:
        return empty_share_group(context, group_id, Operation.READ)
    except GroupIdNotFound:
        if context.state.groups.get(group_id) is not None:
            raise
    group = context.state.share.new_group(group_id)
    context.state.groups.put(group)
    group.note()
    return group
