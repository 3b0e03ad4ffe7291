"""The fast decoder of fetch responses returns the same as the generated one."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.consumer.fetching import response_codec as fetch_reading
from aiokafka_lite.consumer.fetching.response_codec import NEWEST, OLDEST, read_fetch_response
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.framing import decode_response, encode_response
from aiokafka_lite.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

INT16, INT32, INT64 = (st.integers(-(2**n), 2**n - 1) for n in (15, 31, 63))
SIZES = st.sampled_from([0, 1, 126, 127, 128, 16383, 16384, 70_000])
partitions = st.builds(
    PartitionData,
    INT32,
    INT16,
    INT64,
    INT64,
    INT64,
    diverging_epoch=st.just(EpochEndOffset()) | st.just(EpochEndOffset(1, 2)),
    current_leader=st.just(LeaderIdAndEpoch()) | st.just(LeaderIdAndEpoch(1, 2)),
    aborted_transactions=st.none() | st.just([]) | st.just([AbortedTransaction(1, 2)]),
    preferred_read_replica=INT32,
    records=st.none() | SIZES.map(lambda size: bytes(range(7)) * (size // 7) + b"x" * (size % 7)),
)
topics = st.builds(
    FetchableTopicResponse,
    topic_id=st.uuids(allow_nil=True),
    partitions=st.lists(partitions, max_size=3)
    | st.sampled_from([126, 127, 300]).map(lambda count: [PartitionData()] * count),
)
answers = st.builds(FetchResponse, INT32, INT16, INT32, responses=st.lists(topics, max_size=3))
versions = st.integers(OLDEST, NEWEST)


def frame_of(answer: FetchResponse, version: int) -> bytes:
    return bytes(encode_response(answer, version, 7))[4:]


@given(answers, versions)
def test_it_agrees(answer: FetchResponse, version: int) -> None:
    frame = frame_of(answer, version)
    assert read_fetch_response(frame, version) == decode_response(frame, FetchResponse, version)[1]


@given(answers, versions, st.data())
def test_both_codecs_reject_the_same_responses(
    answer: FetchResponse, version: int, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(answer, version))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, len(frame) - 1)) :]
    else:
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    told: list[object] = []
    for read in (
        read_fetch_response,
        lambda frame, version: decode_response(frame, FetchResponse, version)[1],
    ):
        try:
            told.append(read(bytes(frame), version))
        except KafkaProtocolError as error:
            told.append(str(error))
    assert told[0] == told[1]


@pytest.mark.parametrize("version", range(19))
def test_every_version_is_read(version: int) -> None:
    topic = FetchableTopicResponse(partitions=[PartitionData(1, 0, 9, records=b"abc")])
    if version < OLDEST:
        topic.topic = "orders"
    else:
        topic.topic_id = UUID(int=5)
    answer = FetchResponse(responses=[topic])
    if version >= 16:
        answer.node_endpoints = [NodeEndpoint(1, "host", 9092)]
    (read,) = read_fetch_response(frame_of(answer, version), version).responses
    assert bytes(read.partitions[0].records or b"") == b"abc"


def test_the_usual_is_not_left_to_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_reading, "decode_response", None)
    topic = FetchableTopicResponse(topic_id=UUID(int=5), partitions=[PartitionData(records=b"a")])
    many = FetchableTopicResponse(topic_id=UUID(int=6), partitions=[PartitionData()] * 2000)
    for answer in (
        FetchResponse(),
        FetchResponse(responses=[topic, topic]),
        FetchResponse(responses=[many]),
    ):
        assert read_fetch_response(frame_of(answer, NEWEST), NEWEST) == answer


def test_a_length_of_too_many_bytes() -> None:
    topic = FetchableTopicResponse(topic_id=UUID(int=5), partitions=[PartitionData(records=b"")])
    frame = frame_of(FetchResponse(responses=[topic]), NEWEST)
    assert frame[-4:] == b"\x01\0\0\0"
    with pytest.raises(KafkaProtocolError):
        read_fetch_response(frame[:-4] + b"\xff" * 9 + b"\0\0\0", NEWEST)
