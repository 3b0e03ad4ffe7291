"""The fast fetch encoder writes the same bytes as the generated one."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.consumer.fetching import request_codec as fetch_writing
from aiokafka_lite.consumer.fetching.request_codec import NEWEST, write_fetch_request
from aiokafka_lite.protocol.framing import encode_request
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

INT8, INT32, INT64 = (st.integers(-(2**n), 2**n - 1) for n in (7, 31, 63))
partitions = st.builds(
    FetchPartition,
    partition=INT32,
    current_leader_epoch=INT32,
    fetch_offset=INT64,
    partition_max_bytes=INT32,
)
topics = st.builds(
    FetchTopic,
    topic_id=st.uuids(allow_nil=True),
    partitions=st.lists(partitions, max_size=3)
    | st.sampled_from([126, 127]).map(lambda count: [FetchPartition()] * count),
)
requests = st.builds(
    FetchRequest,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=INT8,
    session_id=INT32,
    session_epoch=INT32,
    topics=st.lists(topics, max_size=3)
    | st.sampled_from([126, 127]).map(lambda count: [FetchTopic()] * count),
    forgotten_topics_data=st.just([])
    | st.just([ForgottenTopic(topic_id=UUID(int=1), partitions=[1])]),
    rack_id=st.text(max_size=3) | st.sampled_from([63, 64]).map(lambda count: "é" * count),
)


@given(requests, st.integers(13, NEWEST), INT32, st.none() | st.text(max_size=5))
def test_it_agrees(
    request: FetchRequest, version: int, correlation_id: int, client_id: str | None
) -> None:
    written = write_fetch_request(request, version, correlation_id, client_id)
    assert written == encode_request(request, version, correlation_id, client_id)


def test_the_usual_is_not_left_to_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = FetchTopic(topic_id=UUID(int=5), partitions=[FetchPartition(1)])
    usual = [FetchRequest(), FetchRequest(topics=[topic, topic], rack_id="here")]
    wanted = [encode_request(each, NEWEST, 7, "me") for each in usual]
    monkeypatch.setattr(fetch_writing, "encode_request", None)
    assert [write_fetch_request(each, NEWEST, 7, "me") for each in usual] == wanted
