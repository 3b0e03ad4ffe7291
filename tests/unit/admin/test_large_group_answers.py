"""Responses about many groups are read in slices, with the generated classes' results."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.admin.groups.offset_answers import OffsetsAnswer, read_on
from aiokafka_lite.cluster import large_metadata
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.offsets.messages import GroupAnswer, TopicIds, read_fetch
from aiokafka_lite.net import connection
from aiokafka_lite.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.testing import ApiKey, FakeCluster

NO_IDS = TopicIds({})

partitions = st.builds(
    OffsetFetchResponsePartitions,
    partition_index=st.integers(0, 4),
    committed_offset=st.sampled_from([-1, 0, 7, 2**63 - 1]),
    committed_leader_epoch=st.sampled_from([-1, 0, 5]),
    metadata=st.sampled_from(["", "", "", None, "note", "x" * 200]),
    error_code=st.sampled_from([0, 0, 0, 29, 32767]),
)
topics = st.builds(
    OffsetFetchResponseTopics,
    name=st.sampled_from(["orders", "payments", ""]),
    partitions=st.lists(partitions, max_size=4),
)
groups = st.builds(
    OffsetFetchResponseGroup,
    group_id=st.sampled_from(["a", "b", "c"]),
    topics=st.lists(topics, max_size=3),
    error_code=st.sampled_from([0, 0, 16]),
)
responses = st.builds(
    OffsetFetchResponse,
    throttle_time_ms=st.integers(0, 9),
    groups=st.lists(groups, max_size=4, unique_by=lambda each: each.group_id),
)


def wire(response: Any, version: int) -> bytes:
    out = bytearray()
    response.encode(out, version)
    return bytes(out)


def decoded(data: bytes, version: int) -> dict[str, GroupAnswer]:
    """The result, in the form of `read_fetch`."""

    async def read() -> dict[str, GroupAnswer]:
        answer = OffsetsAnswer.decode(Reader(data), version)
        found = {}
        async for each in read_on(answer):
            found[each.group_id] = GroupAnswer(
                each.error_code,
                {
                    tp: one
                    if one is None or isinstance(one, int)
                    else (one.offset, one.leader_epoch, one.metadata)  # type: ignore[misc]
                    for tp, one in each.partitions.items()
                },
            )
            everything = all(type(one) is not int and one for one in each.partitions.values())
            assert everything or not each.plain
        return found

    return asyncio.run(read())


@settings(max_examples=200, deadline=None)
@given(responses, st.sampled_from([8, 9]))
def test_offsets_are_read_like_the_generated_class(
    response: OffsetFetchResponse, version: int
) -> None:
    data = wire(response, version)
    at_once = read_fetch(OffsetFetchResponse.decode(Reader(data), version), version, (), NO_IDS)
    assert decoded(data, version) == at_once


def some_offsets() -> OffsetFetchResponse:
    rows = [OffsetFetchResponsePartitions(0, 1), OffsetFetchResponsePartitions(1, 2, 3, "note")]
    topic = OffsetFetchResponseTopics("orders", partitions=rows)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(each, [topic]) for each in "abc"])


def test_invalid_bytes_of_offsets_raise() -> None:
    data = wire(some_offsets(), 9)
    for end in range(len(data)):
        with pytest.raises(KafkaProtocolError):
            decoded(data[:end], 9)
    with pytest.raises(KafkaProtocolError):
        decoded(data + b"\0", 9)
    with pytest.raises(KafkaProtocolError, match="does not name groups"):
        decoded(data, 7)
    response = some_offsets()
    response.groups[2].topics[0].partitions[0].partition_index = -1
    with pytest.raises(KafkaProtocolError, match="negative partition: -1"):
        decoded(wire(response, 9), 9)


class Turns:
    """Counts the passes of the event loop until it is stopped."""

    def __init__(self) -> None:
        self.count = 0
        self._again: asyncio.Handle | None = None
        self._turn()

    def _turn(self) -> None:
        self.count += 1
        self._again = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        assert self._again is not None
        self._again.cancel()


async def test_event_loop_runs_while_offsets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_metadata, "SLICE", 0)
    turns = Turns()
    found = [
        each async for each in read_on(OffsetsAnswer.decode(Reader(wire(some_offsets(), 9)), 9))
    ]
    turns.stop()
    assert len(found) == 3
    assert turns.count >= 3


async def test_event_loop_runs_while_groups_are_listed(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of 10,000 groups yields every 32 groups, with slices of zero length."""
    monkeypatch.setattr(large_metadata, "SLICE", 0)
    many = [ListedGroup(f"g{number}", "consumer", "Empty", "classic") for number in range(10_000)]

    def list_many(response: Any) -> None:
        response.groups = many

    brokers.control(ApiKey.LIST_GROUPS, node=1, after_handling=True, edit=list_many)
    turns = Turns()
    listed = (await admin.list_groups()).raise_for_errors()
    turns.stop()
    assert [each.group_id for each in listed] == [each.group_id for each in many]
    assert {(each.protocol_type, each.state, each.type) for each in listed} == {
        ("consumer", "Empty", "classic")
    }
    assert turns.count >= 10_000 // 32


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_from_every_version(version: int) -> None:
    async with (
        FakeCluster(1, api_versions={ApiKey.LIST_GROUPS: (0, version)}) as cluster,
        AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        cluster.control(
            ApiKey.LIST_GROUPS,
            after_handling=True,
            edit=lambda response: response.groups.append(
                ListedGroup(
                    "g",
                    "consumer",
                    "Empty" if version >= 4 else "",
                    "classic" if version >= 5 else "",
                )
            ),
        )
        [group] = (await admin.list_groups()).raise_for_errors()
        state = "Empty" if version >= 4 else None
        assert (group.group_id, group.protocol_type, group.state) == ("g", "consumer", state)
        assert group.type == ("classic" if version >= 5 else None)


async def test_unreadable_listing_is_the_error_of_its_broker(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(frame: Any, response: Any, version: int) -> Any:
        if response.name == "ListGroups" and not spoiled:
            spoiled.append(True)
            frame = bytes(frame) + b"\0"
        return as_ever(frame, response, version)

    spoiled: list[bool] = []
    as_ever = connection.decode
    monkeypatch.setattr(connection, "decode", decode)
    listings = await admin.list_groups()
    [error] = listings.errors().values()
    assert isinstance(error, KafkaProtocolError)
    assert "1 bytes left over" in str(error)
    assert len(listings.by_broker.valid()) == 2
    assert ListGroupsResponse.name == "ListGroups"
