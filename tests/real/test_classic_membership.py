"""The classic state machine in groups on a real broker: alone, with others, and with aiokafka."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aiokafka_lite.errors import FencedInstanceIdError, InvalidSessionTimeoutError
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.classic.machine import ClassicState
from aiokafka_lite.group.membership import Lost, RebalanceProtocol, Revoke, TopicLayout
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest
from aiokafka_lite.protocol.versions import versions_of
from aiokafka_lite.structs import TopicPartition
from tests.real.classic_tasks import VERSIONS, RealDriver
from tests.unit.group.classic_drive import COOPERATIVE, EAGER, Spread
from tools.kafka import KafkaCluster, KafkaNotAvailable, RealKafka
from tools.kafka.releases import OLD_RELEASES

PARTITIONS = 6
SHORT = 6.0
"""Seconds of the session of a member that dies, or whose session has to be shorter than something.
Others may last longer than a process is not scheduled."""

both = pytest.mark.parametrize("protocols", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])


class Group:
    """Drivers of one group, and their expected state."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.group_id = f"classic-{uuid.uuid4().hex[:12]}"
        self.layouts = {"t": TopicLayout(PARTITIONS)}
        self.drivers: list[RealDriver] = []

    def add(
        self,
        protocols: frozenset[RebalanceProtocol] = EAGER,
        assignor: LeadingAssignor | None = None,
        **options: Any,
    ) -> RealDriver:
        options.setdefault("session_timeout", 30.0)
        name = "cooperative" if protocols == COOPERATIVE else "spread"
        assignor = assignor or Spread(name, protocols)
        driver = RealDriver(self.address, self.group_id, assignor, self.layouts, **options)
        self.drivers.append(driver)
        return driver

    async def until(self, holds: Callable[[], bool], seconds: float = 40.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            states = [(each.machine.state, sorted(each.held)) for each in self.drivers]
            raise AssertionError(f"not in time: {states}") from None

    async def until_stable(self, *drivers: RealDriver) -> None:
        await self.until(
            lambda: (
                all(driver.stable for driver in drivers)
                and sum(len(driver.held) for driver in drivers) == PARTITIONS
                and len(frozenset().union(*(driver.held for driver in drivers))) == PARTITIONS
            )
        )


@pytest.fixture
async def group(kafka: RealKafka) -> AsyncIterator[Group]:
    group = Group(kafka.bootstrap_servers.split(",")[0])
    yield group
    for driver in group.drivers:
        await driver.die()


@pytest.fixture(scope="module", params=OLD_RELEASES)
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        with KafkaCluster(request.param) as cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


@pytest.mark.brokers
@pytest.mark.timeout(600)
async def test_membership_on_old_brokers(old: KafkaCluster) -> None:
    if old.release.number < (0, 9):
        pytest.skip("groups have no coordinator before 0.9")
    spoken = versions_of(old.release.version)
    kinds = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
    versions = {kind.name: spoken.pick(kind) for kind in kinds}
    group = Group(old.bootstrap_servers.split(",")[0])
    first = group.add(versions=versions)
    await group.until(lambda: first.stable, 90)  # the offsets topic is created first
    second = group.add(versions=versions, session_timeout=SHORT)
    await group.until_stable(first, second)
    await first.cut()
    await first.close()
    await group.until_stable(second)
    third = group.add(versions=versions)
    await group.until_stable(second, third)
    await second.die()
    await group.until_stable(third)
    await third.close()


@both
async def test_members_come_and_go(group: Group, protocols: frozenset[RebalanceProtocol]) -> None:
    first = group.add(protocols)
    await group.until_stable(first)
    second = group.add(protocols, session_timeout=SHORT)
    await group.until_stable(first, second)
    third = group.add(protocols)
    await group.until_stable(first, second, third)
    await first.close()
    await group.until_stable(second, third)
    await second.die()
    await group.until_stable(third)
    assert not any(isinstance(step, Lost) for driver in group.drivers for step in driver.steps)


@both
async def test_broken_connections_keep_the_membership(
    group: Group, protocols: frozenset[RebalanceProtocol]
) -> None:
    first, second = group.add(protocols), group.add(protocols)
    await group.until_stable(first, second)
    rebalances = first.machine.counters.rebalances
    for _ in range(5):
        await first.cut()
        await asyncio.sleep(0.5)
    await group.until_stable(first, second)
    assert first.machine.counters.rebalances == rebalances
    await group.until(lambda: first.machine.counters.heartbeats > 3)


@pytest.mark.parametrize("oldest", [0, 1, 3, 4, 6])
async def test_older_request_versions(group: Group, oldest: int) -> None:
    """Kafka 4 dropped JoinGroup v0 and v1, so v2 is the oldest."""
    versions = {
        "JoinGroup": max(2, min(oldest + 2, 9)),
        "SyncGroup": min(oldest, 5),
        "Heartbeat": min(oldest, 4),
        "LeaveGroup": min(oldest, 5),
    }
    first, second = group.add(versions=versions), group.add(versions=VERSIONS)
    await group.until_stable(first, second)
    await first.close()
    await group.until_stable(second)


async def test_rebalance_waits_for_a_slow_listener(group: Group) -> None:
    first = group.add(rebalance_timeout=60.0, session_timeout=SHORT)
    await group.until_stable(first)
    first.listener_time = SHORT + 2.0
    second = group.add(rebalance_timeout=60.0)
    await group.until_stable(first, second)
    assert not any(isinstance(step, Lost) for step in first.steps)


async def test_static_member_restart_causes_no_rebalance(group: Group) -> None:
    first = group.add(group_instance_id="a", session_timeout=30.0)
    second = group.add(group_instance_id="b", session_timeout=30.0)
    await group.until_stable(first, second)
    held, rebalances = first.held, second.machine.counters.rebalances
    await first.close()
    again = group.add(group_instance_id="a", session_timeout=30.0)
    await group.until_stable(again, second)
    assert again.held == held
    assert second.machine.counters.rebalances == rebalances


async def test_restarted_static_leader_still_watches_partitions(group: Group) -> None:
    """KIP-814: it computes no assignment, but detects added partitions."""
    first = group.add(group_instance_id="a", session_timeout=30.0)
    await group.until_stable(first)
    await first.close()
    again = group.add(group_instance_id="a", session_timeout=30.0)
    await group.until_stable(again)
    more = {"t": TopicLayout(PARTITIONS + 2)}
    again._layouts = more
    again.machine.on_metadata(more, again.now)
    again.wake()
    await group.until(lambda: len(again.held) == PARTITIONS + 2)


async def test_static_member_can_leave_for_good(group: Group) -> None:
    first = group.add(group_instance_id="a", session_timeout=300.0)
    second = group.add(group_instance_id="b", session_timeout=300.0)
    await group.until_stable(first, second)
    await first.close(stay=False)
    await group.until_stable(second)


async def test_second_member_of_an_instance_id_fences_the_first(group: Group) -> None:
    first = group.add(group_instance_id="a")
    await group.until_stable(first)
    second = group.add(group_instance_id="a")
    await group.until(lambda: bool(first.failures))
    assert first.machine.state is ClassicState.FENCED
    assert [type(error) for error in first.failures] == [FencedInstanceIdError]
    await group.until(lambda: not first.held)
    await group.until_stable(second)


async def test_session_timeout_out_of_range_raises(group: Group) -> None:
    member = group.add(session_timeout=0.5, heartbeat_interval=0.1)
    await group.until(lambda: bool(member.failures))
    assert [type(error) for error in member.failures] == [InvalidSessionTimeoutError]


async def test_member_that_does_not_poll_leaves_until_it_polls(group: Group) -> None:
    lazy, other = group.add(max_poll_interval=2.0), group.add()
    lazy.machine.on_poll(lazy.now, waiting=True)
    await group.until_stable(lazy, other)
    lazy.machine.on_poll(lazy.now)
    lazy.wake()
    await group.until(lambda: lazy.machine.state is ClassicState.IDLE)
    await group.until_stable(other)
    lazy.machine.on_poll(lazy.now, waiting=True)
    lazy.wake()
    await group.until_stable(lazy, other)


async def test_unsubscribing_and_subscribing(group: Group) -> None:
    first, second = group.add(), group.add()
    await group.until_stable(first, second)
    first.machine.leave("unsubscribed", first.now)
    first.wake()
    await group.until_stable(second)
    first.machine.on_subscription({"t"}, first.now)
    first.wake()
    await group.until_stable(first, second)


async def test_group_shared_with_aiokafka(group: Group, kafka: RealKafka) -> None:
    """Both use the range assignor, and either can lead."""
    aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")
    strategy = pytest.importorskip("aiokafka.coordinator.assignors.range").RangePartitionAssignor
    topic = f"classic-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(topic, PARTITIONS)
    group.layouts = {topic: TopicLayout(PARTITIONS)}
    theirs = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group.group_id,
        partition_assignment_strategy=[strategy],
        session_timeout_ms=30_000,
        heartbeat_interval_ms=300,
    )

    def shared() -> bool:
        held = {tuple(tp) for tp in theirs.assignment()}
        mine = [driver.held for driver in group.drivers if driver.stable]
        every = held.union(*({tuple(tp) for tp in share} for share in mine))
        return len(mine) == len([d for d in group.drivers if not d.machine.closed]) and len(
            every
        ) == PARTITIONS == len(held) + sum(map(len, mine))

    ours = group.add(assignor=RangeAssignor())
    await group.until(lambda: len(ours.held) == PARTITIONS)
    await theirs.start()
    try:
        await group.until(lambda: len(ours.held) == 3 and shared())
        another = group.add(assignor=RangeAssignor())
        await group.until(lambda: len(another.held) == 2 and shared())
        await ours.close()
        group.drivers.remove(ours)
        await group.until(lambda: len(another.held) == 3 and shared())
    finally:
        await theirs.stop()
    await group.until(lambda: len(another.held) == PARTITIONS)
    assert any(isinstance(step, Revoke) and step.partitions for step in another.steps)
    assert TopicPartition(topic, 0) in another.held
