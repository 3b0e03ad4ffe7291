"""The fast encoder and decoder of commits agree with the generated ones for any input."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.group.offsets import commit_codec as commit_messages
from aiokafka_lite.group.offsets.commit_codec import NEWEST, OLDEST, CommitAnswer, CommitQuestion
from aiokafka_lite.group.offsets.messages import TopicIds, answered, commit_request
from aiokafka_lite.protocol.framing import decode_response, encode_request, encode_response
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

TOPICS = ["orders", "naïve", "t" * 200]
IDS = TopicIds({name: UUID(int=number + 1) for number, name in enumerate(TOPICS)})

VERSIONS = st.integers(1, OffsetCommitRequest.max_version)
BY_HAND = st.integers(OLDEST, NEWEST)
INT32 = st.integers(0, 2**31 - 1)

partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), INT32)
offsets = st.builds(
    OffsetAndMetadata,
    st.integers(0, 2**63 - 1),
    st.just("") | st.text(max_size=200),
    st.none() | INT32,
)
identities = st.none() | st.builds(
    CommitIdentity, st.text(max_size=40), INT32, st.none() | st.text(min_size=1, max_size=5)
)


def answer(version: int, *told: tuple[str, dict[int, int]]) -> OffsetCommitResponse:
    """A response: by topic, the error codes by partition."""
    return OffsetCommitResponse(
        throttle_time_ms=7,
        topics=[
            OffsetCommitResponseTopic(
                name=name if version < 10 else "",
                topic_id=IDS.by_name[name] if version >= 10 else UUID(int=0),
                partitions=[OffsetCommitResponsePartition(*each) for each in codes.items()],
            )
            for name, codes in told
        ],
    )


def read(response: OffsetCommitResponse, version: int) -> CommitAnswer:
    frame = encode_response(response, version, 5)[4:]
    return decode_response(frame, CommitAnswer, version)[1]


@given(
    st.dictionaries(partitions, offsets, max_size=8)
    | st.just({TopicPartition("orders", n): OffsetAndMetadata(n, "") for n in range(300)}),
    identities,
    VERSIONS,
)
def test_the_writer_agrees(
    committed: dict[TopicPartition, OffsetAndMetadata],
    identity: CommitIdentity | None,
    version: int,
) -> None:
    if version < 7 and identity is not None:
        identity = identity._replace(instance_id=None)
    usual = commit_request("readers", committed, identity, IDS, version)
    question = CommitQuestion("readers", committed, identity, IDS)
    assert encode_request(question, version, 5, "me") == encode_request(usual, version, 5, "me")


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_the_usual_is_not_left_to_the_encoder(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(commit_messages, "commit_request")
    committed = {TopicPartition("orders", 3): OffsetAndMetadata(8, "why", 2)}
    assert encode_request(CommitQuestion("readers", committed, None, IDS), version, 5, "me")


@given(
    st.dictionaries(
        st.sampled_from(TOPICS),
        st.dictionaries(INT32, st.just(0) | st.sampled_from([0, 0, 3, 25]), max_size=4),
    ),
    VERSIONS,
)
def test_the_reader_agrees(told: dict[str, dict[int, int]], version: int) -> None:
    response = answer(version, *told.items())
    short = read(response, version)
    assert short.throttle_time_ms == (7 if version >= 3 else 0)
    assert sorted(short.codes(IDS)) == sorted(answered(response.topics, IDS))


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_the_usual_answer_is_kept_in_short(version: int) -> None:
    told = answer(version, ("orders", {2: 0, 0: 0}), ("naïve", dict.fromkeys(range(300), 0)))
    short = read(told, version)
    assert short.topics == []
    assert short.all_stored(IDS) == {
        ("orders", 0),
        ("orders", 2),
        *(("naïve", number) for number in range(300)),
    }


def test_an_answer_about_another_topic_is_about_nothing() -> None:
    short = read(answer(10, ("orders", {0: 0})), 10)
    assert short.all_stored(TopicIds({})) == set()
    assert list(short.codes(TopicIds({}))) == []


@pytest.mark.parametrize("where", ["partition", "topic", "response"])
@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_unknown_tagged_fields_are_left_to_the_generated_decoder(where: str, version: int) -> None:
    told = answer(version, ("orders", {0: 0, 1: 0, 2: 0}), ("naïve", {4: 0}))
    owner = {
        "partition": told.topics[0].partitions[1],
        "topic": told.topics[0],
        "response": told,
    }[where]
    owner.unknown_tagged_fields = {9: b"new"}
    short = read(told, version)
    assert short.stored is None
    assert short.topics == told.topics
    assert short.unknown_tagged_fields == told.unknown_tagged_fields


def test_a_response_with_a_repeated_topic_is_left_to_the_decoder() -> None:
    short = read(answer(9, ("orders", {0: 0}), ("orders", {1: 0})), 9)
    assert short.stored is None
    assert dict(short.codes(IDS)) == {TopicPartition("orders", n): 0 for n in (0, 1)}


@given(st.data(), BY_HAND)
def test_a_damaged_answer_is_read_as_the_decoder_does(data: st.DataObject, version: int) -> None:
    whole = bytearray(
        encode_response(answer(version, ("orders", {0: 0, 1: 0}), ("naïve", {2: 0})), version, 5)[
            4:
        ]
    )
    place = data.draw(st.integers(4, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    frame = bytes(whole[: data.draw(st.sampled_from([len(whole), place]))])
    try:
        told = decode_response(frame, OffsetCommitResponse, version)[1]
    except KafkaProtocolError:
        with pytest.raises(KafkaProtocolError):
            decode_response(frame, CommitAnswer, version)
    else:
        short = decode_response(frame, CommitAnswer, version)[1]
        assert dict(short.codes(IDS)) == dict(answered(told.topics, IDS))
