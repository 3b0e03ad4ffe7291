"""The broker behind its socket: the order of responses, waits, kills and restarts."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.protocol.framing import encode_request
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.testing.raw import RawClient, make_batch

Connect = Callable[[str], Any]


def produce_to(partition: int, records: bytes | None = None, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records or make_batch())
    return ProduceRequest(
        acks=acks, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )


def fetch_from(partition: int, offset: int, max_wait_ms: int = 30_000) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**20)
    topic = FetchTopic(topic="orders", partitions=[wanted])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


async def test_a_waiting_fetch_keeps_its_place(cluster: FakeCluster, connect: Connect) -> None:
    client, other = await connect(cluster.address(0)), await connect(cluster.address(0))
    fetch, metadata = fetch_from(0, 0), MetadataRequest(topics=None)
    sent = [client.send(fetch, 11), client.send(metadata, 9)]
    # Another connection is not delayed; its append ends the wait.
    assert (await other.ask(produce_to(0), 9)).responses[0].partition_responses[0].base_offset == 0
    first, fetched = await client.receive(fetch, 11)
    second, _ = await client.receive(metadata, 9)
    assert [first, second] == sent
    assert len(fetched.responses[0].partitions[0].records) == len(make_batch())


async def test_many_requests_in_one_write(cluster: FakeCluster, connect: Connect) -> None:
    client = await connect(cluster.address(0))
    requests = [produce_to(0, acks=0), produce_to(0), MetadataRequest(topics=None), produce_to(1)]
    sent = [client.send(request, 9) for request in requests]
    for request, correlation_id in list(zip(requests, sent, strict=True))[1:]:
        assert (await client.receive(request, 9))[0] == correlation_id
    assert cluster.partition("orders", 0).log.end_offset == 2


async def test_bytes_after_a_request_are_passed_over(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    request = MetadataRequest([])
    frame = encode_request(request, 12, 1, "raw")
    client.writer.write((len(frame) - 4 + 3).to_bytes(4, "big") + frame[4:] + b"???")
    correlation_id, response = await client.receive(request, 12)
    assert (correlation_id, len(response.brokers)) == (1, 1)


async def test_a_wait_ends_by_its_deadline(cluster: FakeCluster, connect: Connect) -> None:
    client = await connect(cluster.address(0))
    response = await client.ask(fetch_from(0, 0, max_wait_ms=20), 11)
    assert bytes(response.responses[0].partitions[0].records) == b""


@pytest.mark.parametrize("size", [70_000, 900_000])
async def test_large_requests(cluster: FakeCluster, connect: Connect, size: int) -> None:
    client = await connect(cluster.address(0))
    batch = make_batch((1, b"key", bytes(size)))
    assert len(batch) > size
    for _ in range(3):
        response = await client.ask(produce_to(0, batch), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
    fetched = await client.ask(fetch_from(0, 2), 11)
    assert bytes(fetched.responses[0].partitions[0].records)[16:] == batch[16:]


async def test_an_unserved_request_closes_the_connection(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    metadata = MetadataRequest(topics=None)
    client.send(metadata, 9)
    client.send(ControlledShutdownRequest(), 0)
    await client.receive(metadata, 9)  # earlier requests are answered
    assert await client.is_cut()
    assert cluster.count(ApiKey.CONTROLLED_SHUTDOWN) == 1
    garbage = await connect(cluster.address(0))
    garbage.writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await garbage.is_cut()


async def test_a_failed_produce_without_acks_ends_the_connection(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    client.send(produce_to(9, acks=0), 9)
    assert await client.is_cut()


async def test_kill_and_restart(connect: Connect) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(produce_to(0), 9)
        other = await connect(cluster.address(1))
        client.send(fetch_from(0, 1), 11)
        cluster.kill(0)
        assert await client.is_cut()
        with pytest.raises(ConnectionError):
            await RawClient.connect(cluster.address(0))
        metadata = MetadataRequest(topics=None)
        told = await other.ask(metadata, 9)
        assert [broker.node_id for broker in told.brokers] == [1]
        assert [partition.leader_id for partition in told.topics[0].partitions] == [1, 1]
        fetched = await other.ask(fetch_from(0, 0), 11)
        assert len(fetched.responses[0].partitions[0].records) > 0

        await cluster.restart(0)
        again = await connect(cluster.address(0))
        told = await again.ask(metadata, 9)
        assert [broker.node_id for broker in told.brokers] == [0, 1]
        cluster.move_leader("orders", 0, 0)
        produced = await again.ask(produce_to(0), 9)
        assert produced.responses[0].partition_responses[0].base_offset == 1


async def test_moving_the_leader_answers_waiting_fetches(connect: Connect) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        client = await connect(cluster.address(0))
        fetch, arrived = fetch_from(0, 0), cluster.control(ApiKey.FETCH)
        client.send(fetch, 10)  # later ones may be served by followers
        await arrived.struck()
        cluster.move_leader("orders", 0, 1)
        _, response = await client.receive(fetch, 10)
        assert response.responses[0].partitions[0].error_code == 6
        assert cluster.partition("orders", 0).leader_epoch == 1


async def test_cut_connections_leave_the_broker_alive(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    await client.ask(MetadataRequest(topics=None), 9)
    cluster.disconnect()
    assert await client.is_cut()
    again = await connect(cluster.address(0))
    await again.ask(MetadataRequest(topics=None), 9)


async def test_pinned_versions(connect: Connect) -> None:
    request = ApiVersionsRequest()
    async with FakeCluster(version="0.11") as cluster:
        client = await connect(cluster.address(0))
        told = {a.api_key: a.max_version for a in (await client.ask(request, 1)).api_keys}
        assert (told[ApiKey.PRODUCE], told[ApiKey.FETCH]) == (3, 5)
        assert (await client.ask(MetadataRequest(topics=None), 4)).topics == []
        client.send(MetadataRequest(topics=None), 5)
        assert await client.is_cut()
    async with FakeCluster(version="0.9.0") as cluster:
        client = await connect(cluster.address(0))
        client.send(request, 0)
        assert await client.is_cut()
        client = await connect(cluster.address(0))
        assert (await client.ask(MetadataRequest(topics=[]), 0)).topics == []
    pinned = {ApiKey.FETCH: (4, 4), ApiKey.INIT_PRODUCER_ID: None}
    async with FakeCluster(api_versions=pinned) as cluster:
        client = await connect(cluster.address(0))
        told = {a.api_key: a for a in (await client.ask(request, 0)).api_keys}
        assert ApiKey.INIT_PRODUCER_ID not in told
        assert (told[ApiKey.FETCH].min_version, told[ApiKey.FETCH].max_version) == (4, 4)


async def test_tls(tls_files: tuple[Path, Path]) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*tls_files)
    client_side = ssl.create_default_context(cafile=str(tls_files[0]))
    async with FakeCluster(topics={"orders": 1}, ssl_context=server) as cluster:
        host, _, port = cluster.address(0).rpartition(":")
        client = RawClient(*await asyncio.open_connection(host, int(port), ssl=client_side))
        try:
            batch = make_batch((1, None, bytes(300_000)))
            produced = await client.ask(produce_to(0, batch), 9)
            assert produced.responses[0].partition_responses[0].error_code == 0
            fetched = await client.ask(fetch_from(0, 0), 11)
            assert len(fetched.responses[0].partitions[0].records) == len(batch)
        finally:
            await client.close()


async def test_starts_once_and_stops_twice() -> None:
    cluster = FakeCluster(brokers=3)
    await cluster.start()
    with pytest.raises(RuntimeError):
        await cluster.start()
    client = await RawClient.connect(cluster.address(2))
    await cluster.stop()
    await cluster.stop()
    assert await client.is_cut()
    await client.close()


def test_the_same_seed_gives_the_same_ids() -> None:
    one, two, other = FakeCluster(seed=5), FakeCluster(seed=5), FakeCluster(seed=6)
    assert one.cluster_id == two.cluster_id != other.cluster_id
    ids = [cluster.create_topic("a").topic_id for cluster in (one, two, other)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("arguments", [{"brokers": 0}, {"brokers": 2, "racks": ["a"]}])
def test_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        FakeCluster(**arguments)


def test_without_an_event_loop() -> None:
    async def ask(address: str) -> Any:
        client = await RawClient.connect(address)
        try:
            return await client.ask(MetadataRequest(topics=None), 9)
        finally:
            await client.close()

    with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        told = asyncio.run(ask(cluster.address(1)))
        assert [topic.name for topic in told.topics] == ["orders"]
        cluster.kill(0)
        assert [node.node_id for node in asyncio.run(ask(cluster.address(1))).brokers] == [1]
        cluster.restart(0)
        assert [node.node_id for node in asyncio.run(ask(cluster.address(0))).brokers] == [0, 1]
        cluster.create_topic("more", 2)
        assert len(cluster.requests) == 3
