"""The fetch session with one broker: builds requests and matches responses. Sans-IO.

A broker stores what a client fetches (KIP-227): the first fetch of a session contains all wanted
partitions, later fetches only the changes, and responses only new data. So the cost of a fetch
depends on what changed since the previous one, on both sides and on the wire, not on the number of
assigned
partitions: `next_request` processes only the partitions passed to `on_change`.

A `FetchSession` lives as long as its broker is fetched from, across lost connections and evicted
sessions: after these, the next fetch contains everything again. `asked` is the state that the
broker should have; only `next_request` changes it, and the pending response is matched with it.

A partition that is temporarily not wanted (paused, being read, in error) is removed from the
session, as in Java: otherwise, the broker would send the same records with each fetch. A partition
that was read to its end before the next fetch is simply requested at its new offset.

Before Fetch v7 (Kafka 1.1) there is no session: every fetch contains all partitions.

Non-obvious:

- The broker processes additions before forgotten partitions, so a request cannot forget and add the
  same partition, except under another topic id. A partition that was lost and assigned again
  between two fetches was not forgotten, and the broker sends nothing until it changes: its new
  state takes over the broker's earlier data.
- A session uses one version, because it identifies topics in one way. When an id becomes known or
  unknown, a new session is started; that saves the round trip in which the broker would reject the
  fetch (FETCH_SESSION_TOPIC_ID_ERROR).
- `next_request_apart` fetches outside the session, which stays unchanged.

Source: FetchRequest.json, FetchResponse.json, KIP-74 (order), KIP-227, KIP-320, KIP-516; the
behavior is that of Java's `FetchSessionHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.errors import (
    BrokerResponseError,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaProtocolError,
    NodeNotReadyError,
    for_code,
)
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

SESSIONS_FROM: Final = 7
"""First version with sessions (Kafka 1.1)."""

TOPIC_IDS_FROM: Final = 13
"""First version that identifies topics by id (Kafka 3.1)."""

SESSION_ERRORS: Final[tuple[type[BrokerResponseError], ...]] = (
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    FetchSessionTopicIdError,
)
"""Errors that reject the session, not the fetch: a new session is started."""

NO_SESSION: Final = 0
_BEGIN: Final = 0  # epoch: open a session, and close the one that is named
_END: Final = -1  # epoch: close the one that is named, open none
_LAST: Final = 2**31 - 1  # epoch before 1
_NO_ID: Final = UUID(int=0)
_NO_REPLICA: Final = ReplicaState()  # shared by all requests, read-only


class Asked(NamedTuple):
    """The request for one partition, to match the response with.

    Attributes:
        state: The partition's state.
        generation: The state's `fetch_generation` at the last request that included it.
        topic_id: Zero if the topic is identified by name.
        offset: The offset to fetch from.
        leader_epoch: The leader epoch that the client knows.
        max_bytes: Limit of this partition.
    """

    state: PartitionState
    generation: int
    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int

    @property
    def key(self) -> tuple[str | UUID, int]:
        """The key that identifies the partition in a response."""
        topic, partition = self.state.tp
        return (topic if self.topic_id is _NO_ID else self.topic_id), partition


class PartitionAnswer(NamedTuple):
    """The broker's response for one requested partition."""

    asked: Asked
    data: PartitionData


_Apart: TypeAlias = tuple[dict[tuple[str | UUID, int], TopicPartition], dict[TopicPartition, Asked]]
"""A fetch outside the session: the partitions by response key, and the request of each."""


class FetchSession:
    """The fetch session with one broker: at most one fetch is in flight.

    Args:
        options: The consumer's options.

    Attributes:
        asked: What the broker's session contains, by partition, including the fetch in flight.
        session_id: The id that the broker assigned, 0 without a session.
        epoch: The epoch of the next request: 0 begins a session.
        version: The version of the request in flight, or of the last one.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self.asked: dict[TopicPartition, Asked] = {}
        self.session_id = NO_SESSION
        self.epoch = _BEGIN
        self.version = 0
        self._options = options
        self._isolation = options.isolation_level.value
        self._session_version = 0  # of all requests of the session
        self._by_key: dict[
            tuple[str | UUID, int], TopicPartition
        ] = {}  # as responses identify them
        self._changed: dict[TopicPartition, PartitionState] = {}  # since the last request
        self._without_id: set[TopicPartition] = set()  # wanted partitions whose topic id is unknown
        self._apart: _Apart | None = None  # the fetch in flight, if outside the session

    # --- changes

    def on_change(self, state: PartitionState) -> None:
        """A partition changed: process it before the next request."""
        self._changed[state.tp] = state

    def remembers(self, state: PartitionState) -> bool:
        """True if the broker's session should contain a partition."""
        asked = self.asked.get(state.tp)
        return asked is not None and asked.state is state

    # --- requests

    def next_request(
        self,
        wanted: Collection[PartitionState],
        ids: Mapping[str, UUID],
        latest: int,
        *,
        max_wait: float,
        max_bytes: int,
    ) -> FetchRequest:
        """Build the next request; its version is `version`.

        Args:
            wanted: All partitions to fetch, each with a position, in the order to serve them: a
                broker fills a response in this order until it is full (in a session it keeps the
                order itself, and moves partitions that returned records to the end).
            ids: Topic ids by name; used from version 13 on.
            latest: Newest version to use; a lower one is used if a topic's id is unknown.
            max_wait: Seconds the broker may wait for `fetch_min_bytes`.
            max_bytes: Limit of the response; the first batch is sent even if it is larger.
        """
        self._apart = None
        changed, self._changed = self._changed, {}
        for tp, state in changed.items():
            if state in wanted and tp.topic not in ids:
                self._without_id.add(tp)
            else:
                self._without_id.discard(tp)
        self.version = _version(latest, nameless=bool(self._without_id))
        if self.version != self._session_version:
            self._session_version = self.version
            self.epoch = _BEGIN
        if self.version < SESSIONS_FROM:
            self._forget_session()
        request = self._request(max_wait=max_wait, max_bytes=max_bytes)
        if self.version < SESSIONS_FROM or self.epoch == _BEGIN:
            self._ask_for_all(request, wanted, ids)
        else:
            self._ask_for_changes(request, changed, wanted, ids)
        if self.version >= SESSIONS_FROM:
            request.session_id, request.session_epoch = self.session_id, self.epoch
        return request

    def next_request_apart(
        self,
        wanted: Iterable[PartitionState],
        ids: Mapping[str, UUID],
        latest: int,
        *,
        max_wait: float,
        max_bytes: int,
    ) -> FetchRequest:
        """Build a request for these partitions only, outside the session, which stays unchanged."""
        states = list(wanted)
        nameless = any(state.tp.topic not in ids for state in states)
        self.version = _version(latest, nameless=nameless)
        by_id = self.version >= TOPIC_IDS_FROM
        request = self._request(max_wait=max_wait, max_bytes=max_bytes)
        topics = _Topics(request)
        self._apart = by_key, apart = {}, {}
        for state in states:
            asked = _ask(state, ids, by_id=by_id)
            if asked is not None:
                topics.add(asked)
                by_key[asked.key] = state.tp
                apart[state.tp] = asked
        return request

    def last_request(self) -> FetchRequest | None:
        """Build the request that ends the session, to send in `version`; None without a session."""
        if self.session_id == NO_SESSION:
            return None
        request = self._request(max_wait=0, max_bytes=0)
        request.session_id, request.session_epoch = self.session_id, _END
        self._forget_session()
        return request

    def _request(self, *, max_wait: float, max_bytes: int) -> FetchRequest:
        """Build an empty request outside any session."""
        return FetchRequest(
            replica_state=_NO_REPLICA,
            max_wait_ms=round(max_wait * 1000),
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._isolation,
            session_id=NO_SESSION,
            session_epoch=_END,
            topics=[],
            rack_id=self._options.client_rack,
        )

    def _ask_for_all(
        self, request: FetchRequest, wanted: Iterable[PartitionState], ids: Mapping[str, UUID]
    ) -> None:
        by_id = self.version >= TOPIC_IDS_FROM
        before = self.asked
        self.asked, self._by_key = {}, {}
        topics = _Topics(request)
        for state in wanted:
            asked = _ask(state, ids, by_id=by_id)
            if asked is not None:
                topics.add(asked)
                self._by_key[asked.key] = state.tp
                self._remember(asked, before.get(state.tp))

    def _ask_for_changes(
        self,
        request: FetchRequest,
        changed: Mapping[TopicPartition, PartitionState],
        wanted: Collection[PartitionState],
        ids: Mapping[str, UUID],
    ) -> None:
        by_id = self.version >= TOPIC_IDS_FROM
        topics = _Topics(request)
        for tp, state in changed.items():
            before = self.asked.get(tp)
            asked = _ask(state, ids, by_id=by_id) if state in wanted else None
            if asked is None:
                if before is not None:
                    topics.forget(before)
                    del self.asked[tp], self._by_key[before.key]
                continue
            if before is None:
                topics.add(asked)
                self._by_key[asked.key] = tp
            elif before.topic_id is not asked.topic_id and before.topic_id != asked.topic_id:
                topics.forget(before)  # the topic was recreated
                del self._by_key[before.key]
                topics.add(asked)
                self._by_key[asked.key] = tp
            elif before[3:] != asked[3:]:
                topics.add(asked)
            self._remember(asked, before)

    def _remember(self, asked: Asked, before: Asked | None) -> None:
        self.asked[asked.state.tp] = asked
        if before is not None and before.state is not asked.state:
            _copy_broker_data(before.state, asked.state)

    def _forget_session(self) -> None:
        self.session_id, self.epoch = NO_SESSION, _BEGIN

    # --- responses

    def take_answers(self, response: FetchResponse) -> list[PartitionAnswer]:
        """Return each partition of the response with its request.

        Raises:
            FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: The broker
                rejected the session (for example because it was evicted); the next request begins
                a new one.
            NodeNotReadyError: The broker rejected the whole request, for any reason; it is retried
                (as in Java's FetchSessionHandler).
            KafkaProtocolError: The response contains a partition that was not requested, or one
                twice. All of it is discarded.
        """
        apart, self._apart = self._apart, None
        if response.error_code:
            self._on_rejected(for_code(response.error_code), within=apart is None)
        try:
            answers = _pair(response, self.version, *(apart or (self._by_key, self.asked)))
        except KafkaProtocolError:
            self.on_failure()
            raise
        if apart is None and self.version >= SESSIONS_FROM:
            self._on_accepted(response, len(answers))
        return answers

    def on_failure(self) -> None:
        """Begin a new session: the request in flight may or may not have reached the broker.

        The next request contains the old session's id, so that the broker closes it.
        """
        self._apart = None
        self.epoch = _BEGIN

    def _on_rejected(self, kind: type[BrokerResponseError], *, within: bool) -> None:
        if within:
            self.on_failure()
            if kind is FetchSessionIdNotFound:
                self._forget_session()
            if kind in SESSION_ERRORS:
                raise kind(f"fetch session {self.session_id or '(gone)'}")
        raise NodeNotReadyError(f"the broker rejected the fetch: {kind.message}")

    def _on_accepted(self, response: FetchResponse, answered: int) -> None:
        """Update the session after the broker has accepted the request."""
        if response.session_id == NO_SESSION:
            self._forget_session()  # the broker has no room for it, closed it, or throttles
        elif self.epoch != _BEGIN:
            self.epoch = 1 if self.epoch == _LAST else self.epoch + 1
        else:
            self.session_id = response.session_id
            if answered == len(self.asked):
                self.epoch = 1
            else:
                # Java rejects such a response. This client uses its partitions, but the broker's
                # session may lack the others, so the next fetch closes the session.
                missing = len(self.asked) - answered
                log.info(
                    "%s: A full fetch response lacks %d of %d partitions; starting a new session",
                    self._options.log_name,
                    missing,
                    len(self.asked),
                    extra=log_extra(self._options.log_name),
                )


def _version(latest: int, *, nameless: bool) -> int:
    """Return the version to use."""
    return TOPIC_IDS_FROM - 1 if latest >= TOPIC_IDS_FROM and nameless else latest


def _ask(state: PartitionState, ids: Mapping[str, UUID], *, by_id: bool) -> Asked | None:
    """Return the request for a partition; None while it has no position."""
    offset = state.fetch_offset
    if offset is None:
        return None
    topic_id = ids[state.tp.topic] if by_id else _NO_ID
    generation = state.fetch_generation
    return Asked(state, generation, topic_id, offset, state.leader_epoch, state.source.fetch_bytes)


def _copy_broker_data(old: PartitionState, new: PartitionState) -> None:
    """Copy the broker's data to the new state of a reassigned partition: it is not sent again."""
    source, known = new.source, old.source
    if source.highwater is None:
        source.highwater = known.highwater
        source.last_stable_offset = known.last_stable_offset
        source.log_start_offset = known.log_start_offset
        source.polled_at = known.polled_at


def _pair(
    response: FetchResponse,
    version: int,
    by_key: Mapping[tuple[str | UUID, int], TopicPartition],
    asked: Mapping[TopicPartition, Asked],
) -> list[PartitionAnswer]:
    """Match the partitions of a response with their requests.

    Args:
        by_key: The requested partitions by response key.
        asked: The request of each.

    Raises:
        KafkaProtocolError: See `FetchSession.take_answers`.
    """
    answers = []
    for topic in response.responses:
        name = topic.topic if version < TOPIC_IDS_FROM else topic.topic_id
        for data in topic.partitions:
            tp = by_key.get((name, data.partition_index))
            if tp is None:
                raise KafkaProtocolError(
                    f"a fetch response contains {name}-{data.partition_index}, "
                    "which was not requested"
                )
            answers.append(PartitionAnswer(asked[tp], data))
    if len(answers) > 1 and len({answer.asked.state.tp for answer in answers}) < len(answers):
        raise KafkaProtocolError("a fetch response contains one partition twice")
    return answers


class _Topics:
    """Writes partitions into a request, by topic."""

    __slots__ = ("_added", "_forgotten", "_request")

    def __init__(self, request: FetchRequest) -> None:
        self._request = request
        self._added: dict[str, FetchTopic] = {}  # a request contains one topic of a name
        self._forgotten: dict[tuple[str, UUID], ForgottenTopic] = {}

    def add(self, asked: Asked) -> None:
        """Add or change a partition in the request."""
        name, partition = asked.state.tp
        topic = self._added.get(name)
        if topic is None:
            named = name if asked.topic_id is _NO_ID else ""
            topic = FetchTopic(topic=named, topic_id=asked.topic_id, partitions=[])
            self._added[name] = topic
            self._request.topics.append(topic)
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.offset,
                partition_max_bytes=asked.max_bytes,
            )
        )

    def forget(self, asked: Asked) -> None:
        """Remove a partition from the session."""
        name, partition = asked.state.tp
        key = (name, asked.topic_id)
        topic = self._forgotten.get(key)
        if topic is None:
            named = name if asked.topic_id is _NO_ID else ""
            topic = ForgottenTopic(topic=named, topic_id=asked.topic_id, partitions=[])
            self._forgotten[key] = topic
            self._request.forgotten_topics_data.append(topic)
        topic.partitions.append(partition)
