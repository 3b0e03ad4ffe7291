"""`health()` when real brokers die, coordinators move, members are fenced, and rights are lost."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaError,
    ProducerFenced,
)
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from aiokafka_lite.structs import Health, HealthState
from tools.kafka import KafkaCluster, OwnCluster

S = HealthState


async def until(holds: Callable[[], bool], *clients: Any) -> None:
    """Wait for a condition; the clients must be alive all the time."""
    async with asyncio.timeout(120):
        while not holds():
            for client in clients:
                assert client.health().alive, client.health()
            await asyncio.sleep(0.02)


def verdict(health: Health) -> tuple[HealthState, bool, bool]:
    return health.state, health.ready, health.alive


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.long), "consumer"])
async def test_killed_coordinator_leaves_the_member_ready(
    kafka3: OwnCluster, topic3: Callable[..., str], stack: AsyncExitStack, protocol: str
) -> None:
    group = f"health-{uuid.uuid4().hex[:12]}"
    consumer = AIOKafkaConsumer(
        topic3(3),
        bootstrap_servers=kafka3.bootstrap_servers,
        group_id=group,
        group_protocol=protocol,
    )
    await stack.enter_async_context(consumer)
    await until(lambda: verdict(consumer.health()) == (S.STABLE, True, True))
    node = consumer._core.cluster.coordinators.get(CoordinatorKind.GROUP, group)
    assert node is not None
    await asyncio.to_thread(kafka3.kill, node)
    try:
        before = consumer.metrics()["heartbeat-total"] or 0

        def beats() -> bool:
            assert consumer.health().ready, consumer.health()
            return (consumer.metrics()["heartbeat-total"] or 0) > before + 1

        await until(beats, consumer)
        await until(lambda: consumer.health().state is S.STABLE, consumer)
    finally:
        await asyncio.to_thread(kafka3.start, node)


@pytest.mark.long
async def test_dead_cluster_makes_clients_unready_but_leaves_them_alive(
    stack: AsyncExitStack,
) -> None:
    with KafkaCluster(heap="256m") as kafka:
        kafka.create_topic("orders", 2)
        servers = kafka.bootstrap_servers
        clients: list[Any] = [
            AIOKafkaConsumer("orders", bootstrap_servers=servers, group_id="g"),
            AIOKafkaProducer(bootstrap_servers=servers),
            AIOKafkaShareConsumer("orders", bootstrap_servers=servers, group_id="s"),
        ]
        for client in clients:
            await stack.enter_async_context(client)

        def all_are(*expected: object) -> Callable[[], bool]:
            return lambda: all(verdict(client.health()) == expected for client in clients)

        await until(all_are(S.STABLE, True, True), *clients)
        (node,) = kafka.node_ids
        await asyncio.to_thread(kafka.kill, node)
        await until(all_are(S.RECONNECTING, False, True), *clients)
        await asyncio.to_thread(kafka.start, node)
        await until(all_are(S.STABLE, True, True), *clients)
        await asyncio.to_thread(kafka.pause, node)
        # The producer is idle: it detects this only with a request.
        asking = asyncio.ensure_future(clients[1].client.ping(60))
        await until(all_are(S.RECONNECTING, False, True), *clients)
        await asyncio.to_thread(kafka.resume, node)
        await asking
        await until(all_are(S.STABLE, True, True), *clients)
        for client in clients:
            await client.stop()


async def test_fenced_clients_are_not_alive(
    kafka: Any, topic: Callable[..., str], stack: AsyncExitStack
) -> None:
    name = uuid.uuid4().hex[:12]
    servers, subject = kafka.bootstrap_servers, topic()

    async def member() -> AIOKafkaConsumer:
        return await stack.enter_async_context(
            AIOKafkaConsumer(
                subject,
                bootstrap_servers=servers,
                group_id=name,
                group_instance_id="one",
                heartbeat_interval_ms=200,
            )
        )

    async def producer() -> AIOKafkaProducer:
        made = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        return await stack.enter_async_context(made)

    first = await member()
    await until(lambda: first.health().ready, first)
    await member()
    await until(lambda: not first.health().alive)
    assert verdict(first.health()) == (S.FAILED, False, False)
    assert isinstance(first.health().last_error, FencedInstanceIdError)

    old = await producer()
    await old.begin_transaction()
    await producer()
    with pytest.raises(KafkaError):
        await old.send_and_wait(subject, b"late")
    with pytest.raises(ProducerFenced):
        await old.abort_transaction()
    assert verdict(old.health()) == (S.FAILED, False, False)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The address of a broker that checks ACLs."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaCluster(config=config, heap="256m") as cluster:
        cluster.create_topic("orders", 1)
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_lost_right_to_the_group_leaves_the_member_alive(
    guarded: str, stack: AsyncExitStack, protocol: str
) -> None:
    group = f"{protocol}-group"
    options: dict[str, Any] = {}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 200
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=guarded,
        group_id=group,
        group_protocol=protocol,
        enable_auto_commit=False,
        **options,
    )
    await stack.enter_async_context(consumer)
    await until(lambda: verdict(consumer.health()) == (S.STABLE, True, True), consumer)
    deny = AclCreation(3, group, 3, "User:*", "*", 3, 2)  # of a group, literally: READ, DENY
    node = consumer.client.get_random_node()
    assert node is not None
    done = await consumer.client.send(node, CreateAclsRequest([deny]))
    assert [result.error_code for result in done.results] == [0]
    # The membership ends before its error reaches the consumer.
    await until(
        lambda: isinstance(consumer.health().last_error, GroupAuthorizationFailedError), consumer
    )
    assert verdict(consumer.health()) == (S.FAILED, False, True)
