"""One broker's connections: attempts per purpose, the backoff, losses, moves and close."""

from __future__ import annotations

import asyncio
import socket

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Broker, PerVersion, Purpose
from aiokafka_lite.cluster.metadata import Node
from aiokafka_lite.errors import IllegalStateError, KafkaConnectionError, UnsupportedVersionError
from aiokafka_lite.net.api_version_cache import Known
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.registry import ApiKey


@pytest.fixture
def lost():
    return []


@pytest.fixture
async def broker_at(task_owner, lost):
    made = []

    def make(port: int, backoff: Backoff | None = None, options=None) -> Broker:
        # New for each test, because options cache the versions of brokers.
        options = options or ConnectionOptions(request_timeout=5.0, connect_timeout=2.0)
        node = Node(1, "127.0.0.1", port)
        backoff = backoff or Backoff(0.001, 0.002)
        made.append(Broker(node, options, backoff, task_owner, lambda *args: lost.append(args)))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def dead_port():
    """A port without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def test_concurrent_callers_share_one_connection_attempt(tiny_kafka, broker_at):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    assert broker.connected() is None
    made = await asyncio.gather(*(broker.connection() for _ in range(50)))
    assert len(set(made)) == 1
    assert server.connections == 1
    assert broker.connected() is made[0]
    assert await broker.connection() is made[0]


async def test_each_purpose_has_its_own_connection(tiny_kafka, broker_at):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    made = await asyncio.gather(*(broker.connection(purpose) for purpose in Purpose))
    assert len(set(made)) == len(Purpose) == server.connections


async def test_cancelling_one_caller_keeps_the_attempt_for_others(tiny_kafka, broker_at, until):
    server = (await tiny_kafka()).brokers[1]
    server.speaking.clear()
    broker = broker_at(server.port)
    first, second = (asyncio.create_task(broker.connection()) for _ in range(2))
    await until(lambda: server.connections)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    server.speaking.set()
    assert not (await second).closed


async def test_attempt_completes_after_all_callers_are_cancelled(tiny_kafka, broker_at, until):
    server = (await tiny_kafka()).brokers[1]
    server.speaking.clear()
    broker = broker_at(server.port)
    only = asyncio.create_task(broker.connection())
    await until(lambda: server.connections)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    server.speaking.set()
    await until(broker.connected)
    assert server.connections == 1


async def test_refused_connection_raises_and_starts_the_backoff(broker_at, dead_port):
    broker = broker_at(dead_port, Backoff(0.05, 10.0, jitter=0.0))
    loop = asyncio.get_running_loop()
    pauses = []
    for _ in range(3):
        before = loop.time()
        assert broker.next_attempt_at <= before or broker.blacked_out(before)
        with pytest.raises(KafkaConnectionError):
            await broker.connection()
        pauses.append(broker.next_attempt_at - loop.time())
    assert [round(pause / 0.05) for pause in pauses] == [1, 2, 4]
    assert broker.blacked_out(loop.time())


async def test_the_next_attempt_waits_for_the_end_of_the_backoff(broker_at, dead_port):
    broker = broker_at(dead_port, Backoff(0.05, 0.05, jitter=0.0))
    with pytest.raises(KafkaConnectionError):
        await broker.connection()
    until_then = broker.next_attempt_at
    with pytest.raises(KafkaConnectionError):
        await broker.connection(Purpose.FETCH)
    # The loop's clock may wake a timer early by its resolution.
    assert asyncio.get_running_loop().time() >= until_then - 0.002


async def test_each_failed_attempt_gives_the_next_one_more_time_until_one_succeeds(
    tiny_kafka, broker_at, until
):
    server = (await tiny_kafka()).brokers[1]
    server.speaking.clear()
    options = ConnectionOptions(connect_timeout=0.1, connect_timeout_max=30.0)
    broker = broker_at(server.port, options=options)
    loop = asyncio.get_running_loop()
    options.known.remember("127.0.0.1", server.port, Known(api_versions=4))  # one step, not four
    took = []
    for _ in range(3):
        before = loop.time()
        with pytest.raises(KafkaConnectionError):
            await broker.connection()
        took.append(loop.time() - before)
        options.known.remember("127.0.0.1", server.port, Known(api_versions=4))
    for seconds, least in zip(took, (0.1, 0.16, 0.32), strict=True):
        assert seconds >= least - 0.002  # the resolution of the loop's clock
    server.speaking.set()
    (await broker.connection()).close()
    server.speaking.clear()
    before = loop.time()
    with pytest.raises(KafkaConnectionError):
        await broker.connection()
    assert loop.time() - before < 0.3


async def test_concurrent_failures_count_as_one(broker_at, dead_port):
    broker = broker_at(dead_port, Backoff(0.05, 10.0, jitter=0.0))
    outcomes = await asyncio.gather(
        *(broker.connection(purpose) for purpose in Purpose), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {KafkaConnectionError}
    pause = broker.next_attempt_at - asyncio.get_running_loop().time()
    assert round(pause / 0.05) == 1


async def test_success_ends_the_backoff_of_other_purposes(tiny_kafka, broker_at, soon):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port, Backoff(60.0, 60.0))
    async with asyncio.timeout_at(soon()):
        for purpose in Purpose:
            await broker.connection(purpose)


async def test_connection_lost_at_once_starts_the_backoff(tiny_kafka, broker_at, lost, until):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port, Backoff(60.0, 60.0))
    await broker.connection()
    await server.drop_connections()
    await until(lambda: lost)
    assert broker.blacked_out(asyncio.get_running_loop().time())


async def test_failed_attempt_without_callers_does_not_warn(broker_at, dead_port, until):
    broker = broker_at(dead_port)
    only = asyncio.create_task(broker.connection())
    await asyncio.sleep(0)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    await until(lambda: broker.in_flight == 0)  # warnings are errors


async def test_lost_connection_is_reported_and_replaced(tiny_kafka, broker_at, lost, until):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    first = await broker.connection()
    await server.drop_connections()
    await until(lambda: lost)
    assert [args[0] for args in lost] == [broker]
    assert isinstance(lost[0][1], KafkaConnectionError)
    assert broker.connected() is None
    assert await broker.connection() is not first


async def test_a_request_in_flight_fails_with_its_connection(tiny_kafka, broker_at, until):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    await broker.connection()
    server.speaking.clear()
    asking = asyncio.create_task(broker.request(MetadataRequest()))
    await until(lambda: server.received)
    assert broker.in_flight == 1
    await server.drop_connections()
    with pytest.raises(KafkaConnectionError):
        await asking
    assert broker.in_flight == 0


async def test_disconnect_is_not_a_loss(tiny_kafka, broker_at, lost):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    connection = await broker.connection()
    broker.disconnect()
    assert connection.closed
    assert broker.connected() is None
    await broker.connection()
    assert not lost


async def test_an_idle_connection_that_closes_is_not_a_loss(tiny_kafka, broker_at, lost, until):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port, options=ConnectionOptions(connections_max_idle=0.05))
    await broker.connection()
    await until(lambda: not broker.connected())
    await broker.connection()
    assert server.connections == 2
    assert not lost


async def test_successful_connection_resets_the_backoff(tiny_kafka, broker_at):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port, Backoff(0.05, 10.0, jitter=0.0))
    await server.stop()
    for _ in range(2):
        with pytest.raises(KafkaConnectionError):
            await broker.connection()
    await server.start()
    await broker.connection()
    await server.stop()
    broker.disconnect()
    with pytest.raises(KafkaConnectionError):
        await broker.connection()
    pause = broker.next_attempt_at - asyncio.get_running_loop().time()
    assert round(pause / 0.05) == 1


async def test_moving_closes_connections_to_the_old_address(tiny_kafka, broker_at, until, lost):
    kafka = await tiny_kafka(brokers=2)
    old, new = kafka.brokers.values()
    broker = broker_at(old.port)
    await broker.connection()
    old.speaking.clear()
    asking = asyncio.create_task(broker.request(MetadataRequest()))
    connecting = asyncio.create_task(broker.connection(Purpose.FETCH))
    await until(lambda: old.received and old.connections == 2)
    broker.move(Node(1, "127.0.0.1", new.port, "rack"))
    for waiting in (asking, connecting):
        with pytest.raises(KafkaConnectionError, match="moved"):
            await waiting
    await broker.request(MetadataRequest())
    assert len(new.received) == 1
    assert broker.node.rack == "rack"
    assert not lost


async def test_moving_to_the_same_address_closes_nothing(tiny_kafka, broker_at):
    server = (await tiny_kafka()).brokers[1]
    broker = broker_at(server.port)
    connection = await broker.connection()
    broker.move(Node(1, "127.0.0.1", server.port, "another rack"))
    assert await broker.connection() is connection


@pytest.mark.parametrize("release", ["0.9", "0.10.0", "2.8", "4.4"])
async def test_request_uses_the_newest_common_version(release, tiny_kafka, broker_at):
    kafka = await tiny_kafka(release=release)
    broker = broker_at(kafka.brokers[1].port)
    newest = kafka.versions[ApiKey.METADATA][1]
    built = []

    def build(version: int) -> MetadataRequest:
        built.append(version)
        return MetadataRequest(topics=[])

    await broker.request(PerVersion(MetadataRequest, build))
    await broker.request(PerVersion(MetadataRequest, build), latest=0)
    assert built == [min(newest, MetadataRequest.max_version), 0]
    with pytest.raises(UnsupportedVersionError):
        await broker.request(MetadataRequest(), oldest=newest + 1)


class TestClose:
    async def test_close_while_idle(self, tiny_kafka, broker_at, until, lost):
        server = (await tiny_kafka()).brokers[1]
        broker = broker_at(server.port)
        connection = await broker.connection()
        broker.close()
        broker.close()
        assert connection.closed
        with pytest.raises(IllegalStateError, match="closed"):
            await broker.connection()
        await until(lambda: server.open_connections == 0)
        assert not lost

    async def test_close_with_a_request_in_flight(self, tiny_kafka, broker_at, until):
        server = (await tiny_kafka()).brokers[1]
        broker = broker_at(server.port)
        await broker.connection()
        server.speaking.clear()
        asking = asyncio.create_task(broker.request(MetadataRequest()))
        await until(lambda: server.received)
        broker.close()
        with pytest.raises((IllegalStateError, KafkaConnectionError), match="closed"):
            await asking

    async def test_close_before_the_attempt_first_runs(self, broker_at, dead_port):
        broker = broker_at(dead_port)
        connecting = asyncio.create_task(broker.connection())
        await asyncio.sleep(0)
        broker.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await connecting

    async def test_close_during_an_attempt(self, tiny_kafka, broker_at, until, task_owner):
        server = (await tiny_kafka()).brokers[1]
        server.speaking.clear()
        broker = broker_at(server.port)
        connecting = asyncio.create_task(broker.connection())
        await until(lambda: server.connections)
        broker.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await connecting
        await until(lambda: not task_owner.running)
        await until(lambda: server.open_connections == 0)

    async def test_close_during_the_backoff(self, broker_at, dead_port, until, task_owner):
        broker = broker_at(dead_port, Backoff(60.0, 60.0))
        with pytest.raises(KafkaConnectionError):
            await broker.connection()
        connecting = asyncio.create_task(broker.connection())
        await until(lambda: task_owner.running)
        broker.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await connecting
        await until(lambda: not task_owner.running)


@pytest.mark.parametrize("steps", [0, 1, 5])
async def test_cancelled_attempt_task_fails_its_callers(tiny_kafka, broker_at, steps, soon):
    server = (await tiny_kafka()).brokers[1]
    server.speaking.clear()
    broker = broker_at(server.port)
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(broker.connection())
    await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    (attempt,) = [t for t in asyncio.all_tasks() - before if "connect to" in t.get_name()]
    attempt.cancel()  # as a program that cancels all tasks does
    async with asyncio.timeout_at(soon()):
        with pytest.raises(KafkaConnectionError, match="was cancelled"):
            await waiting
        server.speaking.set()
        assert not (await broker.connection()).closed


async def test_base_exception_in_an_attempt_fails_its_callers(tiny_kafka, monkeypatch, soon):
    class Deadly(BaseException):
        pass

    async def die(*_: object, **__: object) -> None:
        raise Deadly("nothing catches this")

    reported = []
    owner = TaskOwner("test", lambda name, error: reported.append(error))
    server = (await tiny_kafka()).brokers[1]
    node = Node(1, "127.0.0.1", server.port)
    broker = Broker(node, ConnectionOptions(), Backoff(0.001, 0.002), owner, lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr("aiokafka_lite.cluster.broker.open_connection", die)
        async with asyncio.timeout_at(soon()):
            with pytest.raises(KafkaConnectionError, match="nothing catches this"):
                await broker.connection()
    async with asyncio.timeout_at(soon()):
        assert not (await broker.connection()).closed
    assert [type(error) for error in reported] == [Deadly]
    broker.close()
    await owner.close(soon())
