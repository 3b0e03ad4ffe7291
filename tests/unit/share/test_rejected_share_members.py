"""Share members whose brokers temporarily reject their credentials keep their membership.

Source: AbstractHeartbeatRequestManager of Kafka's Java client, where a failed authentication is
fatal: its member never recovers. This client raises the error from a read, as Java's classic
consumer does, and continues its heartbeats; the coordinator decides when its session ends.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaShareConsumer, ShareRecord
from aiokafka_lite.errors import AuthenticationFailedError, KafkaError, SaslAuthenticationFailed
from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.structs import HealthState
from aiokafka_lite.testing import ApiKey, FakeCluster, VirtualClock
from aiokafka_lite.testing.control import Fault
from tests.seeds import seeds

BROKERS = 3
PATIENCE = 60.0

Consumer = AIOKafkaShareConsumer[Any, Any]


@asynccontextmanager
async def member(**options: Any) -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    """Three brokers: 0 coordinates the group, 1 and 2 lead the partitions of "jobs"."""
    topics = {"jobs": 2}
    configs = {f"group.share.{least}heartbeat.interval.ms": 200 for least in ("", "min.")}
    async with FakeCluster(
        BROKERS,
        topics,
        users={"alice": "secret"},
        clock=VirtualClock(),  # sessions and locks do not expire
        broker_configs=configs,
    ) as cluster:
        cluster.configure_group("workers", {"share.auto.offset.reset": "earliest"})
        cluster.move_coordinator("workers", 0)
        for number in range(2):
            cluster.move_leader("jobs", number, number + 1)
        defaults: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "workers",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "secret",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "retry_backoff_max_ms": 100,
            "reconnect_backoff_max_ms": 100,
        }
        async with (
            AIOKafkaShareConsumer("jobs", **{**defaults, **options}) as consumer,
            asyncio.timeout(PATIENCE),
        ):
            yield cluster, consumer


def reject(cluster: FakeCluster, node_id: int) -> Fault:
    """Make a broker reject its clients' credentials until the fault is removed."""
    fault = cluster.control(
        ApiKey.SASL_AUTHENTICATE, node=node_id, times=None, error=SaslAuthenticationFailed
    )
    cluster.disconnect(node_id)
    return fault


def place(consumer: Consumer) -> CommitIdentity | None:
    """The member id and the epoch, which another assignment would raise."""
    return consumer._core.group.driver.membership.commit_identity()


async def read_on(consumer: Consumer) -> ShareRecord[Any, Any]:
    """Read a record as an application that continues after a failed authentication."""
    while True:
        try:
            return await consumer.getone()
        except AuthenticationFailedError:
            await asyncio.sleep(0.01)


async def is_stable(consumer: Consumer) -> None:
    while consumer.health().state is not HealthState.STABLE:
        await asyncio.sleep(0.01)
    assert consumer.health().last_error is None


async def test_share_member_keeps_its_place_while_the_coordinator_rejects_it() -> None:
    async with member() as (cluster, consumer):
        cluster.produce("jobs", b"held", partition=0)
        held = await consumer.getone()
        before = place(consumer)
        counters = consumer._core.group.driver.membership.counters
        rebalances, beats = counters.rebalances, counters.heartbeats
        rejection = reject(cluster, 0)
        with pytest.raises(AuthenticationFailedError):
            await consumer.getone()
        assert len(consumer.assignment()) == 2
        # The leaders are unaffected: the lock lasts, and records arrive.
        assert await held.accept() is None
        cluster.produce("jobs", b"meanwhile", partition=1)
        record = await read_on(consumer)
        assert (record.value, record.delivery_count) == (b"meanwhile", 1)
        rejection.remove()
        while counters.heartbeats == beats:
            await asyncio.sleep(0.01)
        assert await record.accept() is None
        cluster.produce("jobs", b"after", partition=0)
        record = await read_on(consumer)
        assert (record.value, record.delivery_count) == (b"after", 1)
        assert await record.accept() is None
        assert place(consumer) == before
        assert (counters.rebalances, counters.lost) == (rebalances, 0)
        await is_stable(consumer)


async def test_share_member_leaves_a_rejecting_broker_for_the_new_coordinator() -> None:
    async with member() as (cluster, consumer):
        before = place(consumer)
        beats = consumer._core.group.driver.membership.counters.heartbeats
        reject(cluster, 0)
        with pytest.raises(AuthenticationFailedError):
            await consumer.getone()
        cluster.move_coordinator("workers", 1)  # the old one still rejects the client
        reading = asyncio.create_task(read_on(consumer))
        while consumer._core.group.driver.membership.counters.heartbeats == beats:
            await asyncio.sleep(0.01)
        cluster.produce("jobs", b"v", partition=0)
        assert (await reading).delivery_count == 1
        assert place(consumer) == before


async def test_records_of_a_leader_that_rejects_the_member_come_again() -> None:
    async with member() as (cluster, consumer):
        for value in (b"a", b"b"):
            cluster.produce("jobs", value, partition=0)
        held = await consumer.getmany(timeout_ms=PATIENCE * 1000)
        before = place(consumer)
        rejection = reject(cluster, 1)
        with pytest.raises(KafkaError):
            await held[0].accept()  # the broker released it with the connection
        with pytest.raises(AuthenticationFailedError):
            await consumer.getone()
        cluster.produce("jobs", b"elsewhere", partition=1)
        record = await read_on(consumer)  # the other leader's partition
        assert record.value == b"elsewhere"
        assert await record.accept() is None
        rejection.remove()
        again: dict[bytes, int] = {}
        while len(again) < 2:
            record = await read_on(consumer)
            again[record.value] = record.delivery_count
            assert await record.accept() is None
        assert again == {b"a": 2, b"b": 2}
        assert place(consumer) == before
        await is_stable(consumer)


@pytest.mark.parametrize("node_id", [0, 1])
async def test_run_raises_a_failed_authentication_and_can_be_called_again(node_id: int) -> None:
    async with member() as (cluster, consumer):
        seen: list[bytes] = []

        async def handle(record: ShareRecord[Any, Any]) -> None:
            seen.append(record.value)

        before = place(consumer)
        running = asyncio.create_task(consumer.run(handle))
        rejection = reject(cluster, node_id)
        with pytest.raises(AuthenticationFailedError):
            await running
        assert place(consumer) == before
        rejection.remove()
        cluster.produce("jobs", b"v", partition=0)
        while not seen:
            try:
                running = asyncio.create_task(consumer.run(handle))
                while not seen and not running.done():
                    await asyncio.sleep(0.01)
                if seen:
                    await consumer.stop()
                await running
            except AuthenticationFailedError:
                await asyncio.sleep(0.01)  # reported before the broker accepted the client again
        view = cluster.share_group("workers")
        assert not view.acquired
        assert seen == [b"v"]


@pytest.mark.parametrize("seed", seeds(2))
async def test_share_members_recover_from_random_rejections(seed: int) -> None:
    """Brokers reject the client for random periods while the coordinator moves: every record is
    accepted."""
    chance = random.Random(seed)
    async with member() as (cluster, consumer):
        accepted: set[bytes] = set()

        async def work() -> None:
            while True:
                record = await read_on(consumer)
                try:
                    await record.accept()
                    accepted.add(record.value)
                except KafkaError:
                    continue  # its leader rejected the client meanwhile: the record is redelivered

        working = asyncio.create_task(work())
        driver = consumer._core.group.driver
        sent = 0
        for _ in range(4):
            faults = [reject(cluster, chance.randrange(BROKERS)) for _ in range(2)]
            for _ in range(3):
                cluster.produce("jobs", b"%d" % sent, partition=chance.randrange(2))
                sent += 1
                if chance.random() < 0.5:
                    cluster.move_coordinator("workers", chance.randrange(BROKERS))
                await asyncio.sleep(chance.choice([0.02, 0.2]))
            for fault in faults:
                fault.remove()
            cluster.produce("jobs", b"%d" % sent, partition=chance.randrange(2))
            sent += 1
            while len(accepted) < sent or not driver.coordinator_known:
                assert not working.done(), working.exception()
                await asyncio.sleep(0.01)
        working.cancel()
