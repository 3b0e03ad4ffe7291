"""A fetch session against a broker's cache, with any faults in requests, responses and partitions.

After each request that the broker accepts, its session contains the partitions that the client
wants, and its records begin at the client's positions. Once all faults have ended, the client has
read every log to its end and has the end offset. Source of the broker's half: Kafka's
`FetchSession.scala`.
"""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from aiokafka_lite import errors
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.fetching.fetch_session import FetchSession
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.structs import TopicPartition
from tests.unit.consumer.makers import SESSION_OPTIONS

TOPICS = ("a", "b")
PARTITIONS = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(3)]
VERSIONS = [4, 6, 7, 12, 13, 17]
NO_ID = UUID(int=0)

partitions = st.sampled_from(PARTITIONS)

Key = tuple[str | UUID, int]


@dataclass
class Log:
    """One partition of the broker."""

    end: int = 0


@dataclass
class Cached:
    """One partition of a session at the broker."""

    wanted: FetchPartition
    told: int = -1


@dataclass
class Kept:
    """A session at the broker."""

    by_id: bool
    epoch: int = 1
    partitions: dict[Key, Cached] = field(default_factory=dict)


class Broker:
    """Logs, and a cache of fetch sessions."""

    def __init__(self) -> None:
        self.ids = {"a": UUID(int=1), "b": UUID(int=2)}
        self.logs = {tp: Log() for tp in PARTITIONS}
        self.sessions: dict[int, Kept] = {}
        self.room = True
        self.failing: set[TopicPartition] = set()
        self.seen: dict[Key, FetchPartition] | None = None
        """The session after the last request, if that opened or used one."""
        self._last_id = 100

    def handle(self, encoded: bytes, version: int) -> FetchResponse:
        """Answer a request as it arrived over the wire."""
        request = FetchRequest.decode(Reader(encoded), version)
        by_id = version >= 13
        named = {
            (topic.topic_id if by_id else topic.topic, wanted.partition): wanted
            for topic in request.topics
            for wanted in topic.partitions
        }
        if version < 7 or request.session_epoch <= 0:
            response = self._full(request, named, by_id=by_id)
        else:
            response = self._incremental(request, named, by_id=by_id)
        out = bytearray()
        response.encode(out, version)
        return FetchResponse.decode(Reader(bytes(out)), version)

    def _full(
        self, request: FetchRequest, named: dict[Key, FetchPartition], *, by_id: bool
    ) -> FetchResponse:
        self.sessions.pop(request.session_id, None)
        kept = Kept(by_id, partitions={key: Cached(wanted) for key, wanted in named.items()})
        response = self._respond(kept, everything=True)
        self.seen = dict(named)
        if request.session_epoch == 0 and self.room:
            self._last_id += 1
            response.session_id = self._last_id
            self.sessions[self._last_id] = kept
        elif request.session_epoch == -1:
            self.seen = None
        return response

    def _incremental(
        self, request: FetchRequest, named: dict[Key, FetchPartition], *, by_id: bool
    ) -> FetchResponse:
        self.seen = None
        kept = self.sessions.get(request.session_id)
        if kept is None:
            return FetchResponse(error_code=errors.FetchSessionIdNotFound.errno)
        if kept.epoch != request.session_epoch:
            return FetchResponse(error_code=errors.InvalidFetchSessionEpoch.errno)
        if kept.by_id != by_id:
            return FetchResponse(error_code=errors.FetchSessionTopicIdError.errno)
        for key, wanted in named.items():
            kept.partitions.setdefault(key, Cached(wanted)).wanted = wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                kept.partitions.pop((topic.topic_id if by_id else topic.topic, index), None)
        self.seen = {key: cached.wanted for key, cached in kept.partitions.items()}
        if not kept.partitions:
            del self.sessions[request.session_id]
            return FetchResponse()
        kept.epoch += 1
        response = self._respond(kept, everything=False)
        response.session_id = request.session_id
        return response

    def _respond(self, kept: Kept, *, everything: bool) -> FetchResponse:
        response = FetchResponse()
        for key, cached in list(kept.partitions.items()):
            data = self._read(key, cached)
            news = data.records or data.error_code or data.high_watermark != cached.told
            if not everything and not news:
                continue
            cached.told = data.high_watermark  # -1 with an error: the next response is a change
            if data.records:
                kept.partitions[key] = kept.partitions.pop(key)
            name = key[0] if isinstance(key[0], str) else ""
            topic_id = key[0] if isinstance(key[0], UUID) else NO_ID
            response.responses.append(FetchableTopicResponse(name, topic_id, [data]))
        return response

    def _read(self, key: Key, cached: Cached) -> PartitionData:
        name = next((n for n, topic_id in self.ids.items() if key[0] in (n, topic_id)), None)
        data = PartitionData(partition_index=key[1], high_watermark=-1, records=b"")
        if name is None:
            data.error_code = errors.UnknownTopicIdError.errno
        elif TopicPartition(name, key[1]) in self.failing:
            data.error_code = errors.NotLeaderForPartitionError.errno
        else:
            data.high_watermark = end = self.logs[TopicPartition(name, key[1])].end
            start = cached.wanted.fetch_offset
            if start > end:
                data.error_code = errors.OffsetOutOfRangeError.errno
                data.high_watermark = -1
            elif start < end:
                data.records = b"%d %d" % (start, min(start + 2, end))  # two at most in a fetch
        return data


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.session = FetchSession(SESSION_OPTIONS)
        self.positions = Positions(OffsetReset.EARLIEST, 100)
        self.ids = dict(self.broker.ids)  # as the client has them
        self.line: dict[PartitionState, None] = {}
        self.held: dict[PartitionState, int] = {}  # the end of the fetched data
        self.refused: set[PartitionState] = set()  # not fetched after an error
        self.version = 17
        self.request: bytes | None = None
        self.response: FetchResponse | None = None
        self.apart = False

    @initialize(some=st.sets(partitions, min_size=2), ends=st.lists(st.integers(0, 3)))
    def begin(self, some: set[TopicPartition], ends: list[int]) -> None:
        for log, end in zip(self.broker.logs.values(), ends, strict=False):
            log.end = end
        self.assign(some)
        self.fetch()

    # --- the client

    def sort(self, state: PartitionState) -> None:
        """What the fetcher does when a partition changes."""
        known = self.positions.get(state.tp) is state
        if known and state.fetchable and state not in self.held and state not in self.refused:
            self.line.setdefault(state)
        else:
            self.line.pop(state, None)
        self.session.on_change(state)

    def lose(self, state: PartitionState) -> None:
        self.held.pop(state, None)
        self.refused.discard(state)
        self.sort(state)

    @rule(some=st.sets(partitions))
    def assign(self, some: set[TopicPartition]) -> None:
        came, gone = self.positions.assign(some)
        for state in gone:
            self.lose(state)
        for state in came:
            state.seek(0)
            self.sort(state)

    @rule(tp=partitions)
    def lose_and_come_back(self, tp: TopicPartition) -> None:
        mine = self.positions.partitions()
        if tp in mine:
            self.assign(mine - {tp})
            self.assign(mine)

    @rule(tp=partitions, offset=st.integers(0, 6))
    def seek(self, tp: TopicPartition, offset: int) -> None:
        state = self.positions.get(tp)
        if state is not None:
            self.held.pop(state, None)
            self.refused.discard(state)
            state.seek(offset)
            self.sort(state)

    @rule(tp=partitions)
    def pause_or_resume(self, tp: TopicPartition) -> None:
        state = self.positions.get(tp)
        if state is not None:
            state.paused = not state.paused
            self.sort(state)

    @rule(tp=partitions)
    def leader_epoch(self, tp: TopicPartition) -> None:
        state = self.positions.get(tp)
        if state is not None:
            state.leader_epoch += 1
            self.sort(state)

    @rule()
    def read_all(self) -> None:
        """The application reads the fetched records."""
        for state, end in list(self.held.items()):
            del self.held[state]
            state._position = end  # as if a chunk had been handed out whole
            self.sort(state)

    @rule()
    def end_pauses(self) -> None:
        for state in list(self.refused):
            self.refused.discard(state)
            self.sort(state)

    @rule(topic=st.sampled_from(TOPICS))
    def lose_an_id(self, topic: str) -> None:
        self.ids.pop(topic, None)
        self.on_metadata()

    @rule()
    def learn_ids(self) -> None:
        self.ids = dict(self.broker.ids)
        self.on_metadata()

    def on_metadata(self) -> None:
        for state in self.positions:
            self.sort(state)

    @rule(version=st.sampled_from(VERSIONS))
    @precondition(lambda self: self.request is None and self.response is None)
    def connect_elsewhere(self, version: int) -> None:
        self.version = version

    # --- the broker

    @rule(tp=partitions, count=st.integers(1, 4))
    def produce(self, tp: TopicPartition, count: int) -> None:
        self.broker.logs[tp].end += count

    @rule()
    def evict(self) -> None:
        self.broker.sessions.clear()

    @rule(room=st.booleans())
    def cache_fills_or_empties(self, room: bool) -> None:
        self.broker.room = room

    @rule(tp=partitions)
    def fail_or_heal(self, tp: TopicPartition) -> None:
        self.broker.failing ^= {tp}

    @rule(topic=st.sampled_from(TOPICS))
    def make_again(self, topic: str) -> None:
        self.broker.ids[topic] = UUID(int=self.broker.ids[topic].int + 2)

    # --- requests and answers

    @rule()
    @precondition(lambda self: self.line and self.request is None and self.response is None)
    def ask(self) -> None:
        self.apart = False
        self._encode(
            self.session.next_request(self.line, self.ids, self.version, max_wait=0, max_bytes=9)
        )

    @rule()
    @precondition(lambda self: self.line and self.request is None and self.response is None)
    def fetch(self) -> None:
        """Without an event in between."""
        self.ask()
        self.handle()
        self.answer()

    @rule(reads=st.booleans())
    @precondition(lambda self: self.request is None and self.response is None)
    def fetch_twice(self, reads: bool) -> None:
        for _ in range(2):
            if reads:
                self.read_all()
            if self.line:
                self.fetch()

    @rule(data=st.data())
    @precondition(lambda self: self.line and self.request is None and self.response is None)
    def ask_apart(self, data: st.DataObject) -> None:
        self.apart = True
        some = data.draw(st.lists(st.sampled_from(list(self.line)), min_size=1, unique=True))
        self._encode(
            self.session.next_request_apart(some, self.ids, self.version, max_wait=0, max_bytes=9)
        )

    def _encode(self, request: FetchRequest) -> None:
        out = bytearray()
        request.encode(out, self.session.version)
        self.request = bytes(out)
        wanted = [state for state in self.line if not self.apart]
        by_id = self.session.version >= 13
        self.wanted = {
            (self.ids[state.tp.topic] if by_id else state.tp.topic, state.tp.partition): (
                state.fetch_offset,
                state.leader_epoch,
                state.source.fetch_bytes,
            )
            for state in wanted
        }

    @rule()
    @precondition(lambda self: self.request is not None)
    def handle(self) -> None:
        assert self.request is not None
        self.response = self.broker.handle(self.request, self.session.version)
        self.request = None
        if self.broker.seen is not None:
            v9 = self.session.version >= 9  # older requests do not say the epoch
            assert {
                key: (p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes)
                for key, p in self.broker.seen.items()
            } == {key: (o, e if v9 else -1, m) for key, (o, e, m) in self.wanted.items()}

    @rule(code=st.sampled_from([70, 71, 106, -1, 100]))
    @precondition(lambda self: self.response is not None)
    def refuse(self, code: int) -> None:
        """The broker accepted the request into its session, and yet returns an error."""
        assert self.response is not None
        if self.session.version >= 7:
            self.response = FetchResponse(error_code=code)

    @rule()
    @precondition(lambda self: self.response is not None)
    def throttle(self) -> None:
        """A quota is exceeded: the response is empty, and names no new session (KIP-219)."""
        assert self.response is not None
        if self.session.epoch == 0 and self.response.session_id:
            self.broker.sessions.pop(self.response.session_id, None)
            self.response = FetchResponse(throttle_time_ms=9)

    @rule()
    @precondition(lambda self: self.request is not None or self.response is not None)
    def lose_the_connection(self) -> None:
        self.request = self.response = None
        self.session.on_failure()

    @rule()
    @precondition(lambda self: self.response is not None)
    def answer(self) -> None:
        assert self.response is not None
        response, self.response = self.response, None
        try:
            answers = self.session.take_answers(response)
        except KafkaError:
            if not response.error_code:
                raise
            self.session.on_failure()
            return
        for asked, data in answers:
            self._take(asked.state, asked.generation, asked.offset, data)

    def _take(
        self, state: PartitionState, generation: int, offset: int, data: PartitionData
    ) -> None:
        """As `Answers` does."""
        if not data.error_code:
            state.source.highwater = data.high_watermark
        if not self.positions.is_current(state, generation):
            return
        if state in self.held or state.fetch_offset != offset:
            return
        if data.error_code == errors.OffsetOutOfRangeError.errno:
            self.seek(state.tp, 0)
        elif data.error_code:
            self.refused.add(state)
            self.sort(state)
        elif data.records:
            start, end = map(int, bytes(data.records).split())
            assert start == offset  # otherwise records are lost or duplicated
            self.held[state] = end
            self.sort(state)

    @invariant()
    def the_session_names_what_it_remembers(self) -> None:
        assert {tp: asked.state.tp for tp, asked in self.session.asked.items()} == {
            tp: tp for tp in self.session.asked
        }
        assert len(self.session._by_key) == len(self.session.asked)

    def teardown(self) -> None:
        """End all faults: then everything is read, and the ends are known."""
        if self.request is not None:
            self.handle()
        if self.response is not None:
            self.answer()
        self.broker.failing.clear()
        self.learn_ids()
        for state in self.positions:
            state.paused = False
            self.sort(state)
        longest = max(log.end for log in self.broker.logs.values())
        for _ in range(longest + 8):
            self.read_all()
            self.end_pauses()
            if self.line:
                self.ask()
                self.handle()
                self.answer()
        for state in self.positions:
            end = self.broker.logs[state.tp].end
            assert (state.fetch_offset, state.source.highwater) == (end, end)


TestSession = SessionMachine.TestCase
TestSession.settings = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
