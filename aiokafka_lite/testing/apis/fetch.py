"""Fetch, v0-v18: batches from an offset on, immediately or when there are enough.

- v0-v3: the batches are converted to message sets, as in brokers before 4.0; v0-v2 may truncate
  the first one; since v3 it is complete even if it exceeds the limits (KIP-74);
- v4: isolation level, last stable offset, aborted transactions (KIP-98); v5: log start offset;
- v7: fetch sessions (KIP-227); v11: preferred read replicas and fetches from followers (KIP-392);
- v9: leader epochs are checked (KIP-320); v12: diverging epochs are returned (KIP-595);
- v13: topics by id (KIP-516); v15: a follower's id is in a tagged field;
- v16: the new leader's address (KIP-951); v17, v18: fields that only controllers use.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import BrokerResponseError, InvalidFetchSessionEpoch
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.context import Delayed, RequestContext
from aiokafka_lite.testing.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchKey,
    FetchSession,
    SessionPartition,
)
from aiokafka_lite.testing.serving.partition_fetch import REFUSED_UNREAD, FetchReader, Look
from aiokafka_lite.testing.watchers import Watchers

_TOPIC_IDS_SINCE: Final = 13
_LEADER_HINT_SINCE: Final = 16
_REFUSED_UNREAD: Final = frozenset(error.errno for error in REFUSED_UNREAD)


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Delayed:
    try:
        fetch = _begin(request, context)
    except BrokerResponseError as error:
        return FetchResponse(error_code=error.errno, session_id=NO_SESSION)
    ready = fetch.take_if_ready()
    return fetch if ready is None else ready


def _begin(request: FetchRequest, context: RequestContext) -> "_Fetch":
    """Apply a request to its session; a full fetch starts a new one.

    Raises:
        FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: The request does
            not continue an existing session.
    """
    cache = context.state.fetch_sessions[context.node_id]
    uses_topic_ids = context.version >= _TOPIC_IDS_SINCE
    reader = FetchReader(request, context)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        cache.close(request.session_id)
        session = FetchSession(privileged=reader.from_follower, uses_topic_ids=uses_topic_ids)
        _put(session, request)
        return _FullFetch(request, context, reader, session)
    session = cache.resume(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids)
    _put(session, request)
    for forgotten in request.forgotten_topics_data:
        topic = forgotten.topic_id if uses_topic_ids else forgotten.topic
        for index in forgotten.partitions:
            session.forget((topic, index))
    if not len(session):  # nothing is left to fetch
        cache.close(session.session_id)
        session.session_id = NO_SESSION
        return _FullFetch(request, context, reader, session)
    cache.on_request(session, context.state.clock.now_ms())
    if reader.looks_at_all:
        session.look_at_all()
    return _IncrementalFetch(request, context, reader, session)


def _put(session: FetchSession, request: FetchRequest) -> None:
    for asked in request.topics:
        topic = asked.topic_id if session.uses_topic_ids else asked.topic
        name = None if session.uses_topic_ids else asked.topic
        for wanted in asked.partitions:
            session.put((topic, wanted.partition), name, wanted)


class _Fetch(Delayed, ABC):
    """One fetch request, which reads immediately or when its partitions have enough records.

    Args:
        request: The request.
        context: Its context.
        reader: Reads the partitions.
        session: The session, with its partitions.
    """

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        reader: FetchReader,
        session: FetchSession,
    ) -> None:
        self._request = request
        self._context = context
        self._reader = reader
        self._session = session
        self._readable = 0  # bytes in all partitions
        self._readable_of: dict[FetchKey, int] = {}
        self._unread: set[FetchKey] = set()  # rejected before reading: a later rejection is news
        self.timeout = request.max_wait_ms / 1000
        self.watched: Sequence[Watchers] = (session.watchers,)

    def take_if_ready(self) -> FetchResponse | None:
        if self._request.max_wait_ms <= 0 or self._has_enough():
            return self.take_now()
        return None

    @abstractmethod
    def take_now(self) -> FetchResponse: ...

    def _has_enough(self) -> bool:
        """Return True if there is enough or waiting is useless; otherwise watch for changes.

        After the first call, it checks only changed partitions.
        """
        session, reader, first = self._session, self._reader, not self._readable_of
        enough = min(self._request.min_bytes, reader.max_bytes)
        changed = session.take_changed()
        looks: list[tuple[SessionPartition, Look]] = []
        reader.begin()
        for fetched in session.pending() if first else changed:
            look = reader.look(fetched)
            if look.partition is None:
                if not first and fetched.key not in self._unread:
                    return True
                self._unread.add(fetched.key)
            self._readable += look.readable - self._readable_of.get(fetched.key, 0)
            self._readable_of[fetched.key] = look.readable
            if look.urgent or self._readable >= enough:
                return True
            looks.append((fetched, look))
        if self._readable >= enough or len(self._unread) == len(session):
            return True
        for fetched, look in looks:
            if look.partition is not None:
                session.on_waiting(fetched, look.partition)
        return False

    def _answer(self, results: Sequence[tuple[SessionPartition, PartitionData]]) -> FetchResponse:
        """Build the response: group adjacent partitions by topic, with rejected ones last."""
        if any(data.error_code in _REFUSED_UNREAD for _, data in results):
            results = sorted(results, key=lambda entry: entry[1].error_code in _REFUSED_UNREAD)
        response = FetchResponse(session_id=self._session.session_id)
        previous: UUID | str | None = None
        for fetched, data in results:
            topic = fetched.key[0]
            if topic != previous:
                previous = topic
                name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
                response.responses.append(FetchableTopicResponse(name, topic_id, []))
            response.responses[-1].partitions.append(data)
        if self._context.version >= _LEADER_HINT_SINCE:
            response.node_endpoints = self._endpoints_of_leaders(results)
        return response

    def _endpoints_of_leaders(
        self, results: Sequence[tuple[SessionPartition, PartitionData]]
    ) -> list[NodeEndpoint]:
        """Return the addresses of the new leaders in the rejected partitions."""
        leaders = {data.current_leader.leader_id for _, data in results if data.error_code}
        nodes = [self._context.state.nodes[leader] for leader in sorted(leaders) if leader >= 0]
        return [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ]


class _FullFetch(_Fetch):
    """A fetch that lists all its partitions; the response contains all of them."""

    def take_now(self) -> FetchResponse:
        session, cache = self._session, self._context.state.fetch_sessions[self._context.node_id]
        self._reader.begin()
        results = [(fetched, self._reader.read(fetched)[0]) for fetched in session]
        now_ms = self._context.state.clock.now_ms()
        if self._request.session_epoch == INITIAL_EPOCH and cache.maybe_add(session, now_ms):
            for fetched, data in results:
                fetched.on_sent(data)
        else:
            session.close()
        return self._answer(results)

    def cancel(self) -> None:
        self._session.close()


class _IncrementalFetch(_Fetch):
    """A fetch that continues a session; the response contains only partitions with news."""

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        reader: FetchReader,
        session: FetchSession,
    ) -> None:
        super().__init__(request, context, reader, session)
        self._epoch = session.epoch  # of the next request

    def take_now(self) -> FetchResponse:
        session = self._session
        if session.epoch != self._epoch:  # another connection has continued the session
            return FetchResponse(
                error_code=InvalidFetchSessionEpoch.errno, session_id=session.session_id
            )
        self._reader.begin()
        results = []
        for fetched in session.pending():
            data, partition = self._reader.read(fetched)
            if session.on_read(fetched, data, partition):
                results.append((fetched, data))
        return self._answer(results)
