"""What a fetch session requests, and which partitions its responses cover."""

from uuid import UUID

import pytest

from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.fetching.fetch_session import FetchSession
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaError,
    KafkaProtocolError,
    NodeNotReadyError,
)
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from aiokafka_lite.structs import TopicPartition
from tests.unit.consumer.makers import SESSION_OPTIONS

IDS = {"a": UUID(int=1), "b": UUID(int=2)}


def states(*partitions: tuple[str, int]) -> list[PartitionState]:
    positions = Positions(OffsetReset.EARLIEST, 100)
    positions.assign(TopicPartition(*each) for each in partitions)
    for offset, state in enumerate(positions):
        state.seek(offset)
        state.leader_epoch = 3
    return list(positions)


def answer(
    *data: PartitionData, topic: str | UUID = "a", session_id: int = 0, error: int = 0
) -> FetchResponse:
    """A response about partitions of one topic."""
    name, topic_id = (topic, UUID(int=0)) if isinstance(topic, str) else ("", topic)
    topics = [FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=list(data))]
    return FetchResponse(0, error, session_id, topics if data else [])


class Asking:
    """A session, and the partitions to fetch in it.

    Args:
        latest: The newest version in use.
        wanted: The partitions to fetch from the start.
    """

    def __init__(self, latest: int, *wanted: PartitionState) -> None:
        self.it = FetchSession(SESSION_OPTIONS)
        self.latest = latest
        self.ids = dict(IDS)
        self.wanted = dict.fromkeys(wanted)
        self.touch(*wanted)

    def touch(self, *changed: PartitionState) -> None:
        for state in changed:
            self.it.on_change(state)

    def want(self, state: PartitionState) -> None:
        self.wanted[state] = None
        self.touch(state)

    def leave(self, state: PartitionState) -> None:
        del self.wanted[state]
        self.touch(state)

    def ask(self) -> FetchRequest:
        request = self.it.next_request(
            self.wanted, self.ids, self.latest, max_wait=0.25, max_bytes=555
        )
        request.encode(bytearray(), self.it.version)
        return request

    def begin(self, session_id: int = 9) -> None:
        """Request everything, and receive a session."""
        self.ask()
        response = FetchResponse(session_id=session_id)
        for asked in self.it.asked.values():
            name = asked.state.tp.topic if self.it.version < 13 else ""
            data = [PartitionData(partition_index=asked.state.tp.partition)]
            response.responses.append(FetchableTopicResponse(name, asked.topic_id, data))
        self.it.take_answers(response)
        assert (self.it.session_id, self.it.epoch) == (session_id, 1)


def added(request: FetchRequest) -> list[tuple[str | UUID, int, int]]:
    """The contents of a request: topic, partition, offset."""
    return [
        (topic.topic or topic.topic_id, p.partition, p.fetch_offset)
        for topic in request.topics
        for p in topic.partitions
    ]


def forgotten(request: FetchRequest) -> list[tuple[str | UUID, int]]:
    """The partitions that a request forgets."""
    return [
        (topic.topic or topic.topic_id, p)
        for topic in request.forgotten_topics_data
        for p in topic.partitions
    ]


@pytest.mark.parametrize("version", range(FetchRequest.max_version + 1))
def test_every_version_encodes_the_same_session(version: int) -> None:
    wanted = states(("b", 1), ("a", 0), ("b", 0))
    asking = Asking(version, *wanted)
    request = asking.ask()
    assert asking.it.version == version
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (250, 7, 555)
    assert (request.session_id, request.session_epoch) == (0, 0 if version >= 7 else -1)
    assert (request.isolation_level, request.rack_id) == (1, "r1")
    by_id = version >= 13
    names = [topic.topic_id if by_id else topic.topic for topic in request.topics]
    assert names == ([IDS["b"], IDS["a"]] if by_id else ["b", "a"])
    assert [
        (p.partition, p.fetch_offset, p.partition_max_bytes, p.current_leader_epoch)
        for topic in request.topics
        for p in topic.partitions
    ] == [(1, 0, 100, 3), (0, 2, 100, 3), (0, 1, 100, 3)]
    response = answer(
        PartitionData(partition_index=0),
        PartitionData(partition_index=1),
        topic=IDS["b"] if by_id else "b",
    )
    answers = asking.it.take_answers(response)
    assert [each.asked.state for each in answers] == [wanted[2], wanted[0]]
    assert [each.asked.offset for each in answers] == [2, 0]


def test_a_partition_without_position_is_left_out() -> None:
    wanted = states(("a", 0), ("a", 1))
    wanted[0].ask_reset(OffsetReset.LATEST)
    assert added(Asking(12, *wanted).ask()) == [("a", 1, 1)]


@pytest.mark.parametrize("latest", [12, 17])
def test_a_partial_fetch_names_only_changed_partitions(latest: int) -> None:
    one, two, three = states(("a", 0), ("a", 1), ("b", 0))
    topic = "a" if latest < 13 else IDS["a"]
    asking = Asking(latest, one, two)
    asking.begin()
    first = asking.ask()
    assert (first.session_id, first.session_epoch, added(first)) == (9, 1, [])
    moved = PartitionData(partition_index=1, records=b"x")
    (told,) = asking.it.take_answers(answer(moved, topic=topic, session_id=9))
    assert (told.asked.state, told.asked.offset) == (two, 1)
    two.seek(50)
    asking.touch(two)
    second = asking.ask()
    assert (second.session_epoch, added(second)) == (2, [(topic, 1, 50)])
    assert forgotten(second) == []
    asking.it.take_answers(answer(session_id=9))
    asking.leave(one)
    asking.want(three)
    third = asking.ask()
    assert forgotten(third) == [(topic, 0)]
    assert added(third) == [("b" if latest < 13 else IDS["b"], 0, 2)]
    asking.it.take_answers(answer(session_id=9))
    last = asking.ask()
    assert not added(last)
    assert not forgotten(last)


def test_a_change_that_was_undone_is_not_sent_but_updates_the_generation() -> None:
    (one,) = states(("a", 0))
    asking = Asking(17, one)
    asking.begin()
    asking.leave(one)
    one.seek(0)
    asking.want(one)
    request = asking.ask()
    assert not added(request)
    assert not forgotten(request)
    assert asking.it.asked[one.tp].generation == one.generation


def test_a_leader_epoch_and_a_larger_share_are_changes() -> None:
    one, two = states(("a", 0), ("a", 1))
    asking = Asking(17, one, two)
    asking.begin()
    one.leader_epoch += 1
    assert two.source.grow(1000)
    asking.touch(one, two)
    (topic,) = asking.ask().topics
    assert [(p.current_leader_epoch, p.partition_max_bytes) for p in topic.partitions] == [
        (4, 100),
        (3, 200),
    ]


def test_a_topic_that_was_made_again_is_replaced() -> None:
    one, two = states(("a", 0), ("b", 0))
    asking = Asking(17, one, two)
    asking.begin()
    asking.ids["a"] = UUID(int=77)
    asking.touch(one, two)
    request = asking.ask()
    assert (added(request), forgotten(request)) == ([(UUID(int=77), 0, 0)], [(IDS["a"], 0)])
    with pytest.raises(KafkaProtocolError, match="not requested"):
        asking.it.take_answers(answer(PartitionData(), topic=IDS["a"], session_id=9))


def test_topics_without_a_known_id_are_fetched_by_name_in_a_new_session() -> None:
    one, new = states(("a", 0), ("new", 0))
    asking = Asking(17, one)
    asking.begin()
    asking.want(new)
    request = asking.ask()
    assert asking.it.version == 12
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert added(request) == [("a", 0, 0), ("new", 0, 1)]
    asking.begin(10)
    asking.ids["new"] = UUID(int=3)
    asking.touch(one, new)
    request = asking.ask()
    assert asking.it.version == 17
    assert (request.session_id, request.session_epoch) == (10, 0)


def test_a_partition_no_longer_fetched_needs_no_topic_id() -> None:
    one, new = states(("a", 0), ("new", 0))
    asking = Asking(17, one, new)
    asking.ask()
    asking.leave(new)
    asking.ask()
    assert asking.it.version == 17


def test_a_partition_restored_before_it_was_forgotten_keeps_its_sent_state() -> None:
    (old,) = states(("a", 0))
    asking = Asking(17, old)
    asking.begin()
    known = old.source
    known.highwater, known.last_stable_offset, known.log_start_offset, known.polled_at = (
        8,
        7,
        2,
        1000,
    )
    asking.leave(old)
    (new,) = states(("a", 0))
    asking.want(new)
    request = asking.ask()
    assert not added(request)
    assert not forgotten(request)
    found = new.source
    assert (found.highwater, found.last_stable_offset, found.log_start_offset) == (8, 7, 2)
    assert asking.it.remembers(new)
    assert not asking.it.remembers(old)
    moved = PartitionData(partition_index=0, records=b"x")
    (told,) = asking.it.take_answers(answer(moved, topic=IDS["a"], session_id=9))
    assert told.asked.state is new


def test_the_generation_is_that_of_the_request() -> None:
    (state,) = states(("a", 0))
    asking = Asking(12, state)
    asking.ask()
    before = state.generation
    state.seek(100)
    (told,) = asking.it.take_answers(answer(PartitionData(partition_index=0)))
    assert told.asked.generation == before != state.generation


@pytest.mark.parametrize(
    "data",
    [[PartitionData(partition_index=5)], [PartitionData(partition_index=0)] * 2],
    ids=["not asked for", "twice"],
)
def test_an_answer_that_cannot_be(data: list[PartitionData]) -> None:
    asking = Asking(12, *states(("a", 0)))
    asking.begin()
    asking.ask()
    with pytest.raises(KafkaProtocolError, match="fetch response contains"):
        asking.it.take_answers(answer(*data, session_id=9))
    again = asking.ask()
    assert (again.session_id, again.session_epoch, len(added(again))) == (9, 0, 1)


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        (70, FetchSessionIdNotFound, 0),
        (71, InvalidFetchSessionEpoch, 9),
        (106, FetchSessionTopicIdError, 9),
        (-1, NodeNotReadyError, 9),
        (100, NodeNotReadyError, 9),
    ],
)
def test_a_refused_request_restarts_the_session(
    code: int, kind: type[KafkaError], named: int
) -> None:
    asking = Asking(17, *states(("a", 0), ("a", 1)))
    asking.begin()
    asking.ask()
    with pytest.raises(kind):
        asking.it.take_answers(answer(error=code))
    again = asking.ask()
    assert (again.session_id, again.session_epoch, len(added(again))) == (named, 0, 2)


def test_a_lost_response_restarts_the_session() -> None:
    asking = Asking(17, *states(("a", 0)))
    asking.begin()
    asking.ask()
    asking.it.on_failure()
    again = asking.ask()
    assert (again.session_id, again.session_epoch, len(added(again))) == (9, 0, 1)


def test_a_broker_without_room_gives_no_session() -> None:
    asking = Asking(17, *states(("a", 0)))
    for _ in range(2):
        request = asking.ask()
        assert (request.session_id, request.session_epoch, len(added(request))) == (0, 0, 1)
        asking.it.take_answers(answer(PartitionData(), topic=IDS["a"]))


def test_a_session_that_the_broker_closes_gives_its_last_answers() -> None:
    asking = Asking(17, *states(("a", 0)))
    asking.begin()
    asking.ask()
    assert len(asking.it.take_answers(answer(PartitionData(), topic=IDS["a"]))) == 1
    assert (asking.it.session_id, asking.it.epoch) == (0, 0)


def test_a_throttled_full_fetch_opens_nothing() -> None:
    asking = Asking(17, *states(("a", 0)))
    asking.ask()
    assert asking.it.take_answers(FetchResponse(throttle_time_ms=50)) == []
    assert (asking.it.session_id, asking.it.epoch) == (0, 0)


def test_a_partial_response_to_a_full_fetch_is_used_and_the_fetch_repeated() -> None:
    asking = Asking(17, *states(("a", 0), ("a", 1)))
    asking.ask()
    told = asking.it.take_answers(answer(PartitionData(), topic=IDS["a"], session_id=9))
    assert len(told) == 1
    again = asking.ask()
    assert (again.session_id, again.session_epoch, len(added(again))) == (9, 0, 2)


def test_the_session_epoch_wraps_around() -> None:
    asking = Asking(17, *states(("a", 0)))
    asking.begin()
    asking.it.epoch = 2**31 - 1
    assert asking.ask().session_epoch == 2**31 - 1
    asking.it.take_answers(answer(session_id=9))
    assert asking.it.epoch == 1


def test_asking_apart_leaves_the_session_alone() -> None:
    one, two = states(("a", 0), ("a", 1))
    asking = Asking(17, one, two)
    asking.begin()
    request = asking.it.next_request_apart([two], IDS, 17, max_wait=0, max_bytes=1)
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert added(request) == [(IDS["a"], 1, 1)]
    with pytest.raises(KafkaProtocolError, match="not requested"):
        asking.it.take_answers(answer(PartitionData(partition_index=0), topic=IDS["a"]))
    asking.it.epoch = 1  # such an answer ends the session; continue as if it had not arrived
    asking.it.next_request_apart([two], IDS, 17, max_wait=0, max_bytes=1)
    (told,) = asking.it.take_answers(answer(PartitionData(partition_index=1), topic=IDS["a"]))
    assert told.asked.state is two
    following = asking.ask()
    assert (following.session_id, following.session_epoch, added(following)) == (9, 1, [])


def test_the_last_request_ends_the_session() -> None:
    asking = Asking(17, *states(("a", 0)))
    assert asking.it.last_request() is None
    asking.begin()
    request = asking.it.last_request()
    assert request is not None
    assert (request.session_id, request.session_epoch, request.topics) == (9, -1, [])
    assert asking.it.last_request() is None


def test_a_connection_to_an_older_broker_ends_the_session() -> None:
    asking = Asking(17, *states(("a", 0)))
    asking.begin()
    asking.latest = 6
    request = asking.ask()
    assert (request.session_id, request.session_epoch, len(added(request))) == (0, -1, 1)
    asking.it.take_answers(answer(PartitionData()))
    asking.latest = 11
    request = asking.ask()
    assert (request.session_id, request.session_epoch, len(added(request))) == (0, 0, 1)
