"""DeleteShareGroupOffsets, v0: delete the offsets of topics of a share group without members."""

from aiokafka_lite.errors import BrokerResponseError, UnknownTopicOrPartitionError
from aiokafka_lite.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation
from aiokafka_lite.testing.serving.share_offsets import described_topic, empty_share_group
from aiokafka_lite.testing.wording import wording


def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    try:
        empty_share_group(context, request.group_id, Operation.DELETE)
    except BrokerResponseError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.errno, error_message=wording(error))
    response = DeleteShareGroupOffsetsResponse(error_message=None)
    for asked in request.topics:
        result = DeleteShareGroupOffsetsResponseTopic(asked.topic_name, error_message=None)
        response.responses.append(result)
        try:
            _delete(request.group_id, result, context)
        except BrokerResponseError as error:
            result.error_code, result.error_message = error.errno, wording(error)
    return response


def _delete(
    group_id: str, result: DeleteShareGroupOffsetsResponseTopic, context: RequestContext
) -> None:
    topic = described_topic(context, result.topic_name, Operation.READ)
    share = context.state.share
    if topic.topic_id not in share.states.of_group(group_id):
        raise UnknownTopicOrPartitionError("There is no offset information to delete.")
    result.topic_id = topic.topic_id
    share.states.forget(group_id, topic.topic_id)
