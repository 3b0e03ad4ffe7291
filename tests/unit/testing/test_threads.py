"""The cluster in its own thread, and its methods called from elsewhere than its loop."""

import asyncio
import threading

import pytest
import trio

from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.testing.raw import RawClient


async def nodes_told(address: str) -> list[int]:
    client = await RawClient.connect(address)
    try:
        told = await client.ask(MetadataRequest(topics=None), 9)
        return [node.node_id for node in told.brokers]
    finally:
        await client.close()


@pytest.mark.asyncio(loop_factories=["asyncio"])
async def test_from_a_loop_of_another_thread() -> None:
    with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        cluster.kill(1)
        assert await nodes_told(cluster.address(0)) == [0]
        await cluster.restart(1)
        assert await nodes_told(cluster.address(0)) == [0, 1]
        fault = cluster.control(ApiKey.METADATA, delay=0.01)
        asking = asyncio.create_task(nodes_told(cluster.address(0)))
        await fault.struck()
        assert await asking == [0, 1]
        await fault.struck()  # it was already


def test_from_trio() -> None:
    async def main(cluster: FakeCluster) -> None:
        cluster.kill(0)
        assert not cluster.state.nodes[0].alive
        await cluster.restart(0)
        assert cluster.state.nodes[0].alive
        assert cluster.produce("orders", b"x") == 0

    with FakeCluster(topics=["orders"]) as cluster:
        trio.run(main, cluster)


async def test_from_a_thread_beside_the_loop() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        await asyncio.to_thread(cluster.kill, 0)
        assert not cluster.state.nodes[0].alive
        await asyncio.to_thread(cluster.restart, 0)
        assert await nodes_told(cluster.address(0)) == [0]
        assert await asyncio.to_thread(cluster.produce, "orders", b"x") == 0


def test_waiting_for_a_fault_without_a_loop() -> None:
    with FakeCluster() as cluster:
        fault = cluster.control(ApiKey.METADATA, error=3, times=None)
        with pytest.raises(TimeoutError, match="0 of 1"):
            fault.wait(timeout=0.01)
        address = cluster.address(0)
        asking = threading.Thread(target=lambda: asyncio.run(nodes_told(address)))
        asking.start()
        fault.wait()
        asking.join()
        assert fault.hits == 1


def test_no_thread_and_no_socket_is_left() -> None:
    before = set(threading.enumerate())
    for _ in range(20):
        with FakeCluster(brokers=3) as cluster:
            cluster.kill(1)
    assert set(threading.enumerate()) == before


def test_a_start_that_fails_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(OSError), FakeCluster(host="203.0.113.1"):
        raise AssertionError("nobody can listen there")
    assert set(threading.enumerate()) == before
