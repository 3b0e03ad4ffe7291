"""A producer's `stop` meets its deadline in every state, and leaves neither memory nor tasks."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaError, MessageSizeTooLargeError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.faults.proxy import Proxy

GRACE = 2.5  # seconds beyond the deadline: for a busy machine, and for the tasks to end
VALUE = b"v" * 300

State = Callable[[FakeCluster, AIOKafkaProducer], Awaitable[None]]


async def a_broker_is_paused(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    cluster.pause(0)


async def all_brokers_are_killed(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    for node in range(3):
        cluster.kill(node)


async def all_brokers_are_paused(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    for node in range(3):
        cluster.pause(node)


async def connections_are_mute(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    mute = cluster.control(ApiKey.PRODUCE, drop=True, times=None)
    await producer.send("orders", VALUE)
    await mute.struck()


async def a_batch_is_being_split(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    refusal = cluster.control(ApiKey.PRODUCE, error=MessageSizeTooLargeError, times=None)
    many = cluster.control(ApiKey.PRODUCE, delay=0.01, times=None)
    await producer.send_many("orders", [b"small"] * 40, partition=0)
    await refusal.struck(2)
    many.remove()


async def metadata_is_not_told(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    cluster.control(ApiKey.METADATA, drop=True, times=None)
    for node in range(3):
        cluster.kill(node)


async def answers_are_refused_all_the_time(
    cluster: FakeCluster, producer: AIOKafkaProducer
) -> None:
    cluster.control(ApiKey.PRODUCE, error=6, times=None)


async def memory_is_used_up(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    await all_brokers_are_paused(cluster, producer)
    for _ in range(5):
        _ignored(producer.send_many("orders", [VALUE] * 20_000))
    while producer.metrics()["waiting-threads"] < 5:
        await asyncio.sleep(0)


async def another_thread_waits_for_memory(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    await memory_is_used_up(cluster, producer)
    for _ in range(20):
        _ignored(asyncio.wrap_future(producer.send_threadsafe("orders", VALUE)))
    while producer.metrics()["waiting-threads"] < 6:
        await asyncio.sleep(0)


async def a_topic_is_not_known(cluster: FakeCluster, producer: AIOKafkaProducer) -> None:
    await all_brokers_are_paused(cluster, producer)
    for n in range(5):
        _ignored(producer.send_and_wait(f"unknown-{n}", VALUE))
    await asyncio.sleep(0.01)


async def a_large_batch_is_being_compressed(
    cluster: FakeCluster, producer: AIOKafkaProducer
) -> None:
    """By a thread that never starts: another task occupies the only one."""
    loop, busy = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    _ignored(loop.run_in_executor(None, busy.wait, 10))
    await producer.send_many("orders", [random.randbytes(1000)] * 600)
    queues = producer._accumulator.active
    while not any(batch.compressing for queue in queues for batch in queue.waiting):
        await asyncio.sleep(0)
    loop.call_later(0.5, busy.set)  # not before: the batch would be done, and waited for in vain


STATES: list[State] = [
    a_broker_is_paused,
    all_brokers_are_killed,
    all_brokers_are_paused,
    connections_are_mute,
    a_batch_is_being_split,
    metadata_is_not_told,
    answers_are_refused_all_the_time,
    memory_is_used_up,
    another_thread_waits_for_memory,
    a_topic_is_not_known,
    a_large_batch_is_being_compressed,
]

_kept: set["asyncio.Future[Any]"] = set()


def _ignored(awaitable: Awaitable[object]) -> None:
    """Let it run, and check its result at the end."""
    _kept.add(asyncio.ensure_future(awaitable))


async def _all_told() -> None:
    """Every waiter got an outcome, and each error is a KafkaError."""
    results = await asyncio.wait_for(asyncio.gather(*_kept, return_exceptions=True), 1)
    _kept.clear()
    for result in results:
        assert not isinstance(result, BaseException) or isinstance(result, KafkaError), result


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(brokers=3, topics={"orders": 3}) as running:
        yield running


def make(bootstrap_servers: str, **options: Any) -> AIOKafkaProducer:
    settings: dict[str, Any] = {
        "request_timeout_ms": 20_000,
        "delivery_timeout_ms": 60_000,
        "buffer_memory": 1_000_000,
        "compression_type": "zstd",  # unlike lz4, in a thread at this size
        "max_batch_size": 100_000,
    }
    return AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **{**settings, **options})


async def assert_stops(producer: AIOKafkaProducer, timeout: float, before: set[Any]) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await producer.stop(timeout)
    took = loop.time() - began
    assert took < timeout + GRACE, f"stop({timeout}) took {took:.1f} s"
    pool = producer._sender.pool
    assert (pool.used, pool.waiting) == (0, 0)
    await _all_told()
    for _ in range(10):
        left = {t for t in asyncio.all_tasks() - before if "aiokafka_lite" in t.get_name()}
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left running: {left}")


@pytest.mark.parametrize("timeout", [0.0, 0.3])
@pytest.mark.parametrize("state", STATES, ids=lambda each: each.__name__)
async def test_stop_ends_by_its_timeout(cluster: FakeCluster, state: State, timeout: float) -> None:
    before = asyncio.all_tasks()
    producer = make(cluster.bootstrap_servers)
    await producer.start()
    await producer.send_and_wait("orders", VALUE)
    await state(cluster, producer)
    if producer.metrics()["waiting-threads"] == 0:
        for partition in range(3):
            _ignored(await producer.send("orders", VALUE, partition=partition))
    await asyncio.sleep(0.02)
    await assert_stops(producer, timeout, before)


@pytest.mark.parametrize("timeout", [0.0, 0.3])
async def test_stop_ends_by_its_timeout_without_a_producer_id(
    cluster: FakeCluster, timeout: float
) -> None:
    before = asyncio.all_tasks()
    mute = cluster.control(ApiKey.INIT_PRODUCER_ID, drop=True, times=None)
    producer = make(cluster.bootstrap_servers)
    await producer.start()
    _ignored(await producer.send("orders", VALUE))
    await mute.struck()
    await assert_stops(producer, timeout, before)


@pytest.mark.parametrize("passes", [0, 1, 5, 50])
async def test_stop_ends_by_its_timeout_during_start(cluster: FakeCluster, passes: int) -> None:
    before = asyncio.all_tasks()
    for node in range(3):
        cluster.pause(node)
    producer = make(cluster.bootstrap_servers)
    _ignored(producer.start())
    for _ in range(passes):
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await producer.stop(0.3)
    assert loop.time() - began < 0.3 + GRACE
    results = await asyncio.gather(*_kept, return_exceptions=True)
    _kept.clear()
    assert all(isinstance(result, Exception) for result in results), results
    assert not [t for t in asyncio.all_tasks() - before if "aiokafka_lite" in t.get_name()]


async def test_stop_ends_by_its_timeout_on_a_stalled_network(cluster: FakeCluster) -> None:
    """The socket takes no more bytes: nothing drains, and neither end closes."""
    async with FakeCluster(topics={"orders": 1}, port=0) as one, Proxy() as proxy:
        host, _, port = one.address(0).rpartition(":")
        one.state.nodes[0].port, real = proxy.port, int(port)  # the address that clients get
        proxy.target = (host, real)
        before = asyncio.all_tasks()
        producer = make(f"{host}:{proxy.port}", acks=0, compression_type=None)
        await producer.start()
        await producer.send_and_wait("orders", VALUE)
        proxy.stall()
        for _ in range(20):
            sending = asyncio.ensure_future(producer.send_many("orders", [b"x" * 10_000] * 80))
            _ignored(sending)
            await asyncio.wait([sending], timeout=0.02)
        await assert_stops(producer, 0.3, before)
        one.state.nodes[0].port = real
