"""ShareAcknowledge, v1-v2: a member accepts, releases, rejects and renews records (KIP-932).

v2 adds renewal (KIP-1222) and the lock timeout in the response.
"""

from aiokafka_lite.errors import BrokerResponseError, InvalidShareSessionEpochError
from aiokafka_lite.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.acknowledged_partitions import acknowledge
from aiokafka_lite.testing.serving.share_replies import (
    AcknowledgeResults,
    by_topic,
    checked_key,
    find_leader,
)
from aiokafka_lite.testing.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from aiokafka_lite.testing.wording import wording

_LOCK_TIMEOUT_SINCE = 2


def handle(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    try:
        if not any(topic.partitions for topic in request.topics):
            context.check()
        key = checked_key(context, request.group_id, request.member_id)
        _continue_session(request, context, key)
    except BrokerResponseError as error:
        return ShareAcknowledgeResponse(error_code=error.errno, error_message=wording(error))
    results = acknowledge(context, key, request.topics, may_renew=request.is_renew_ack)
    share = context.state.share
    if request.share_session_epoch == FINAL_EPOCH:
        sessions = share.sessions[context.node_id]
        share.release(sessions.get(key))
        sessions.close(key)
    response = _response(results, context)
    if context.version >= _LOCK_TIMEOUT_SINCE:
        response.acquisition_lock_timeout_ms = share.settings_of(key.group_id).lock_duration_ms
    return response


def _continue_session(
    request: ShareAcknowledgeRequest, context: RequestContext, key: SessionKey
) -> None:
    """Check that the request continues a session, and count it.

    Raises:
        InvalidShareSessionEpochError, ShareSessionNotFoundError
    """
    sessions = context.state.share.sessions[context.node_id]
    if request.share_session_epoch == INITIAL_EPOCH:
        raise InvalidShareSessionEpochError("ShareAcknowledge does not open a share session")
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.get(key)
    else:
        sessions.resume(key, request.share_session_epoch)


def _response(results: AcknowledgeResults, context: RequestContext) -> ShareAcknowledgeResponse:
    response = ShareAcknowledgeResponse(error_message=None)
    leaders: set[int] = set()
    entries = []
    for place, error in results.items():
        data = PartitionData(place[1], current_leader=LeaderIdAndEpoch())
        if error is not None:
            data.error_code, data.error_message = error.errno, wording(error)
        leader = find_leader(context, place, error)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(*leader)
            leaders.add(leader[0])
        entries.append((place, data))
    response.responses = [
        ShareAcknowledgeTopicResponse(topic_id, list(parts))
        for topic_id, parts in by_topic(entries)
    ]
    nodes = [context.state.nodes[node_id] for node_id in sorted(leaders) if node_id >= 0]
    response.node_endpoints = [
        NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes
    ]
    return response
