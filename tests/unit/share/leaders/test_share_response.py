"""The fast decoder of ShareFetch responses returns the same as the generated one, in both
builds."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite import _build
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.framing import decode_response, encode_response
from aiokafka_lite.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

BUILDS = ["native", "python"] if _build.NATIVE else ["python"]
INT16, INT32, INT64 = (st.integers(-(2**n), 2**n - 1) for n in (15, 31, 63))
SIZES = st.sampled_from([0, 1, 126, 127, 128, 16383, 16384, 70_000])
acquired = st.builds(AcquiredRecords, INT64, INT64, INT16)
usual = st.builds(
    PartitionData,
    INT32,
    current_leader=st.builds(LeaderIdAndEpoch) | st.just(LeaderIdAndEpoch(-1, -1)),
    records=SIZES.map(lambda size: bytes(range(7)) * (size // 7) + b"x" * (size % 7)),
    acquired_records=st.lists(acquired, max_size=3)
    | st.sampled_from([126, 127, 300]).map(lambda count: [AcquiredRecords(1, 2, 3)] * count),
)
unusual = st.builds(
    PartitionData,
    INT32,
    st.sampled_from([0, 6]),
    st.none() | st.just("why"),
    st.sampled_from([0, 121]),
    st.none() | st.just("why"),
    st.builds(LeaderIdAndEpoch, st.integers(-1, 1), st.integers(-1, 1)),
)
topics = st.builds(
    ShareFetchableTopicResponse, st.uuids(allow_nil=True), st.lists(usual | unusual, max_size=3)
)
answers = st.builds(
    ShareFetchResponse,
    INT32,
    st.sampled_from([0, 0, 0, 122]),
    st.none() | st.just("why"),
    INT32,
    st.lists(topics, max_size=3),
    st.just([]) | st.just([NodeEndpoint(1, "host", 2)]),
)
usual_answers = st.builds(
    ShareFetchResponse,
    INT32,
    acquisition_lock_timeout_ms=INT32,
    responses=st.lists(
        st.builds(
            ShareFetchableTopicResponse,
            st.uuids(allow_nil=True),
            st.lists(usual, max_size=3) | usual.map(lambda each: [each] * 127),
        ),
        max_size=3,
    ),
)


READERS = [
    import_module(f"aiokafka_lite.share.leaders._share_response_{build}").read_usual
    for build in BUILDS
]
in_both_builds = pytest.mark.parametrize("read_usual", READERS, ids=BUILDS)


def frame_of(answer: ShareFetchResponse) -> bytes:
    return bytes(encode_response(answer, 2, 7))[4:]


@in_both_builds
@given(answer=usual_answers)
def test_a_response_without_errors_is_read(read_usual: Any, answer: ShareFetchResponse) -> None:
    assert read_usual(memoryview(frame_of(answer))) == answer


@in_both_builds
@given(answer=answers)
def test_others_are_left_to_the_generated_decoder(
    read_usual: Any, answer: ShareFetchResponse
) -> None:
    assert read_usual(frame_of(answer)) in (None, answer)


@in_both_builds
@given(answer=answers | usual_answers, data=st.data())
def test_malformed_responses_are_left_to_the_generated_decoder(
    read_usual: Any, answer: ShareFetchResponse, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(answer))
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, len(frame) - 1)) :]
    else:
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        expected = decode_response(bytes(frame), ShareFetchResponse, 2)[1]
    except KafkaProtocolError:
        expected = None
    assert read_usual(bytes(frame)) in (None, expected)
