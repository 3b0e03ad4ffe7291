"""Members whose coordinator rejects their credentials follow the group to another broker."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka_lite.errors import AuthenticationFailedError, SaslAuthenticationFailed
from aiokafka_lite.structs import HealthState
from aiokafka_lite.testing import ApiKey, FakeCluster
from aiokafka_lite.testing.control import Fault

pytestmark = pytest.mark.unhurried

BROKERS = 3
PARTITION = TopicPartition("orders", 0)

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def options(cluster: FakeCluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }


@asynccontextmanager
async def guarded() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(BROKERS, {"orders": BROKERS}, users={"alice": "secret"}) as cluster:
        cluster.move_coordinator("g", 0)
        cluster.move_leader("orders", 0, 2)
        yield cluster


def reject(cluster: FakeCluster, node_id: int) -> Fault:
    """Make a broker reject its clients' credentials until the fault is removed."""
    return cluster.control(
        ApiKey.SASL_AUTHENTICATE, node=node_id, times=None, error=SaslAuthenticationFailed
    )


@PROTOCOLS
async def test_member_leaves_a_rejecting_broker_for_the_new_coordinator(protocol: str) -> None:
    # The session must not expire during the test. In the consumer protocol, the broker sets it.
    sessions: dict[str, Any] = {"session_timeout_ms": 120_000} if protocol == "classic" else {}
    async with (
        guarded() as cluster,
        AIOKafkaConsumer(
            "orders",
            group_id="g",
            group_protocol=protocol,
            **sessions,
            **options(cluster),
        ) as consumer,
        AIOKafkaProducer(**options(cluster)) as producer,
        asyncio.timeout(90),
    ):
        reject(cluster, 0)
        cluster.disconnect(0)
        with pytest.raises(AuthenticationFailedError):
            await consumer.getone()
        cluster.move_coordinator("g", 1)  # the old one still rejects the client
        reading = asyncio.create_task(read_on(consumer, 1))
        while not reading.done():
            await producer.send_and_wait("orders", b"v", partition=0)
            await asyncio.sleep(0.02)
        while len(consumer.assignment()) < BROKERS:
            await asyncio.sleep(0.02)


@PROTOCOLS
async def test_member_keeps_its_place_while_the_coordinator_rejects_it(protocol: str) -> None:
    """As in Java's classic consumer: the application continues to read, and nothing rebalances."""
    async with (
        guarded() as cluster,
        AIOKafkaConsumer(
            "orders", group_id="g", group_protocol=protocol, **options(cluster)
        ) as consumer,
        AIOKafkaProducer(**options(cluster)) as producer,
        asyncio.timeout(60),
    ):
        assert consumer._core.group is not None
        driver = consumer._core.group.driver
        membership = driver.membership
        while membership.state.name != "STABLE" or len(consumer.assignment()) < BROKERS:
            await asyncio.sleep(0.02)
        before = membership.commit_identity()
        rebalances, beats = membership.counters.rebalances, membership.counters.heartbeats
        rejection = reject(cluster, 0)
        cluster.disconnect(0)
        with pytest.raises(AuthenticationFailedError):
            await consumer.getone()
        assert len(consumer.assignment()) == BROKERS
        rejection.remove()
        while membership.counters.heartbeats == beats:
            await asyncio.sleep(0.02)
        assert membership.commit_identity() == before
        reading = asyncio.create_task(read_on(consumer, 1))
        while not reading.done():
            await producer.send_and_wait("orders", b"v", partition=0)
            await asyncio.sleep(0.02)
        await consumer.commit()
        assert membership.commit_identity() == before
        assert membership.counters.rebalances == rebalances
        assert membership.counters.lost == 0
        while (health := consumer.health()).state is not HealthState.STABLE:
            await asyncio.sleep(0.02)
        assert health.last_error is None


async def read_on(consumer: AIOKafkaConsumer, count: int) -> None:
    """Read records as an application that continues after a failed authentication."""
    while count:
        try:
            await consumer.getone()
            count -= 1
        except AuthenticationFailedError:
            await asyncio.sleep(0.02)


async def test_commit_without_a_membership_follows_the_coordinator() -> None:
    async with (
        guarded() as cluster,
        AIOKafkaConsumer(group_id="g", enable_auto_commit=False, **options(cluster)) as consumer,
        asyncio.timeout(60),
    ):
        consumer.assign([PARTITION])
        await consumer.commit({PARTITION: OffsetAndMetadata(1, "")})
        reject(cluster, 0)
        cluster.disconnect(0)
        with pytest.raises(AuthenticationFailedError):
            await consumer.commit({PARTITION: OffsetAndMetadata(2, "")})
        cluster.move_coordinator("g", 1)
        while cluster.committed("g") != {PARTITION: 3}:
            try:
                await consumer.commit({PARTITION: OffsetAndMetadata(3, "")})
            except AuthenticationFailedError:
                await asyncio.sleep(0.02)  # the lookup was sent to the rejecting broker


@PROTOCOLS
@pytest.mark.parametrize("seed", range(2))
async def test_members_recover_soon_after_random_rejections(protocol: str, seed: int) -> None:
    """Brokers reject the client for random periods while the coordinator moves."""
    chance = random.Random(seed)
    nodes = range(BROKERS)
    async with (
        guarded() as cluster,
        AIOKafkaConsumer(
            "orders",
            group_id="g",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            **options(cluster),
        ) as consumer,
        AIOKafkaProducer(**options(cluster)) as producer,
    ):
        read: list[int] = [0] * BROKERS

        async def read_all() -> None:
            while True:
                try:
                    record = await consumer.getone()
                    read[record.partition] += 1
                except AuthenticationFailedError:
                    await asyncio.sleep(0.02)

        reading = asyncio.create_task(read_all())
        assert consumer._core.group is not None
        driver = consumer._core.group.driver
        for _ in range(3):
            faults = []
            for _ in range(chance.randint(1, 2)):
                node_id = chance.choice(nodes)
                faults.append(reject(cluster, node_id))
                if chance.random() < 0.7:
                    cluster.disconnect(node_id)
                for _ in range(2):
                    if chance.random() < 0.5:
                        cluster.move_coordinator("g", chance.choice(nodes))
                    await asyncio.sleep(chance.choice([0.02, 0.2, 0.6]))
            for fault in faults:
                fault.remove()
            marks = [count + 1 for count in read]
            # The reconnect backoff is at most 1.2 s; a session lasts 45 s.
            async with asyncio.timeout(30):
                for partition in nodes:
                    await producer.send_and_wait("orders", b"v", partition=partition)
                while (
                    any(count < mark for count, mark in zip(read, marks, strict=True))
                    or driver.membership.state.name != "STABLE"
                    or not driver.coordinator_known
                ):
                    assert not reading.done(), reading.exception()
                    await asyncio.sleep(0.01)
        reading.cancel()
