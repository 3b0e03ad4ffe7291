"""The driver with both machines, on the embedded broker: members join and leave, brokers fail."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.group.crew import Crew, CrewMember, until

pytestmark = pytest.mark.unhurried

CONFIGS = {
    "group.initial.rebalance.delay.ms": 50,
    "group.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
}

JOINS = {False: ApiKey.JOIN_GROUP, True: ApiKey.CONSUMER_GROUP_HEARTBEAT}


@pytest.fixture
async def embedded() -> AsyncIterator[FakeCluster]:
    topics = {"t": 6, "u": 2}
    async with FakeCluster(brokers=3, topics=topics, broker_configs=CONFIGS) as cluster:
        cluster.move_coordinator("g", 0)
        yield cluster


@pytest.fixture(params=[False, True], ids=["classic", "modern"])
def modern(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def crew(embedded: FakeCluster, modern: bool) -> AsyncIterator[Crew]:
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=modern)
    yield crew
    await crew.end()


def losses(crew: Crew) -> list[str]:
    return [what for member in crew.members for what, _ in member.log if what == "lost"]


# --- members


async def test_members_come_and_go(crew: Crew) -> None:
    first = await crew.add()
    await crew.until_settled()
    assert first.log[-1] == ("assign", first.held)
    second = await crew.add()
    await crew.until_settled()
    await first.stop()
    assert first.machine.closed
    assert not first.held
    await crew.until_settled()
    assert len(second.held) == 6
    assert not losses(crew)


async def test_a_dead_member_is_replaced_when_its_session_ends(crew: Crew) -> None:
    first, second = await crew.add(session_timeout=1.0), await crew.add(session_timeout=1.0)
    await crew.until_settled()
    await first.die()
    await crew.until_settled()
    assert len(second.held) == 6


async def test_unsubscribe_and_subscribe_again(crew: Crew) -> None:
    first, second = await crew.add(), await crew.add()
    await crew.until_settled()
    assert await first.driver.leave("unsubscribed", asyncio.get_running_loop().time() + 10)
    assert not first.held
    assert not first.machine.leaving
    await until(lambda: len(second.held) == 6, lambda: crew.members)
    first.subscribe("t")
    await crew.until_settled()
    assert len(first.held) == 3
    assert not losses(crew)


async def test_another_subscription(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    member.subscribe("u")
    await until(lambda: {tp.topic for tp in member.held} == {"u"}, lambda: member)
    assert len(member.held) == 2


async def test_a_topic_that_grows(crew: Crew, embedded: FakeCluster) -> None:
    first = await crew.add()
    second = await crew.add()
    await crew.until_settled()
    embedded.add_partitions("t", 8)
    for member in (first, second):
        member.cluster.request_update()  # as its age would
    crew.partitions = 8
    await crew.until_settled()


async def test_a_rebalance_on_demand(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    before = (member.machine.generation, member.machine.counters.heartbeats)
    member.driver.rejoin("a test wants it")
    if crew.options["modern"]:
        await until(lambda: member.machine.counters.heartbeats > before[1])
    else:
        await until(lambda: member.machine.generation > before[0], lambda: member)
    await crew.until_settled()


async def test_a_member_that_does_not_poll_leaves_the_group(crew: Crew) -> None:
    lazy, other = await crew.add(max_poll_interval=0.6), await crew.add()
    lazy.driver.poll(waiting=True)
    await crew.until_settled()
    await asyncio.sleep(0.8)
    assert crew.settled  # it waits in a poll
    lazy.driver.poll()
    await until(lambda: len(other.held) == 6, lambda: crew.members)
    assert not lazy.held
    lazy.driver.poll(waiting=True)
    await crew.until_settled()


async def test_the_poll_interval_is_guarded_while_nothing_else_is_timed(crew: Crew) -> None:
    """The heartbeat's interval may be longer than the poll interval."""
    lazy = await crew.add(max_poll_interval=0.5, heartbeat_interval=5.0)
    lazy.driver.poll(waiting=True)
    await crew.until_settled()
    lazy.driver.poll()
    await until(lambda: not lazy.held, lambda: lazy)


async def test_subscribing_while_a_poll_waits_does_not_end_the_wait(crew: Crew) -> None:
    member = await crew.add(max_poll_interval=0.4)
    member.driver.poll(waiting=True)
    member.subscribe("t")
    await crew.until_settled()
    await asyncio.sleep(0.6)
    assert crew.settled


# --- brokers


async def test_connections_that_break_disturb_nothing(crew: Crew, embedded: FakeCluster) -> None:
    for _ in range(3):
        await crew.add()
    await crew.until_settled()
    rebalances = [member.machine.counters.rebalances for member in crew.members]
    for _ in range(5):
        embedded.disconnect()
        await asyncio.sleep(0.15)
    heartbeats = [member.machine.counters.heartbeats for member in crew.members]
    await until(
        lambda: all(
            member.machine.counters.heartbeats > before
            for member, before in zip(crew.members, heartbeats, strict=True)
        )
    )
    await crew.until_settled()
    assert [member.machine.counters.rebalances for member in crew.members] == rebalances
    assert not losses(crew)


async def test_a_heartbeat_that_is_swallowed_costs_no_session(
    crew: Crew, embedded: FakeCluster
) -> None:
    """As on a connection that a firewall has dropped."""
    timeouts = {"request_timeout": 1.0} if crew.options["modern"] else {"session_timeout": 3.0}
    member = await crew.add(**timeouts)
    await crew.until_settled()
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT if crew.options["modern"] else ApiKey.HEARTBEAT
    fault = embedded.control(api, drop=True)
    await fault.struck()
    heartbeats = member.machine.counters.heartbeats
    await until(lambda: member.machine.counters.heartbeats > heartbeats + 2, lambda: member)
    assert crew.settled
    assert not losses(crew)


async def test_a_coordinator_that_moves_disturbs_nothing(crew: Crew, embedded: FakeCluster) -> None:
    for _ in range(2):
        await crew.add()
    await crew.until_settled()
    rebalances = [member.machine.counters.rebalances for member in crew.members]
    for node in (1, 2, 0):
        embedded.move_coordinator("g", node)
        heartbeats = sum(member.machine.counters.heartbeats for member in crew.members)
        await until(
            lambda before=heartbeats: (  # type: ignore[misc]  # bound at once
                sum(member.machine.counters.heartbeats for member in crew.members) > before + 2
            )
        )
    await crew.until_settled()
    assert [member.machine.counters.rebalances for member in crew.members] == rebalances
    assert not losses(crew)


async def test_the_coordinator_is_killed_again_and_again(crew: Crew, embedded: FakeCluster) -> None:
    for _ in range(3):
        await crew.add()
    await crew.until_settled()
    for node in (0, 1, 2):
        embedded.kill(node)
        await asyncio.sleep(0.3)
        await crew.until_settled()
        await embedded.restart(node)
    await crew.add()
    await crew.until_settled()
    assert not losses(crew)


async def test_a_coordinator_that_falls_silent_is_left(modern: bool) -> None:
    """It is connected, but never responds: another broker takes over meanwhile."""
    configs = {**CONFIGS, "group.consumer.session.timeout.ms": 15_000}
    patient = {"modern": modern, "request_timeout": 1.0, "session_timeout": 15.0}
    async with FakeCluster(brokers=3, topics={"t": 6}, broker_configs=configs) as embedded:
        embedded.move_coordinator("g", 0)
        crew = Crew(embedded.bootstrap_servers, "g", "t", 6, **patient)
        try:
            member = await crew.add()
            await crew.until_settled()
            embedded.pause(0)
            embedded.move_coordinator("g", 1)
            heartbeats = member.machine.counters.heartbeats
            await until(lambda: member.machine.counters.heartbeats > heartbeats + 2, lambda: member)
            assert not losses(crew)
            embedded.resume(0)
            await crew.until_settled()
        finally:
            await crew.end()


async def test_a_member_joins_once_the_coordinator_is_available(
    crew: Crew, embedded: FakeCluster
) -> None:
    embedded.control(ApiKey.FIND_COORDINATOR, times=5, error=15)
    await crew.add()
    await crew.until_settled()


@pytest.mark.parametrize("error", [14, 15, 16, -1])
async def test_a_member_joins_after_errors(crew: Crew, embedded: FakeCluster, error: int) -> None:
    embedded.control(JOINS[crew.options["modern"]], times=3, error=error)
    embedded.control(ApiKey.SYNC_GROUP, times=2, error=14)
    if error == -1:
        member = await crew.add()
        for failures in (1, 2, 3):  # it is not expected to pass by itself
            await until(lambda count=failures: len(member.failures) == count)  # type: ignore[misc]
            member.driver.retry()
    else:
        await crew.add()
    await crew.until_settled()


@pytest.mark.parametrize("strike", ["drop", "cut", "damage"])
async def test_a_member_joins_once_after_a_lost_request_or_response(
    crew: Crew, embedded: FakeCluster, strike: str
) -> None:
    """The join or its response is lost: at the end the member is in the group once."""
    fault = {
        "drop": {"drop": True},
        "cut": {"disconnect": True, "after_handling": True},
        "damage": {"disconnect": 10, "after_handling": True},
    }[strike]
    embedded.control(JOINS[crew.options["modern"]], times=1, **fault)  # type: ignore[arg-type]
    if strike != "drop":  # a SyncGroup has the long timeout of a JoinGroup
        embedded.control(ApiKey.SYNC_GROUP, times=1, **fault)  # type: ignore[arg-type]
    await crew.add(request_timeout=0.6, rebalance_timeout=0.6, session_timeout=1.0)
    await crew.until_settled()


async def test_the_cluster_is_not_there_at_first(embedded: FakeCluster, modern: bool) -> None:
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=modern)
    try:
        member = await crew.add()
        for node in range(3):
            embedded.kill(node)
        await asyncio.sleep(0.5)
        assert not member.failures
        for node in range(3):
            await embedded.restart(node)
        await crew.until_settled()
    finally:
        await crew.end()


@pytest.mark.parametrize("version", ["0.9", "0.10.1", "0.11", "1.0", "2.3", "2.8", "4.0"])
async def test_members_join_and_leave_with_old_brokers(version: str) -> None:
    configs = {name: value for name, value in CONFIGS.items() if "consumer" not in name}
    async with FakeCluster(topics={"t": 6}, version=version, broker_configs=configs) as embedded:
        crew = Crew(embedded.bootstrap_servers, "g", "t", 6)
        try:
            first = await crew.add()
            await crew.until_settled()
            await crew.add()
            await crew.until_settled()
            await first.stop()
            await crew.until_settled()
        finally:
            await crew.end()


# --- lasting errors


async def test_a_cluster_that_lacks_the_protocol(modern: bool) -> None:
    lacks = {JOINS[modern]: None}
    async with FakeCluster(topics={"t": 6}, api_versions=lacks, broker_configs=CONFIGS) as embedded:
        member = await CrewMember(embedded.bootstrap_servers, "g", modern=modern).start("t")
        try:
            await until(lambda: bool(member.failures), lambda: member)
            assert "UnsupportedVersionError" in repr(member.failures[0])
            await member.stop()
            assert member.machine.closed
        finally:
            await member.die()


async def test_a_group_that_may_not_be_read_yet(modern: bool) -> None:
    async with FakeCluster(
        topics={"t": 6},
        broker_configs=CONFIGS,
        super_users=["User:ANONYMOUS"],
    ) as embedded:
        fault = embedded.control(JOINS[modern], times=None, error=30)
        member = await CrewMember(embedded.bootstrap_servers, "g", modern=modern).start("t")
        try:
            await until(lambda: len(member.failures) == 1, lambda: member)
            assert type(member.failures[0]).__name__ == "GroupAuthorizationFailedError"
            member.driver.retry()
            await until(lambda: len(member.failures) == 2, lambda: member)
            await asyncio.sleep(0.2)
            assert len(member.failures) == 2
            fault.remove()
            member.driver.retry()
            await until(lambda: len(member.held) == 6, lambda: member)
        finally:
            await member.die()


async def test_an_unauthorized_coordinator_lookup_fails(crew: Crew, embedded: FakeCluster) -> None:
    fault = embedded.control(ApiKey.FIND_COORDINATOR, times=None, error=30)
    member = await crew.add()
    await until(lambda: bool(member.failures), lambda: member)
    fault.remove()
    member.driver.retry()
    await crew.until_settled()
