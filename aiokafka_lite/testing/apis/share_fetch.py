"""ShareFetch, v1-v2: a member acknowledges records and acquires others (KIP-932).

v2 adds the acquire mode (KIP-1206) and renewal (KIP-1222).
"""

from collections.abc import Sequence
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    InvalidShareSessionEpochError,
    UnknownError,
)
from aiokafka_lite.errors import ShareSessionLimitReachedError as LimitReachedError
from aiokafka_lite.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from aiokafka_lite.testing.context import Delayed, RequestContext
from aiokafka_lite.testing.serving.acknowledged_partitions import acknowledge
from aiokafka_lite.testing.serving.share_reading import ShareRead, ShareReader
from aiokafka_lite.testing.serving.share_replies import (
    AcknowledgeResults,
    by_topic,
    checked_key,
    find_leader,
)
from aiokafka_lite.testing.share.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareSession,
)
from aiokafka_lite.testing.watchers import Watchers
from aiokafka_lite.testing.wording import wording

_MODES: Final = (0, 1)  # batch_optimized, record_limit


def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse | Delayed:
    try:
        key = checked_key(context, request.group_id, request.member_id)
        _check(request)
        session = _session(request, context, key)
    except LimitReachedError as error:
        return _Refused(_refusal(error), request.max_wait_ms)
    except BrokerResponseError as error:
        return _refusal(error)
    results: AcknowledgeResults = {}
    if _has_acknowledgements(request):
        results = acknowledge(context, key, request.topics, may_renew=request.is_renew_ack)
    if request.share_acquire_mode not in _MODES:
        return _refusal(UnknownError(f"unknown acquire mode {request.share_acquire_mode}"))
    fetch = _ShareFetch(request, context, session, results)
    if request.share_session_epoch == FINAL_EPOCH:
        share = context.state.share
        share.release(session)
        share.sessions[context.node_id].close(key)
        return fetch.without_records()
    if request.is_renew_ack:
        return fetch.without_records()
    ready = fetch.take_if_ready()
    if ready is not None:
        return ready
    fetch.on_waiting()
    return fetch


def _refusal(error: BrokerResponseError) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error.errno, error_message=wording(error))


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)


def _check(request: ShareFetchRequest) -> None:
    """Check what does not depend on the session.

    Raises:
        InvalidRequestError: A request that renews locks asks for records too.
    """
    sizes = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(sizes):
        raise InvalidRequestError("a request that renews locks must not fetch records")


def _session(request: ShareFetchRequest, context: RequestContext, key: SessionKey) -> ShareSession:
    """Open, continue or find the session of a request.

    Raises:
        InvalidRequestError: The first request of a session contains acknowledgements.
        ShareSessionLimitReachedError, ShareSessionNotFoundError, InvalidShareSessionEpochError
    """
    sessions = context.state.share.sessions[context.node_id]
    named = [
        (topic.topic_id, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    seen = {topic_id for topic_id, _ in named if topic_id in context.state.topics_by_id}
    if request.share_session_epoch == FINAL_EPOCH:
        return sessions.get(key)
    if request.share_session_epoch == INITIAL_EPOCH:
        if _has_acknowledgements(request):
            raise InvalidRequestError("the first request of a session contains acknowledgements")
        session = sessions.open(key, context.session.connection_id, named)
        session.seen_topics |= seen
        return session
    session = sessions.resume(key, request.share_session_epoch)
    forgotten = [
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    session.update(named, forgotten)
    session.seen_topics |= seen
    return session


class _Refused(Delayed):
    """An error that the broker returns only after the client's `max_wait_ms`."""

    watched: Sequence[Watchers] = ()

    def __init__(self, response: ShareFetchResponse, wait_ms: int) -> None:
        self._response = response
        self.timeout = max(0, wait_ms) / 1000

    def take_if_ready(self) -> None:
        return None

    def take_now(self) -> ShareFetchResponse:
        return self._response


class _ShareFetch(Delayed):
    """A fetch, which acquires records at once or when there are enough.

    Args:
        request: The request.
        context: Its context.
        session: Its session.
        results: The errors of its acknowledgements.
    """

    outlives_connection = True

    def __init__(
        self,
        request: ShareFetchRequest,
        context: RequestContext,
        session: ShareSession,
        results: AcknowledgeResults,
    ) -> None:
        self._request = request
        self._context = context
        self._session = session
        self._results = results
        self._reader = ShareReader(request, context, session)
        self.timeout = max(0, request.max_wait_ms) / 1000
        self.watched = self._reader.watched

    def take_if_ready(self) -> ShareFetchResponse | None:
        if self._reader.is_idle or self._request.max_wait_ms <= 0 or self._reader.has_enough():
            return self.take_now()
        return None

    def on_waiting(self) -> None:
        """Handle that the request waits for records."""
        self._reader.on_waiting()

    def take_now(self) -> ShareFetchResponse:
        return self._answer(self._reader.read())

    def without_records(self) -> ShareFetchResponse:
        """Return the response to a request that acquires nothing."""
        return self._answer({})

    def _answer(self, read: dict[PartitionKey, ShareRead]) -> ShareFetchResponse:
        context, session = self._context, self._session
        response = ShareFetchResponse(error_message=None)
        settings = context.state.share.settings_of(session.key.group_id)
        response.acquisition_lock_timeout_ms = settings.lock_duration_ms
        leaders: set[int] = set()
        entries = []
        if self._is_overtaken:
            # The records stay acquired, although the member does not receive them.
            overtaken = InvalidShareSessionEpochError("another request overtook this one")
            response.error_code, response.error_message = overtaken.errno, wording(overtaken)
            read = {}
        for place, result in read.items():
            if self._is_news(place, result):
                entries.append((place, self._part(place, result, leaders)))
        for place in self._results.keys() - {place for place, _ in entries}:
            entries.append((place, self._part(place, ShareRead(), leaders)))
        response.responses = [
            ShareFetchableTopicResponse(topic_id, list(parts))
            for topic_id, parts in by_topic(entries)
        ]
        nodes = [context.state.nodes[node_id] for node_id in sorted(leaders) if node_id >= 0]
        response.node_endpoints = [
            NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes
        ]
        return response

    @property
    def _is_overtaken(self) -> bool:
        """True if the session has counted another request while this one waited."""
        epoch = self._request.share_session_epoch
        return epoch not in (INITIAL_EPOCH, FINAL_EPOCH) and not self._session.is_at(epoch)

    def _is_news(self, place: PartitionKey, result: ShareRead) -> bool:
        """Return True if a response must contain a partition; the first contains all."""
        partitions = self._session.partitions
        is_news = partitions.get(place, False) or result.error is not None or bool(result.records)
        if place in partitions:
            partitions[place] = result.error is not None
        return is_news or self._request.share_session_epoch == INITIAL_EPOCH

    def _part(self, place: PartitionKey, result: ShareRead, leaders: set[int]) -> PartitionData:
        data = PartitionData(place[1], records=result.records)
        data.acquired_records = [AcquiredRecords(*one) for one in result.acquired]
        refused = self._results.get(place)
        if result.error is not None:
            data.error_code, data.error_message = result.error.errno, wording(result.error)
        if refused is not None:
            data.acknowledge_error_code = refused.errno
            data.acknowledge_error_message = wording(refused)
        leader = find_leader(self._context, place, result.error)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(*leader)
            leaders.add(leader[0])
        return data
