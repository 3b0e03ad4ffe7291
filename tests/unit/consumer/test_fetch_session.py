"""What is asked of a broker, and whom its answer is about."""

from uuid import UUID

import pytest

from aiokafka_lite.consumer.fetch_session import FetchSession
from aiokafka_lite.consumer.options import ConsumerOptions, IsolationLevel, OffsetReset
from aiokafka_lite.consumer.positions import PartitionState, Positions
from aiokafka_lite.errors import KafkaProtocolError, NodeNotReadyError
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from aiokafka_lite.structs import TopicPartition

IDS = {"a": UUID(int=1), "b": UUID(int=2)}


def session() -> FetchSession:
    return FetchSession(
        ConsumerOptions(
            key_deserializer=None,
            value_deserializer=None,
            fetch_max_wait=0.5,
            fetch_max_bytes=1000,
            fetch_min_bytes=7,
            max_partition_fetch_bytes=100,
            request_timeout=40.0,
            retry_backoff=0.1,
            auto_offset_reset=OffsetReset.LATEST,
            check_crcs=True,
            quiet_partition_wait=0.2,
            max_poll_records=None,
            exclude_internal_topics=True,
            isolation_level=IsolationLevel.READ_COMMITTED,
            client_rack="r1",
            buffer_memory=1000,
        )
    )


def states(*partitions: tuple[str, int]) -> list[PartitionState]:
    positions = Positions(OffsetReset.EARLIEST, 100)
    positions.assign(TopicPartition(*each) for each in partitions)
    for offset, state in enumerate(positions):
        state.seek(offset)
        state.leader_epoch = 3
    return list(positions)


@pytest.mark.parametrize("version", range(FetchRequest.max_version + 1))
def test_every_version_says_the_same(version: int) -> None:
    wanted = states(("b", 1), ("a", 0), ("b", 0))
    it = session()
    request = it.next_request(wanted, IDS, version, max_wait=0.25, max_bytes=555)
    request.encode(bytearray(), version)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (250, 7, 555)
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert (request.isolation_level, request.rack_id) == (1, "r1")
    by_id = version >= 13
    names = [topic.topic_id if by_id else topic.topic for topic in request.topics]
    assert names == ([IDS["b"], IDS["a"]] if by_id else ["b", "a"])
    assert [
        (p.partition, p.fetch_offset, p.partition_max_bytes, p.current_leader_epoch)
        for topic in request.topics
        for p in topic.partitions
    ] == [(1, 0, 100, 3), (0, 2, 100, 3), (0, 1, 100, 3)]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="" if by_id else "b",
                topic_id=IDS["b"] if by_id else UUID(int=0),
                partitions=[PartitionData(partition_index=0), PartitionData(partition_index=1)],
            )
        ]
    )
    answers = list(it.take_answers(response, version))
    assert [answer.asked.state for answer in answers] == [wanted[2], wanted[0]]
    assert [answer.asked.offset for answer in answers] == [2, 0]


def test_a_partition_without_position_is_left_out() -> None:
    wanted = states(("a", 0), ("a", 1))
    wanted[0].ask_reset(OffsetReset.LATEST)
    request = session().next_request(wanted, IDS, 12, max_wait=0, max_bytes=1)
    assert [p.partition for p in request.topics[0].partitions] == [1]


def test_topics_without_a_known_id_are_asked_for_by_name() -> None:
    it = session()
    assert it.version(17, states(("a", 0)), IDS) == 17
    assert it.version(17, states(("a", 0), ("new", 0)), IDS) == 12
    assert it.version(11, states(("new", 0)), IDS) == 11


def test_the_generation_is_that_of_the_request() -> None:
    (state,) = states(("a", 0))
    it = session()
    it.next_request([state], IDS, 12, max_wait=0, max_bytes=1)
    asked = state.generation
    state.seek(100)
    topic = FetchableTopicResponse(topic="a", partitions=[PartitionData(partition_index=0)])
    (answer,) = it.take_answers(FetchResponse(responses=[topic]), 12)
    assert answer.asked.generation == asked != state.generation


def test_an_answer_that_was_not_asked_for() -> None:
    it = session()
    it.next_request(states(("a", 0)), IDS, 12, max_wait=0, max_bytes=1)
    topic = FetchableTopicResponse(topic="a", partitions=[PartitionData(partition_index=5)])
    with pytest.raises(KafkaProtocolError, match="a-5, which was not asked for"):
        list(it.take_answers(FetchResponse(responses=[topic]), 12))


def test_a_refused_request() -> None:
    with pytest.raises(NodeNotReadyError, match="FETCH_SESSION_ID_NOT_FOUND"):
        list(session().take_answers(FetchResponse(error_code=70), 12))
