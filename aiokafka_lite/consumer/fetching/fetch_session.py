"""What is asked of one broker in a fetch, and whom its answer is about. Sans-IO.

A broker remembers what a client fetches (KIP-227): the first fetch of a session names all wanted
partitions, those after it only what changed, and the answers only what is new. So a fetch costs
what changed since the one before, on both sides and on the wire, however many partitions are
assigned: `next_request` looks at those that `on_change` was told of and at nothing else.

A `FetchSession` lives as long as its broker is fetched from, through lost connections and the
sessions that the broker gives up: then the next fetch names everything again. What the broker is
believed to remember is `asked`; it is changed by `next_request` alone, and the one answer that is
under way is judged by it.

A partition that is not wanted for a while (paused, being read, in error) is forgotten, as by
Java: left as it is, the broker would send the same records with each fetch. A partition that was
read to its end before the next fetch is simply asked for at its new offset.

No session is opened before Fetch v7 (Kafka 1.1): every fetch names everything.

Non-obvious:

- The broker takes what is added before what is forgotten, so a partition cannot be forgotten and
  added in one request; only under another topic id it can. A partition that was lost and came
  back between two fetches was never forgotten then, and is not answered about until something
  changes: what the broker told about it before is handed on to its new state.
- A session speaks one version, if only because it names topics in one way. When an id becomes
  known or unknown, a new one is begun; that saves the round trip in which the broker would refuse
  (FETCH_SESSION_TOPIC_ID_ERROR).
- `next_request_apart` asks outside of the session, which does not notice it.

Source: FetchRequest.json, FetchResponse.json, KIP-74 (order), KIP-227, KIP-320, KIP-516; the
behaviour is that of Java's `FetchSessionHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

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
"""First version that names topics by id (Kafka 3.1)."""

SESSION_ERRORS: Final[tuple[type[BrokerResponseError], ...]] = (
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    FetchSessionTopicIdError,
)
"""The broker refuses the session, not the fetch: a new one is begun."""

NO_SESSION: Final = 0
_BEGIN: Final = 0  # epoch: open a session, and close the one that is named
_END: Final = -1  # epoch: close the one that is named, open none
_LAST: Final = 2**31 - 1  # epoch before 1
_NO_ID: Final = UUID(int=0)
_NO_REPLICA: Final = ReplicaState()  # of all requests: nobody writes to it


class Asked(NamedTuple):
    """What was asked about one partition, to judge the answer by.

    Attributes:
        state: Whose records.
        generation: The state's `fetch_generation`, at the last request that looked at it.
        topic_id: Zero where the topic is named.
        offset: To read from.
        leader_epoch: As the client knows it.
        max_bytes: Of this partition.
    """

    state: PartitionState
    generation: int
    topic_id: UUID
    offset: int
    leader_epoch: int
    max_bytes: int

    @property
    def key(self) -> tuple[str | UUID, int]:
        """By which an answer names the partition."""
        topic, partition = self.state.tp
        return (topic if self.topic_id is _NO_ID else self.topic_id), partition


class Answer(NamedTuple):
    """The broker's answer about one partition that it was asked about."""

    asked: Asked
    data: PartitionData


_Apart: TypeAlias = tuple[dict[tuple[str | UUID, int], TopicPartition], dict[TopicPartition, Asked]]
"""What is asked outside of the session: the partitions by what answers name, and what of each."""


class FetchSession:
    """The fetches of one broker: at most one is under way.

    Args:
        options: The consumer's.

    Attributes:
        asked: What the broker remembers, by partition; of a fetch under way, what it asked.
        session_id: As the broker named it, 0 without one.
        epoch: Of the next request: 0 begins a session.
        version: Of the request under way, or the last one.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self.asked: dict[TopicPartition, Asked] = {}
        self.session_id = NO_SESSION
        self.epoch = _BEGIN
        self.version = 0
        self._options = options
        self._isolation = options.isolation_level.value
        self._spoken = 0  # the version of all requests of the session
        self._by_key: dict[tuple[str | UUID, int], TopicPartition] = {}  # what answers name
        self._changed: dict[TopicPartition, PartitionState] = {}  # since the last request
        self._without_id: set[TopicPartition] = set()  # those wanted whose topic has no known id
        self._apart: _Apart | None = None  # asked outside, under way

    # --- what is wanted

    def on_change(self, state: PartitionState) -> None:
        """A partition is wanted, or no longer, or otherwise: look at it before the next request."""
        self._changed[state.tp] = state

    def remembers(self, state: PartitionState) -> bool:
        """Whether the broker is believed to watch a partition for us."""
        asked = self.asked.get(state.tp)
        return asked is not None and asked.state is state

    # --- asking

    def next_request(
        self,
        wanted: Collection[PartitionState],
        ids: Mapping[str, UUID],
        latest: int,
        *,
        max_wait: float,
        max_bytes: int,
    ) -> FetchRequest:
        """The next request; its version is `version`.

        Args:
            wanted: All partitions to fetch, which have a position; the one to serve first in
                front: a broker fills a response in this order until it is full (in a session it
                keeps the order itself, and puts those that gave records to the end).
            ids: Topic ids by name; used from version 13 on.
            latest: Newest version that may be spoken; less where a topic's id is not known.
            max_wait: Seconds the broker may wait for `fetch_min_bytes`.
            max_bytes: Of the whole response; the first batch is sent even if it is larger.
        """
        self._apart = None
        changed, self._changed = self._changed, {}
        for tp, state in changed.items():
            if state in wanted and tp.topic not in ids:
                self._without_id.add(tp)
            else:
                self._without_id.discard(tp)
        self.version = _version(latest, nameless=bool(self._without_id))
        if self.version != self._spoken:
            self._spoken = self.version
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
        """A request for these partitions only, outside of the session, which stays as it is."""
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
        """The request that ends the session, to send in `version`; None if there is none."""
        if self.session_id == NO_SESSION:
            return None
        request = self._request(max_wait=0, max_bytes=0)
        request.session_id, request.session_epoch = self.session_id, _END
        self._forget_session()
        return request

    def _request(self, *, max_wait: float, max_bytes: int) -> FetchRequest:
        """A request that asks for nothing yet, outside of any session."""
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
                topics.forget(before)  # the topic was made again
                del self._by_key[before.key]
                topics.add(asked)
                self._by_key[asked.key] = tp
            elif before[3:] != asked[3:]:
                topics.add(asked)
            self._remember(asked, before)

    def _remember(self, asked: Asked, before: Asked | None) -> None:
        self.asked[asked.state.tp] = asked
        if before is not None and before.state is not asked.state:
            _hand_on(before.state, asked.state)

    def _forget_session(self) -> None:
        self.session_id, self.epoch = NO_SESSION, _BEGIN

    # --- being answered

    def take_answers(self, response: FetchResponse) -> list[Answer]:
        """Each partition of the response, with what was asked about it.

        Raises:
            FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: The broker
                does not go on with the session (it evicted it, say); the next request begins one.
            NodeNotReadyError: The broker refused the request as a whole, whatever its reason: that
                is tried again (as by Java's FetchSessionHandler).
            KafkaProtocolError: The response is about a partition that was not asked for, or about
                one twice. Nothing of it is taken.
        """
        apart, self._apart = self._apart, None
        if response.error_code:
            self._on_refusal(for_code(response.error_code), within=apart is None)
        try:
            answers = _pair(response, self.version, *(apart or (self._by_key, self.asked)))
        except KafkaProtocolError:
            self.on_failure()
            raise
        if apart is None and self.version >= SESSIONS_FROM:
            self._go_on(response, len(answers))
        return answers

    def on_failure(self) -> None:
        """The request under way may have reached the broker or not: begin anew.

        The next request names the session that was, so that the broker does not keep it.
        """
        self._apart = None
        self.epoch = _BEGIN

    def _on_refusal(self, kind: type[BrokerResponseError], *, within: bool) -> None:
        if within:
            self.on_failure()
            if kind is FetchSessionIdNotFound:
                self._forget_session()
            if kind in SESSION_ERRORS:
                raise kind(f"fetch session {self.session_id or '(gone)'}")
        raise NodeNotReadyError(f"the broker refused the fetch: {kind.message}")

    def _go_on(self, response: FetchResponse, answered: int) -> None:
        """The broker took the request: what does that make of the session?"""
        if response.session_id == NO_SESSION:
            self._forget_session()  # it has no room for one, or closed it, or throttles us
        elif self.epoch != _BEGIN:
            self.epoch = 1 if self.epoch == _LAST else self.epoch + 1
        else:
            self.session_id = response.session_id
            if answered == len(self.asked):
                self.epoch = 1
            else:
                # Java takes such an answer for a mistake. What is there may be taken, but not
                # that the broker remembers the others: the session is closed with the next fetch.
                missing = len(self.asked) - answered
                log.info("A full fetch response left out %d partitions", missing)


def _version(latest: int, *, nameless: bool) -> int:
    """The version to speak."""
    return TOPIC_IDS_FROM - 1 if latest >= TOPIC_IDS_FROM and nameless else latest


def _ask(state: PartitionState, ids: Mapping[str, UUID], *, by_id: bool) -> Asked | None:
    """What to ask about a partition; None while it has no position."""
    offset = state.fetch_offset
    if offset is None:
        return None
    topic_id = ids[state.tp.topic] if by_id else _NO_ID
    generation = state.fetch_generation
    return Asked(state, generation, topic_id, offset, state.leader_epoch, state.fetch_bytes)


def _hand_on(old: PartitionState, new: PartitionState) -> None:
    """What a broker told about a partition that was lost and came back: it is not told again."""
    if new.highwater is None:
        new.highwater = old.highwater
        new.last_stable_offset = old.last_stable_offset
        new.log_start_offset = old.log_start_offset
        new.polled_at = old.polled_at


def _pair(
    response: FetchResponse,
    version: int,
    by_key: Mapping[tuple[str | UUID, int], TopicPartition],
    asked: Mapping[TopicPartition, Asked],
) -> list[Answer]:
    """The answers with what they are about.

    Args:
        by_key: The partitions that were asked about, by what answers name.
        asked: What was asked about each.

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
                    f"a fetch was answered about {name}-{data.partition_index}, "
                    "which was not asked for"
                )
            answers.append(Answer(asked[tp], data))
    if len(answers) > 1 and len({answer.asked.state.tp for answer in answers}) < len(answers):
        raise KafkaProtocolError("a fetch was answered about one partition twice")
    return answers


class _Topics:
    """Writes partitions into a request, by topic."""

    __slots__ = ("_added", "_forgotten", "_request")

    def __init__(self, request: FetchRequest) -> None:
        self._request = request
        self._added: dict[str, FetchTopic] = {}  # a request asks for one topic of a name
        self._forgotten: dict[tuple[str, UUID], ForgottenTopic] = {}

    def add(self, asked: Asked) -> None:
        """Ask for a partition, or ask otherwise."""
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
        """Ask for a partition no more."""
        name, partition = asked.state.tp
        key = (name, asked.topic_id)
        topic = self._forgotten.get(key)
        if topic is None:
            named = name if asked.topic_id is _NO_ID else ""
            topic = ForgottenTopic(topic=named, topic_id=asked.topic_id, partitions=[])
            self._forgotten[key] = topic
            self._request.forgotten_topics_data.append(topic)
        topic.partitions.append(partition)
