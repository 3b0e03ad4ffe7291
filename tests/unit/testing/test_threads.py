"""The cluster in its own thread, and calls of its methods from outside its loop."""

import asyncio
import os
import threading
from typing import Any

import pytest
import trio

from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.server.loop_thread import LoopThread, call_in, run_in
from tests.unit.testing.raw import RawClient


async def nodes_told(address: str) -> list[int]:
    client = await RawClient.connect(address)
    try:
        told = await client.ask(MetadataRequest(topics=None), 9)
        return [node.node_id for node in told.brokers]
    finally:
        await client.close()


@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.kafka(brokers=2)
async def test_from_a_loop_of_another_thread(kafka_broker: FakeCluster) -> None:
    kafka_broker.kill(1)
    assert await nodes_told(kafka_broker.address(0)) == [0]
    await kafka_broker.restart(1)
    assert await nodes_told(kafka_broker.address(0)) == [0, 1]
    fault = kafka_broker.control(ApiKey.METADATA, delay=0.01)
    asking = asyncio.create_task(nodes_told(kafka_broker.address(0)))
    await fault.struck()
    assert await asking == [0, 1]
    await fault.struck()  # it already has been


def test_from_trio(kafka_broker: FakeCluster, kafka_topic: str) -> None:
    async def main() -> None:
        kafka_broker.kill(0)
        assert not kafka_broker.state.nodes[0].alive
        await kafka_broker.restart(0)
        assert kafka_broker.state.nodes[0].alive
        assert kafka_broker.produce(kafka_topic, b"x") == 0

    trio.run(main)


async def test_from_a_thread_beside_the_loop() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        await asyncio.to_thread(cluster.kill, 0)
        assert not cluster.state.nodes[0].alive
        await asyncio.to_thread(cluster.restart, 0)
        assert await nodes_told(cluster.address(0)) == [0]
        assert await asyncio.to_thread(cluster.produce, "orders", b"x") == 0


def test_waiting_for_a_fault_without_a_loop(kafka_broker: FakeCluster) -> None:
    fault = kafka_broker.control(ApiKey.METADATA, error=3, times=None)
    with pytest.raises(TimeoutError, match="0 of 1"):
        fault.wait(timeout=0.01)
    address = kafka_broker.address(0)
    asking = threading.Thread(target=lambda: asyncio.run(nodes_told(address)))
    asking.start()
    fault.wait()
    asking.join()
    assert fault.hits == 1


def test_no_thread_and_no_socket_is_left() -> None:
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with FakeCluster(brokers=3) as cluster:
            assert asyncio.run(nodes_told(cluster.address(0))) == [0, 1, 2]
            cluster.kill(1)
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_calls_into_a_closed_loop_raise() -> None:
    """A call during the stop raises an error; it is neither lost nor does it block."""
    ending = LoopThread("ending")
    stopped, asked = threading.Event(), threading.Event()
    really_call = ending.loop.call_soon_threadsafe

    def call(*arguments: Any) -> asyncio.Handle:
        handle = really_call(*arguments)
        asked.set()
        return handle

    def stop_slowly() -> None:
        ending.loop.stop()
        stopped.set()
        asked.wait(10)

    ending.loop.call_soon_threadsafe(stop_slowly)
    assert stopped.wait(10)
    ending.loop.call_soon_threadsafe = call  # type: ignore[method-assign] # as a spy
    with pytest.raises(RuntimeError, match="was stopped during the call"):
        call_in(ending.loop, lambda: None)
    with pytest.raises(RuntimeError, match="closed"):
        run_in(ending.loop, asyncio.sleep(0))


def test_a_second_with_does_not_harm_the_first() -> None:
    before = set(threading.enumerate())
    with FakeCluster(topics=["orders"]) as cluster:
        with pytest.raises(RuntimeError, match="started only once"), cluster:
            raise AssertionError("it runs already")
        assert cluster.produce("orders", b"x") == 0
    assert set(threading.enumerate()) == before


def test_a_start_that_fails_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(OSError), FakeCluster(host="203.0.113.1"):
        raise AssertionError("nobody can listen there")
    assert set(threading.enumerate()) == before
