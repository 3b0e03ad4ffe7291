"""A large metadata response is read in slices, with the same result, while the loop runs."""

import asyncio
from uuid import UUID

import pytest

from aiokafka_lite.cluster import large_metadata as large
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import MetadataAnswer, MetadataQuestion, read_on
from aiokafka_lite.cluster.metadata import EMPTY, LeaderHint, Metadata
from aiokafka_lite.cluster.metadata_merge import Merging, merge
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.testing import ApiKey, FakeCluster

VERSIONS = range(MetadataResponse.max_version + 1)
PARTITIONS = 40


def answer(version: int, *, epoch: int = 4) -> MetadataResponse:
    """Some topics, one with an error, and one without a name if the version allows it."""
    topics = [
        MetadataResponseTopic(
            name=f"t{number}",
            topic_id=UUID(int=number + 1 if version >= 10 else 0),
            is_internal=version >= 1 and number == 1,
            error_code=29 if number == 2 else 0,
            partitions=[
                MetadataResponsePartition(
                    error_code=5 if index == 3 else 0,
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=epoch if version >= 7 else -1,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[index % 3],
                    offline_replicas=[2] if version >= 5 else [],
                )
                for index in range(0 if number == 2 else PARTITIONS)
            ],
        )
        for number in range(4)
    ]
    if version >= 12:
        topics.append(MetadataResponseTopic(name=None, topic_id=UUID(int=99), error_code=100))
    return MetadataResponse(
        throttle_time_ms=7 if version >= 3 else 0,
        brokers=[MetadataResponseBroker(node, "h", 9092, None) for node in range(3)],
        cluster_id="c" if version >= 2 else None,
        controller_id=1 if version >= 1 else -1,
        topics=topics,
        error_code=5 if version >= 13 else 0,
    )


def wire(response: MetadataResponse, version: int) -> bytes:
    out = bytearray()
    response.encode(out, version)
    return bytes(out)


def merging(old: Metadata, version: int, asked: frozenset[str] | None = None) -> Merging:
    return Merging(old, api_version=version, asked=asked, keep=lambda name: name == "kept")


async def in_slices(
    data: bytes, version: int, old: Metadata = EMPTY, asked: frozenset[str] | None = None
) -> tuple[MetadataAnswer, Metadata]:
    response = MetadataAnswer.decode(Reader(data), version)
    assert (response.unread is not None) == (version >= 9)
    into = merging(old, version, asked)
    await read_on(response, into)
    return response, into.finish(response, version=1)


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is as short as possible."""
    monkeypatch.setattr(large, "LARGE", 0)
    monkeypatch.setattr(large, "SLICE", 0)
    monkeypatch.setattr(large, "LOOK_EVERY", 10)


@pytest.mark.parametrize("asked", [None, frozenset({"t0", "t2", "other"})], ids=["all", "some"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_large_response_decodes_like_the_generated_class(
    version: int, asked: frozenset[str] | None
) -> None:
    data = wire(answer(version), version)
    at_once = MetadataResponse.decode(Reader(data), version)
    response, after = await in_slices(data, version, asked=asked)

    def expected(response: MetadataResponse, old: Metadata) -> Metadata:
        return merge(
            old,
            response,
            version=1,
            api_version=version,
            asked=asked,
            keep=lambda name: name == "kept",
        )

    assert after == expected(at_once, EMPTY)
    for field in ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "error_code"):
        assert getattr(response, field) == getattr(at_once, field)
    # An older epoch never wins, in slices too.
    older = wire(answer(version, epoch=3), version)
    _, later = await in_slices(older, version, after, asked)
    assert later == expected(MetadataResponse.decode(Reader(older), version), after)
    if version >= 9:
        assert later.topics["t0"] == after.topics["t0"]


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
async def test_invalid_bytes_raise(version: int) -> None:
    data = wire(answer(version), version)
    for end in (*range(0, len(data), 37), len(data) - 1):
        with pytest.raises(KafkaProtocolError):
            await in_slices(data[:end], version)
    with pytest.raises(KafkaProtocolError):
        await in_slices(data + b"\0", version)


async def test_large_response_throttles_the_connection_before_it_is_read() -> None:
    async with FakeCluster(1, {"t": 10}) as brokers:
        brokers.control(
            ApiKey.METADATA,
            after_handling=True,
            edit=lambda response: setattr(response, "throttle_time_ms", 30_000),
        )
        host, _, port = brokers.bootstrap_servers.rpartition(":")
        connection = await open_connection(host, int(port), ConnectionOptions())
        question = MetadataQuestion(MetadataRequest(topics=None))
        response = await connection.request(question, MetadataRequest.max_version)
        assert response.unread is not None
        assert not connection.listens
        connection.close()


async def test_event_loop_runs_while_a_large_response_is_read() -> None:
    turns = 0
    ended = False

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not ended:
            asyncio.get_running_loop().call_soon(turn)

    turn()
    await in_slices(wire(answer(13), 13), 13)
    ended = True
    assert turns >= 3 * PARTITIONS // 10


async def test_newer_leader_hint_during_the_reading_is_kept() -> None:
    data = wire(answer(13), 13)
    _, old = await in_slices(data, 13)
    into = merging(old, 13)
    response = MetadataAnswer.decode(Reader(data), 13)
    await read_on(response, into)
    current = old.with_leaders([LeaderHint("t0", 7, 2, 5)])
    assert current is not old
    after = into.finish(response, version=2, current=current)
    assert after.topics["t0"].partitions[7].leader_epoch == 5
    assert after.leader("t0", 7) is not None
    assert after.topics["t0"].partitions[8] == old.topics["t0"].partitions[8]
    assert after.topics["t1"] == old.topics["t1"]


async def test_recreated_topic_keeps_no_leader_of_the_old_one() -> None:
    _, old = await in_slices(wire(answer(13), 13), 13)
    again = answer(13, epoch=0)
    again.topics[0].topic_id = UUID(int=77)
    response = MetadataAnswer.decode(Reader(wire(again, 13)), 13)
    into = merging(old, 13)
    await read_on(response, into)
    after = into.finish(response, version=2, current=old.with_leaders([LeaderHint("t0", 7, 2, 5)]))
    assert after.topics["t0"].topic_id == UUID(int=77)
    assert after.topics["t0"].partitions[7].leader_epoch == 0


async def test_a_cluster_with_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 32 * 1024)
    monkeypatch.setattr(large, "SLICE", 0.002)
    async with FakeCluster(topics={"few": 3, "many": 2000, "more": 1500}) as kafka:
        cluster = Cluster(kafka.bootstrap_servers, ConnectionOptions())
        await cluster.start()
        try:
            cluster.set_topics(None)
            deadline = asyncio.get_running_loop().time() + 20
            await cluster.refresh(deadline)
            counts = {name: len(t.partitions) for name, t in cluster.metadata.topics.items()}
            assert counts == {"few": 3, "many": 2000, "more": 1500}
            cluster.request_update()
            closing = asyncio.create_task(cluster.refresh(deadline))
            await asyncio.sleep(0)
        finally:
            await cluster.close(asyncio.get_running_loop().time() + 5)
        with pytest.raises(Exception, match="closed"):
            await closing
