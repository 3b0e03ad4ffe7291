"""The table of situations in docs/observability.md: what `health()` returns in each."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from aiokafka_lite import (
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    TopicPartition,
)
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.cluster import reach
from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    ProducerFenced,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.structs import ConsumerHealth, Health, HealthState, ProducerHealth
from aiokafka_lite.testing import FakeCluster
from tests.unit.guides import Guide

S = HealthState
TP = TopicPartition("orders", 0)
Client: TypeAlias = AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaShareConsumer


class World:
    """Two brokers with the topic "orders" of two partitions, and clients that retry quickly."""

    def __init__(self, cluster: FakeCluster, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self.stack = stack
        self.tasks: list[asyncio.Task[Any]] = []

    def _made(self, client: Any) -> Any:
        self.stack.push_async_callback(client.stop)
        return client

    def consumer(self, *topics: str, **options: Any) -> AIOKafkaConsumer:
        defaults: dict[str, Any] = {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "request_timeout_ms": 5000,
            "enable_auto_commit": False,
        }
        if options.get("group_protocol") != "consumer":
            defaults["heartbeat_interval_ms"] = 100
        made: AIOKafkaConsumer = self._made(AIOKafkaConsumer(*topics, **(defaults | options)))
        return made

    async def member(self, **options: Any) -> AIOKafkaConsumer:
        """A consumer of group g that has its partitions and has read."""
        consumer = self.consumer("orders", group_id="g", **options)
        await consumer.start()
        await consumer.getmany(timeout_ms=10)
        return consumer

    async def producer(self, **options: Any) -> AIOKafkaProducer:
        defaults = {"bootstrap_servers": self.cluster.bootstrap_servers, "retry_backoff_ms": 10}
        producer: AIOKafkaProducer = AIOKafkaProducer(**(defaults | options))
        self.stack.push_async_callback(producer.stop, 0.1)
        await producer.start()
        return producer

    async def sharer(self) -> AIOKafkaShareConsumer:
        servers = self.cluster.bootstrap_servers
        sharer: AIOKafkaShareConsumer = self._made(
            AIOKafkaShareConsumer(
                "orders", bootstrap_servers=servers, group_id="s", fetch_max_wait_ms=50
            )
        )
        await sharer.start()
        await sharer.getmany(timeout_ms=10)
        return sharer

    def kill_all(self) -> None:
        for node_id in range(2):
            self.cluster.kill(node_id)

    def freeze_all(self) -> None:
        for node_id in range(2):
            self.cluster.pause(node_id)
            self.stack.callback(self.cluster.resume, node_id)

    def spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self.stack.push_async_callback(_end, task)


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


Situation: TypeAlias = Callable[[World], Awaitable[Client]]
SITUATIONS: dict[str, tuple[Situation, HealthState, bool, bool]] = {}


def situation(
    name: str, state: HealthState, ready: bool, alive: bool
) -> Callable[[Situation], Situation]:
    def add(function: Situation) -> Situation:
        SITUATIONS[name] = (function, state, ready, alive)
        return function

    return add


# --- consumers


@situation("consumer: not started", S.STARTING, False, True)
async def _(world: World) -> Client:
    return world.consumer("orders")


@situation("consumer: assigned partitions, no group, an idle topic", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = world.consumer()
    consumer.assign([TP])
    await consumer.start()
    return consumer


@situation("consumer: member of a group", S.STABLE, True, True)
async def _(world: World) -> Client:
    return await world.member()


@situation("consumer: member of a group with the consumer protocol", S.STABLE, True, True)
async def _(world: World) -> Client:
    return await world.member(group_protocol="consumer")


@situation("consumer: all partitions paused", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    consumer.pause(*consumer.assignment())
    return consumer


@situation("consumer: more members than partitions", S.STABLE, True, True)
async def _(world: World) -> Client:
    members = [await world.member() for _ in range(3)]
    await until(lambda: sum(not member.assignment() for member in members) == 1)
    return next(member for member in members if not member.assignment())


@situation("consumer: one of two brokers killed", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    world.cluster.kill(0)
    await until(lambda: consumer.health().brokers_connected == 1)
    return consumer


@situation("consumer: all brokers killed", S.RECONNECTING, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    world.kill_all()
    return consumer


@situation("consumer: all brokers frozen", S.RECONNECTING, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    world.freeze_all()
    return consumer


@situation("consumer: brokers came back", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    world.kill_all()
    await until(lambda: not consumer.health().ready)
    for node_id in range(2):
        await world.cluster.restart(node_id)
    return consumer


@situation("consumer: coordinator unavailable", S.RECONNECTING, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    error = GroupCoordinatorNotAvailableError
    for api_key in (ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT):
        world.cluster.control(api_key, times=None, error=error)
    return consumer


@situation("consumer: coordinator moved", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    before = consumer.metrics()["heartbeat-total"]
    assert before is not None
    for node_id in (0, 1):
        world.cluster.move_coordinator("g", node_id)
    await until(lambda: (consumer.metrics()["heartbeat-total"] or 0) > before + 1)
    return consumer


class Slow(ConsumerRebalanceListener):
    """A listener that never returns from a revocation."""

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        if revoked:
            await asyncio.Event().wait()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Does nothing."""


@situation("consumer: the group rebalances", S.REBALANCING, True, True)
async def _(world: World) -> Client:
    consumer = world.consumer(group_id="g")
    consumer.subscribe(["orders"], listener=Slow())
    await consumer.start()
    world.spawn(world.member())
    return consumer


@situation("consumer: the session expired", S.JOINING, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    world.cluster.control(ApiKey.JOIN_GROUP, times=None, delay=120)
    world.cluster.control(ApiKey.HEARTBEAT, error=UnknownMemberIdError)
    return consumer


@situation("consumer: no read for max_poll_interval_ms", S.JOINING, False, True)
async def _(world: World) -> Client:
    return await world.member(max_poll_interval_ms=300)


@situation("consumer: unsubscribed", S.JOINING, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    consumer.unsubscribe()
    return consumer


@situation("consumer: fenced by another process", S.FAILED, False, False)
async def _(world: World) -> Client:
    consumer = await world.member(group_instance_id="one")
    world.spawn(world.member(group_instance_id="one"))
    return consumer


@situation("consumer: the right to read the group was lost", S.FAILED, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    for api_key in (ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP):
        world.cluster.control(api_key, times=None, error=GroupAuthorizationFailedError)
    return consumer


@situation("consumer: the right to read the topic was lost", S.FAILED, False, True)
async def _(world: World) -> Client:
    consumer = await world.member(metadata_max_age_ms=100)
    error, partitions = TopicAuthorizationFailedError, [("orders", None)]
    world.cluster.control(ApiKey.METADATA, times=None, error=error, partitions=partitions)
    return consumer


@situation("consumer: the offset is out of range", S.FAILED, False, True)
async def _(world: World) -> Client:
    consumer = world.consumer(auto_offset_reset="none")
    consumer.assign([TP])
    consumer.seek(TP, 1000)
    await consumer.start()
    with pytest.raises(OffsetOutOfRangeError):
        await consumer.getone()
    return consumer


@situation("consumer: a task crashed", S.FAILED, False, False)
async def _(world: World) -> Client:
    consumer = await world.member()

    def next_step(now: float) -> None:
        raise ZeroDivisionError

    group = consumer._core.group
    assert group is not None
    group.driver.membership.next_step = next_step  # type: ignore[method-assign]
    group.driver.wake()
    return consumer


@situation("consumer: the metadata task crashed", S.FAILED, False, False)
async def _(world: World) -> Client:
    consumer = world.consumer()
    consumer.assign([TP])
    await consumer.start()
    refreshing = consumer._core.cluster._refreshing
    assert refreshing is not None
    refreshing.cancel()
    return consumer


@situation("consumer: a heartbeat hangs for two sessions", S.STABLE, True, False)
async def _(world: World) -> Client:
    consumer = await world.member(request_timeout_ms=200, session_timeout_ms=6000)
    group = consumer._core.group
    assert group is not None

    async def hang(step: object) -> object:
        return await asyncio.Event().wait()

    group.driver._link.ask = hang  # type: ignore[assignment, method-assign]
    before = len(group.driver._asking)
    await until(lambda: len(group.driver._asking) > before)
    # As if two sessions had passed since the deadline of the request.
    kind = next(iter(group.driver._asking))
    group.driver._asking[kind] -= 20
    return consumer


@situation("consumer: the loop was blocked for longer than two sessions", S.STABLE, True, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    group = consumer._core.group
    assert group is not None
    driver = group.driver
    await until(lambda: driver._wakes_at < float("inf"))
    driver._wakes_at -= 60  # as after a blocked event loop: steps are long overdue
    assert consumer.health().alive
    driver.wake()
    return consumer


@situation("consumer: stopped", S.STOPPED, False, True)
async def _(world: World) -> Client:
    consumer = await world.member()
    await consumer.stop()
    return consumer


# --- producers


@situation("producer: not started", S.STARTING, False, True)
async def _(world: World) -> Client:
    producer = AIOKafkaProducer(bootstrap_servers=world.cluster.bootstrap_servers)
    world.stack.push_async_callback(producer.stop)
    return producer


@situation("producer: idle", S.STABLE, True, True)
async def _(world: World) -> Client:
    return await world.producer()


@situation("producer: all brokers killed", S.RECONNECTING, False, True)
async def _(world: World) -> Client:
    producer = await world.producer()
    await producer.send_and_wait("orders", b"one")
    world.kill_all()
    await producer.send("orders", b"two")
    return producer


@situation("producer: all brokers frozen", S.RECONNECTING, False, True)
async def _(world: World) -> Client:
    producer = await world.producer()
    await producer.send_and_wait("orders", b"one")
    world.freeze_all()
    await producer.send("orders", b"two")
    return producer


@situation("producer: fenced by another with its transactional id", S.FAILED, False, False)
async def _(world: World) -> Client:
    producer = await world.producer(transactional_id="t")
    await producer.begin_transaction()
    await world.producer(transactional_id="t")
    with pytest.raises(KafkaError):
        await producer.send_and_wait("orders", b"late")
    with pytest.raises(ProducerFenced):
        await producer.abort_transaction()
    return producer


@situation("producer: a task crashed", S.FAILED, False, False)
async def _(world: World) -> Client:
    producer = await world.producer()
    producer._sender._on_task_error("send to broker 0", ZeroDivisionError())
    return producer


@situation("producer: stopped", S.STOPPED, False, True)
async def _(world: World) -> Client:
    producer = await world.producer()
    await producer.stop()
    return producer


# --- share consumers


@situation("share consumer: member of a group", S.STABLE, True, True)
async def _(world: World) -> Client:
    return await world.sharer()


@situation("share consumer: all brokers killed", S.RECONNECTING, False, True)
async def _(world: World) -> Client:
    sharer = await world.sharer()
    world.kill_all()
    return sharer


@situation("share consumer: the right to read the group was lost", S.FAILED, False, True)
async def _(world: World) -> Client:
    sharer = await world.sharer()
    error = GroupAuthorizationFailedError
    world.cluster.control(ApiKey.SHARE_GROUP_HEARTBEAT, times=None, error=error)
    sharer._core.group.driver.rejoin("the test needs a heartbeat")
    return sharer


@situation("share consumer: a task crashed", S.FAILED, False, False)
async def _(world: World) -> Client:
    sharer = await world.sharer()
    sharer._core._on_task_error("share session 0", ZeroDivisionError())
    return sharer


@situation("share consumer: stopped", S.STOPPED, False, True)
async def _(world: World) -> Client:
    sharer = await world.sharer()
    await sharer.stop()
    return sharer


# --- the tests


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def made() -> AsyncIterator[World]:
    async with FakeCluster(2, topics={"orders": 2}) as cluster, AsyncExitStack() as stack:
        cluster.move_leader("orders", 1, 1)
        yield World(cluster, stack)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with made() as world:
        yield world


def verdict(health: Health) -> tuple[HealthState, bool, bool]:
    return health.state, health.ready, health.alive


@pytest.mark.unhurried
@pytest.mark.parametrize("name", SITUATIONS)
async def test_health_in_a_situation(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the table says otherwise, the client is always alive."""
    make, *expected = SITUATIONS[name]
    if "frozen" in name:
        monkeypatch.setattr(reach, "LATELY", 0.3)
    client = await make(world)
    async with asyncio.timeout(60):
        while (now := verdict(client.health())) != tuple(expected):
            assert now[2] or not expected[2], client.health()
            await asyncio.sleep(0.01)
    health = client.health()
    assert (health.reason == "") == (expected == [S.STABLE, True, True]), health
    if health.state is S.FAILED and "metadata task" not in name:
        assert health.last_error is not None
    if "fenced" in name:
        assert isinstance(health.last_error, FencedInstanceIdError | ProducerFenced)


def test_every_situation_is_in_the_guide() -> None:
    table = Guide("observability.md").table("| situation | `state` | `ready` | `alive` |")
    documented = {row[0]: (row[1].strip("`"), row[2] == "yes", row[3] == "yes") for row in table}
    assert documented == {name: (row[1].value, *row[2:]) for name, row in SITUATIONS.items()}


async def test_health_sends_no_request(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([TP])
    producer = await world.producer()
    await consumer.start()
    consumer.pause(TP)
    await asyncio.sleep(0.2)  # fetches in flight end
    before = len(world.cluster.requests)
    for _ in range(100):
        consumer.health()
        producer.health()
    assert len(world.cluster.requests) == before


async def test_fields_of_a_consumer(world: World) -> None:
    world.cluster.produce("orders", b"one", partition=0)
    consumer = world.consumer("orders", group_id="g")
    before = consumer.health()
    assert (before.assigned, before.brokers_connected, before.metadata_age) == (0, 0, None)
    assert before.last_fetch_ago is before.last_heartbeat_ago is before.last_poll_ago is None
    await consumer.start()
    await consumer.getone()
    await until(lambda: consumer.health().last_heartbeat_ago is not None)
    health = consumer.health()
    assert isinstance(health, ConsumerHealth)
    assert health.assigned == 2
    assert health.brokers_connected == 2
    for ago in (health.last_fetch_ago, health.last_heartbeat_ago, health.last_poll_ago):
        assert ago is not None
        assert 0 <= ago < 60
    world.spawn(consumer.getone())
    await until(lambda: consumer.health().last_poll_ago == 0.0)


async def test_fields_of_a_producer(world: World) -> None:
    producer = await world.producer(linger_ms=60_000)
    idle = producer.health()
    assert isinstance(idle, ProducerHealth)
    assert (idle.oldest_unacked_age, idle.buffered_bytes, idle.in_flight) == (None, 0, 0)
    ack = await producer.send("orders", b"one")
    waiting = producer.health()
    assert waiting.oldest_unacked_age is not None
    assert waiting.buffered_bytes > 0
    await producer.flush()
    await ack
    assert producer.health().oldest_unacked_age is None


async def test_a_state_keeps_its_time_until_it_changes(world: World) -> None:
    began = time.time()
    producer = await world.producer()
    since = producer.health().since
    assert began <= since <= time.time()
    await asyncio.sleep(0.01)
    assert producer.health().since == since
    await producer.stop()
    assert producer.health().since > since


async def test_health_is_refused_in_another_thread(world: World) -> None:
    consumer = await world.member()
    for client in (consumer, await world.producer(), await world.sharer()):
        with pytest.raises(IllegalStateError):
            await asyncio.to_thread(client.health)


async def test_ping_sends_a_request_to_a_broker(world: World) -> None:
    producer = await world.producer()
    before = world.cluster.count(ApiKey.METADATA)
    took = await producer.client.ping()
    assert 0 < took < 5
    assert world.cluster.count(ApiKey.METADATA) > before
    sharer = await world.sharer()
    assert await sharer.client.ping(60) > 0


@pytest.mark.unhurried
async def test_ping_tries_another_broker_if_one_is_frozen(world: World) -> None:
    async with AIOKafkaClient(bootstrap_servers=world.cluster.bootstrap_servers) as client:
        world.cluster.pause(0)
        for _ in range(5):
            await client.ping(1.0)
        world.cluster.resume(0)


@pytest.mark.unhurried
async def test_ping_fails_within_its_timeout_without_brokers(world: World) -> None:
    producer = await world.producer()
    world.kill_all()
    with pytest.raises(KafkaTimeoutError) as caught:
        await producer.client.ping(0.3)
    assert isinstance(caught.value.__cause__, KafkaConnectionError)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "1", None])
async def test_ping_refuses_a_timeout_that_is_none(world: World, timeout: Any) -> None:
    producer = await world.producer()
    with pytest.raises((TypeError, ValueError)):
        await producer.client.ping(timeout)


async def test_ping_of_a_client_that_is_not_started(world: World) -> None:
    client = AIOKafkaClient(bootstrap_servers=world.cluster.bootstrap_servers)
    with pytest.raises(IllegalStateError):
        await client.ping()


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
async def test_a_failed_state_has_its_error_from_the_first_moment(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The membership fails before the task that reports it runs: `health()` may be called then."""
    seen: list[Health] = []
    async with FakeCluster(topics={"orders": 1}) as cluster:
        servers = cluster.bootstrap_servers
        consumer: AIOKafkaConsumer | AIOKafkaShareConsumer
        if kind == "share":
            consumer = AIOKafkaShareConsumer("orders", bootstrap_servers=servers, group_id="g")
            heartbeat = ApiKey.SHARE_GROUP_HEARTBEAT
        else:
            consumer = AIOKafkaConsumer(
                "orders",
                bootstrap_servers=servers,
                group_id="g",
                group_protocol=kind,
                heartbeat_interval_ms=50 if kind == "classic" else 3000,
            )
            heartbeat = ApiKey.HEARTBEAT if kind == "classic" else ApiKey.CONSUMER_GROUP_HEARTBEAT
        async with consumer:
            group: Any = consumer._core.group
            driver = group.driver
            wake = driver.wake

            def watch() -> None:
                seen.append(consumer.health())
                wake()

            monkeypatch.setattr(driver, "wake", watch)
            for api_key in (heartbeat, ApiKey.JOIN_GROUP):
                cluster.control(api_key, times=None, error=GroupAuthorizationFailedError)
            await until(lambda: any(each.state is HealthState.FAILED for each in seen))
            assert consumer.health().state is HealthState.FAILED
    failed = [each for each in seen if each.state is HealthState.FAILED]
    assert {type(each.last_error) for each in failed} == {GroupAuthorizationFailedError}
