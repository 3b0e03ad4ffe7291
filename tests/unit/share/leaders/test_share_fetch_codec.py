"""The fast encoder of ShareFetch writes the same bytes as the generated one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.protocol.framing import decode_request, encode_request, encode_response
from aiokafka_lite.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from aiokafka_lite.share.acquisition import Run
from aiokafka_lite.share.leaders.share_fetch_codec import ShareFetchFlight
from aiokafka_lite.share.pending_acknowledgements import Part
from aiokafka_lite.share.records.offset_states import ACCEPT
from aiokafka_lite.share.share_requests import Limits, fetch_request
from aiokafka_lite.share.share_session import PartitionId, SessionFetch

TOPICS = st.uuids() | st.integers(0, 2).map(lambda number: UUID(int=number))
KEYS = st.builds(PartitionId, TOPICS, st.integers(0, 2**31 - 1) | st.integers(0, 3))
TYPES = st.one_of(
    st.lists(st.integers(0, 4), min_size=1, max_size=5).map(bytes),
    st.sampled_from([1, 126, 127, 1000]).map(lambda size: bytes([ACCEPT]) * size),
    st.sampled_from([126, 127, 1000]).map(lambda size: bytes([ACCEPT]) * (size - 1) + b"\0"),
)
RUNS = st.builds(
    lambda first, types: Run(None, None, first, first + len(types) - 1, types),  # type: ignore[arg-type]
    st.integers(0, 2**62),
    TYPES,
)
PARTS = st.builds(Part, st.lists(RUNS, max_size=3) | RUNS.map(lambda run: [run] * 127))
NAMES = st.text(max_size=5) | st.sampled_from(["g" * 126, "g" * 127, "\u00e9" * 100])
NUMBERS = st.integers(0, 2**31 - 1)
LIMITS = st.builds(
    Limits, st.floats(0, 100), NUMBERS, NUMBERS, NUMBERS, NUMBERS, record_limit=st.booleans()
)
SESSIONS = st.builds(
    SessionFetch, NUMBERS, st.frozensets(KEYS, max_size=3), st.frozensets(KEYS, max_size=1)
)


@given(
    group=NAMES,
    member=NAMES,
    session=SESSIONS,
    limits=LIMITS,
    parts=st.dictionaries(KEYS, PARTS, max_size=3),
    client=st.none() | NAMES,
    number=NUMBERS,
)
def test_both_encoders_agree(group, member, session, limits, parts, client, number) -> None:
    arguments: tuple[Any, ...] = (group, member, session, limits, parts)
    request = fetch_request(*arguments)
    for version in (1, 2):
        [frame] = ShareFetchFlight(*arguments).encode_frame(version, number, client)
        assert bytes(frame) == bytes(encode_request(request, version, number, client))


@pytest.mark.parametrize("count", [126, 127, 500])
def test_many_partitions_are_encoded(count: int) -> None:
    topic_id = UUID(int=7)
    keys = frozenset(PartitionId(topic_id, number) for number in range(count))
    limits = Limits(0.5, 1, 2**20, 500, 500, True)
    flight = ShareFetchFlight("g", "m", SessionFetch(0, keys, frozenset()), limits, {})
    [frame] = flight.encode_frame(2, 1, "c")
    _, request = decode_request(bytes(frame)[4:])
    assert isinstance(request, ShareFetchRequest)
    [topic] = request.topics
    assert {each.partition_index for each in topic.partitions} == {*range(count)}


def test_the_response_is_decoded() -> None:
    data = PartitionData(3, records=b"records", acquired_records=[AcquiredRecords(1, 2, 1)])
    response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(partitions=[data])])
    flight = ShareFetchFlight(
        "g", "m", SessionFetch(0, frozenset(), frozenset()), Limits(0, 0, 0, 0, 0, True), {}
    )
    for version in (1, 2):
        frame = bytes(encode_response(response, version, 7))[4:]
        assert flight.read_response(frame, version) == response
