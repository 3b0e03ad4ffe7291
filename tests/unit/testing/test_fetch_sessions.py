"""Fetch sessions: tables of Kafka's responses, eviction, and a client that must miss nothing."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.fetch_sessions import (
    EVICTION_MS,
    LAST_EPOCH,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

BY_NAME, BY_ID = 11, 13
Told = dict[int, tuple[int, int, int, int]]  # partition -> error, high watermark, start, bytes


class Client:
    """Fetches the partitions of "orders" in one session."""

    def __init__(self, broker: SocketlessBroker, version: int = BY_NAME, node: int = 0) -> None:
        self.broker = broker
        self.version = version
        self.node = node
        self.session_id = 0
        self.epoch = 0
        self.topic_id = broker.state.topics["orders"].topic_id

    def request(
        self, offsets: dict[int, int], forgotten: tuple[int, ...] = (), **fields: Any
    ) -> FetchRequest:
        by_id = self.version >= BY_ID
        name, topic_id = ("", self.topic_id) if by_id else ("orders", ZERO_UUID)
        wanted = [
            FetchPartition(index, -1, offset, partition_max_bytes=2**20)
            for index, offset in offsets.items()
        ]
        fields = {"session_id": self.session_id, "session_epoch": self.epoch, **fields}
        return FetchRequest(
            topics=[FetchTopic(name, topic_id, wanted)] if wanted else [],
            forgotten_topics_data=(
                [ForgottenTopic(name, topic_id, list(forgotten))] if forgotten else []
            ),
            **fields,
        )

    def ask(self, offsets: dict[int, int], forgotten: tuple[int, ...] = (), **fields: Any) -> Any:
        request = self.request(offsets, forgotten, **fields)
        return self.broker.ask(request, self.version, self.node)

    def fetch(self, offsets: dict[int, int], forgotten: tuple[int, ...] = ()) -> Told:
        """Fetch in the session; return the result of each partition."""
        response = self.ask(offsets, forgotten)
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch = next_epoch(self.epoch)
        return told_in(response)


def told_in(response: Any) -> Told:
    return {
        data.partition_index: (
            data.error_code,
            data.high_watermark,
            data.log_start_offset,
            len(data.records),
        )
        for topic in response.responses
        for data in topic.partitions
    }


def append(broker: SocketlessBroker, index: int = 0, size: int = 9) -> int:
    batch = make_batch((NOW_MS, None, bytes(size)))
    partition = broker.state.topics["orders"].partitions[index]
    partition.append(memoryview(batch), BatchHeader.read(batch), 1, NOW_MS)
    return len(batch)


@pytest.fixture
def client(broker: SocketlessBroker) -> Client:
    broker.state.create_topic("orders", 3)
    return Client(broker)


@pytest.mark.parametrize("version", [7, BY_NAME, 12, BY_ID, 18])
def test_only_changes_are_returned(broker: SocketlessBroker, version: int) -> None:
    broker.state.create_topic("orders", 3)
    client = Client(broker, version)
    assert client.fetch({0: 0, 1: 0, 2: 0}) == dict.fromkeys(range(3), (0, 0, 0, 0))
    assert client.session_id > 0
    assert client.fetch({}) == {}
    size = append(broker, 1)
    assert client.fetch({}) == {1: (0, 1, 0, size)}
    assert client.fetch({}) == {1: (0, 1, 0, size)}  # until the client moves on
    assert client.fetch({1: 1}) == {}
    broker.state.topics["orders"].partitions[1].delete_before(1)
    assert client.fetch({}) == {1: (0, 1, 1, 0)}
    assert client.fetch({}, forgotten=(1,)) == {}
    append(broker, 1)
    assert client.fetch({}) == {}
    assert client.fetch({1: 1}) == {1: (0, 2, 1, size)}


def test_an_error_and_its_end_are_returned(client: Client) -> None:
    broker = client.broker
    client.fetch({0: 0, 1: 0})
    partition = broker.state.topics["orders"].partitions[0]
    partition.replicas = []
    partition.lead(-1)
    refused = {0: (6, -1, -1, 0)}
    assert [client.fetch({}), client.fetch({})] == [refused, refused]
    partition.replicas = [0]
    partition.lead(0)
    assert client.fetch({}) == {0: (0, 0, 0, 0)}
    assert client.fetch({}) == {}


@pytest.mark.parametrize(
    ("session_epoch", "error"), [(1, 0), (2, 71), (3, 71), (LAST_EPOCH, 71), (-2, 71)]
)
def test_epochs(client: Client, session_epoch: int, error: int) -> None:
    client.fetch({0: 0})
    answer = client.ask({}, session_epoch=session_epoch)
    assert answer.error_code == error
    assert answer.session_id == (0 if error else client.session_id)


def test_epochs_wrap() -> None:
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, LAST_EPOCH)] == [-1, 1, 2, 1]


def test_an_unknown_session_is_an_error(client: Client) -> None:
    answer = client.ask({0: 0}, session_id=5, session_epoch=1)
    assert (answer.error_code, answer.session_id, answer.responses) == (70, 0, [])


def test_a_full_request_ends_the_session_it_names(client: Client) -> None:
    client.fetch({0: 0})
    first = client.session_id
    client.epoch = 0
    client.fetch({0: 0})
    assert client.session_id not in (0, first)
    assert client.ask({}, session_id=first, session_epoch=1).error_code == 70
    final = client.ask({0: 0}, session_epoch=-1)
    assert (final.error_code, final.session_id, len(told_in(final))) == (0, 0, 1)
    assert client.ask({}, session_epoch=1).error_code == 70
    assert len(client.broker.state.fetch_sessions[0]) == 0


def test_a_session_without_partitions_ends(client: Client) -> None:
    client.fetch({0: 0})
    answer = client.ask({}, forgotten=(0,))
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    assert client.ask({}, session_epoch=2).error_code == 70


def test_a_session_cannot_mix_topic_names_and_ids(client: Client) -> None:
    client.fetch({0: 0})
    client.version = BY_ID
    assert client.ask({}).error_code == 106
    client.version = BY_NAME
    assert client.ask({}).error_code == 0


def test_a_restarted_broker_remembers_no_session(client: Client) -> None:
    client.fetch({0: 0})
    client.broker.state.on_node_down(0)
    client.broker.state.on_node_up(0)
    assert client.ask({}).error_code == 70


def test_two_connections_in_one_session(client: Client) -> None:
    client.fetch({0: 0})
    waiting = client.broker.begin(client.request({}, max_wait_ms=500, min_bytes=1), BY_NAME)
    assert isinstance(waiting, Delayed)
    client.epoch = 2
    client.fetch({})
    answer = waiting.take_now()
    assert (answer.error_code, answer.session_id) == (71, client.session_id)


def test_topic_ids(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    client = Client(broker, BY_ID)
    client.topic_id = UUID(int=7)
    unknown = {0: (100, -1, -1, 0)}
    assert [client.fetch({0: 0}), client.fetch({})] == [unknown, unknown]

    client = Client(broker, BY_ID)
    client.fetch({0: 0})
    broker.state.delete_topic("orders")
    assert client.fetch({}) == {0: (3, -1, -1, 0)}  # the session had its name
    broker.state.create_topic("orders", 1)
    assert client.fetch({}) == {0: (103, -1, -1, 0)}
    assert told_in(client.ask({0: 0}, session_id=0, session_epoch=-1)) == unknown


def test_a_session_by_name_continues_in_a_recreated_topic(client: Client) -> None:
    client.fetch({0: 0})
    client.broker.state.delete_topic("orders")
    assert client.fetch({}) == {0: (3, -1, -1, 0)}
    client.broker.state.create_topic("orders", 1)
    size = append(client.broker)
    assert client.fetch({}) == {0: (0, 1, 0, size)}


def test_only_new_records_end_a_waiting_fetch(client: Client) -> None:
    client.fetch({0: 0, 1: 0, 9: 0})
    waiting = client.broker.begin(client.request({}, max_wait_ms=500, min_bytes=1), BY_NAME)
    assert isinstance(waiting, Delayed)
    woken = []
    waiting.watched[0].add(lambda: woken.append(1))
    size = append(client.broker, 1)
    assert woken == [1]
    ready = waiting.take_if_ready()
    assert ready is not None
    assert told_in(ready) == {9: (3, -1, -1, 0), 1: (0, 1, 0, size)}


def test_partitions_take_turns_where_an_answer_is_limited(client: Client) -> None:
    for index in range(3):
        for _ in range(3):
            size = append(client.broker, index)
    offsets = dict.fromkeys(range(3), 0)
    served = []
    changed = dict(offsets)
    for _ in range(9):
        response = client.ask(changed, max_bytes=size)
        client.session_id, client.epoch = response.session_id, next_epoch(client.epoch)
        (index,) = [
            data.partition_index
            for topic in response.responses
            for data in topic.partitions
            if data.records
        ]
        served.append(index)
        offsets[index] += 1
        changed = {index: offsets[index]}
    assert sorted(served[1:4]) == sorted(served[4:7]) == [0, 1, 2]


def test_idle_partitions_are_not_looked_at(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 500)
    client = Client(broker)
    client.fetch(dict.fromkeys(range(500), 0))
    client.fetch({})
    (session,) = broker.state.fetch_sessions[0]
    assert session.pending() == []
    append(broker, 77)
    append(broker, 77)
    assert [fetched.key for fetched in session.pending()] == [("orders", 77)]
    # Each one is watched once, except that one: it is checked anyway.
    watchers = [partition.watchers for partition in topic.partitions]
    assert [len(each) for each in watchers] == [0 if i == 77 else 1 for i in range(500)]
    client.ask({}, session_epoch=-1)
    assert sum(len(each) for each in watchers) == 0


def test_a_disconnected_waiting_client_leaves_no_watchers(client: Client) -> None:
    request = client.request({0: 0}, session_epoch=-1, max_wait_ms=500, min_bytes=1)
    waiting = client.broker.begin(request, BY_NAME)
    assert isinstance(waiting, Delayed)
    watchers = client.broker.state.topics["orders"].partitions[0].watchers
    assert len(watchers) == 1
    waiting.cancel()
    assert len(watchers) == 0


# Changes that no partition's watchers report


class Refusing:
    """Denies all reads while it is enabled."""

    def __init__(self) -> None:
        self.refuses = False

    def allows(self, *asked: object) -> bool:
        return not self.refuses


def test_permissions_are_checked_on_every_fetch(client: Client) -> None:
    client.fetch({0: 0, 1: 0})
    authorizer: Any = Refusing()
    client.broker.state.authorizer = authorizer
    assert client.fetch({}) == {}
    authorizer.refuses = True
    assert client.fetch({}) == dict.fromkeys((0, 1), (29, -1, -1, 0))
    authorizer.refuses = False
    assert client.fetch({}) == dict.fromkeys((0, 1), (0, 0, 0, 0))
    assert client.fetch({}) == {}


async def test_a_fault_strikes_partitions_that_are_not_named(connect: Any) -> None:
    async with FakeCluster(topics={"orders": 3}) as cluster:
        raw = await connect(cluster.address(0))
        wanted = [FetchPartition(index, partition_max_bytes=99) for index in range(3)]
        topics = [FetchTopic("orders", partitions=wanted)]
        opened = await raw.ask(FetchRequest(session_epoch=0, topics=topics), BY_NAME)
        session_id = opened.session_id

        async def errors(epoch: int, **fields: int) -> dict[int, int]:
            request = FetchRequest(session_id=session_id, session_epoch=epoch, **fields)
            told = told_in(await raw.ask(request, BY_NAME))
            return {index: error for index, (error, *_) in told.items()}

        assert await errors(1) == {}
        cluster.control(ApiKey.FETCH, error=6, partitions=[("orders", 1)])
        assert await errors(2, max_wait_ms=30_000, min_bytes=1) == {1: 6}
        assert await errors(3) == {1: 0}  # over, and reported as over
        assert await errors(4) == {}


# Eviction


def new_session(partitions: int = 1, *, privileged: bool = False) -> FetchSession:
    session = FetchSession(privileged=privileged, uses_topic_ids=False)
    for index in range(partitions):
        session.put(("orders", index), "orders", FetchPartition(index))
    return session


def new_cache(slots: int, *kept: FetchSession, used: int = 0) -> FetchSessionCache:
    ids = iter(range(1, 99))
    cache = FetchSessionCache(slots, lambda: next(ids))
    for session in kept:
        assert cache.maybe_add(session, 0)
        session.last_used_ms = used
    return cache


@pytest.mark.parametrize(
    ("kept", "used", "wanted", "now", "evicted"),
    [
        ([(1, False)], 0, (9, False), EVICTION_MS, None),  # young and used: stays
        ([(1, False)], 0, (9, False), EVICTION_MS + 1, 0),  # not used for long
        ([(1, True)], 0, (9, False), EVICTION_MS + 1, 0),  # even a privileged one
        (
            [(5, False), (3, False)],
            200_000,
            (3, False),
            200_000,
            None,
        ),  # as large, but the new id is 0
        ([(5, False), (3, False)], 200_000, (4, False), 200_000, 1),  # old and smaller
        ([(5, False), (3, False)], 200_000, (2, False), 200_000, None),  # more valuable
        ([(5, True)], 200_000, (9, False), 200_000, None),  # privileged is worth more
        ([(5, False)], 0, (1, True), 1, 0),  # a privileged one evicts even young ones
        ([(5, True)], 0, (9, True), 1, None),  # but none of its own kind
        ([(5, True)], 200_000, (9, True), 200_000, 0),  # unless old and smaller
    ],
)
def test_eviction(
    kept: list[tuple[int, bool]],
    used: int,
    wanted: tuple[int, bool],
    now: int,
    evicted: int | None,
) -> None:
    sessions = [new_session(size, privileged=privileged) for size, privileged in kept]
    cache = new_cache(len(sessions), *sessions, used=used)
    added = cache.maybe_add(new_session(wanted[0], privileged=wanted[1]), now)
    assert added == (evicted is not None)
    left = [session.session_id in {s.session_id for s in cache} for session in sessions]
    assert left == [index != evicted for index in range(len(sessions))]


def test_no_slot_no_session() -> None:
    broker = SocketlessBroker(broker_configs={"max.incremental.fetch.session.cache.slots": 0})
    broker.state.create_topic("orders", 1)
    assert Client(broker).fetch({0: 0}) == {0: (0, 0, 0, 0)}
    assert len(broker.state.fetch_sessions[0]) == 0


# A client that applies incremental responses has the state of a full fetch

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("truncate"), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 3)),
        st.tuples(st.just("return"), st.integers(0, 3)),
        st.tuples(st.just("want"), st.integers(0, 3)),
        st.tuples(st.just("forget"), st.integers(0, 3)),
        st.tuples(st.just("consume"), st.integers(0, 3)),
        st.tuples(st.just("remake"), st.just(0)),
        st.tuples(st.sampled_from(["fetch", "wait"]), st.just(0)),
        st.tuples(st.sampled_from(["fetch", "wait"]), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from([BY_NAME, BY_ID]))
def test_incremental_responses_add_up_to_a_full_one(
    done: list[tuple[str, int]], version: int
) -> None:
    broker = SocketlessBroker()
    broker.state.create_topic("orders", 3)  # partition 3 does not exist
    client = Client(broker, version)
    offsets = {0: 0, 3: 0}
    known = client.fetch(offsets)
    named = {0, 3}  # partitions whose topic's name the session found
    changed: dict[int, int] = {}
    forgotten: set[int] = set()

    def full() -> Told:
        told = told_in(client.ask(offsets, session_id=0, session_epoch=-1))
        if version >= BY_ID and broker.state.topics["orders"].topic_id != client.topic_id:
            for index, fields in told.items():
                # A new session no longer knows the name of the id; the old one may.
                if index not in named:
                    continue
                partitions = broker.state.topics["orders"].partitions[index : index + 1]
                error = (103 if partitions[0].replicas else 6) if partitions else 3
                told[index] = (error, *fields[1:])
        return told

    for what, index in [*done, ("fetch", 0)]:
        topic = broker.state.topics["orders"]
        partition = topic.partitions[min(index, 2)]
        if what == "append":
            append(broker, min(index, 2))
        elif what == "delete":
            partition.delete_before(partition.log.end_offset)
        elif what == "truncate":
            partition.truncate(partition.log.end_offset - 1)
        elif what == "leave":
            partition.replicas = []
            partition.lead(-1)
        elif what == "return":
            partition.replicas = [0]
            partition.lead(0)
        elif what == "want":
            offsets.setdefault(index, 0)
            changed[index] = offsets[index]
            forgotten.discard(index)
        elif what == "forget" and len(offsets) > 1 and index in offsets:
            del offsets[index]
            changed.pop(index, None)
            forgotten.add(index)
        elif what == "consume" and index in offsets:
            offsets[index] = changed[index] = partition.log.end_offset
        elif what == "remake":
            broker.state.delete_topic("orders")
            broker.state.create_topic("orders", 3)
        elif what in ("fetch", "wait"):
            wait = {"max_wait_ms": 500, "min_bytes": 1} if what == "wait" else {}
            request = client.request(changed, tuple(forgotten), **wait)
            answer = broker.begin(request, version)
            if isinstance(answer, Delayed):
                answer = answer.take_now()
            assert (answer.error_code, answer.session_id) == (0, client.session_id)
            client.epoch = next_epoch(client.epoch)
            for gone in forgotten:
                known.pop(gone, None)
                named.discard(gone)
            if topic.topic_id == client.topic_id:
                named.update(offsets)
            told = told_in(answer)
            records_left = {i: (e, h, s, 0) for i, (e, h, s, _) in known.items()}
            known = {**records_left, **told}
            assert known == full()
            changed, forgotten = {}, set()
