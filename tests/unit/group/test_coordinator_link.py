"""The link to the coordinator: connections, versions, timeouts, and which broker it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from aiokafka_lite.group.coordinator_link import CoordinatorLink
from aiokafka_lite.group.membership import Send
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.group.crew import CrewMember, until
from tests.unit.group.test_membership_driver import CONFIGS

pytestmark = pytest.mark.unhurried


@pytest.fixture
async def embedded() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(brokers=3, topics={"t": 6}, broker_configs=CONFIGS) as embedded:
        embedded.move_coordinator("g", 0)
        yield embedded


@pytest.fixture
async def cluster(embedded: FakeCluster) -> AsyncIterator[Cluster]:
    cluster = Cluster(embedded.bootstrap_servers, ConnectionOptions(), retry_backoff=0.02)
    await cluster.start()
    yield cluster
    await cluster.close(soon())


@pytest.fixture
async def lost_link(cluster: Cluster) -> AsyncIterator[CoordinatorLink]:
    """It has found no coordinator yet."""
    mistakes: list[BaseException] = []
    tasks = TaskOwner("link", lambda name, error: mistakes.append(error))
    link = CoordinatorLink(cluster, "g", tasks.spawn, asyncio.get_running_loop())
    yield link
    link.close()
    assert not await tasks.close(soon())
    assert not mistakes


@pytest.fixture
async def link(lost_link: CoordinatorLink) -> CoordinatorLink:
    await lost_link.find(soon())
    return lost_link


def soon(seconds: float = 10.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def heartbeat(timeout: float = 10.0, oldest: int = 0, *, apart: bool = False) -> Send:
    return Send(
        "Heartbeat",
        HeartbeatRequest,
        lambda version: HeartbeatRequest("g", 1, "nobody"),
        timeout,
        oldest,
        apart,
    )


async def test_a_request_needs_a_known_coordinator(lost_link: CoordinatorLink) -> None:
    with pytest.raises(GroupCoordinatorNotAvailableError):
        await lost_link.ask(heartbeat())


async def test_separate_requests_use_another_connection(
    cluster: Cluster, link: CoordinatorLink
) -> None:
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)
    assert cluster.broker(0).connected(Purpose.GROUP)
    assert not cluster.broker(0).connected(Purpose.COMMIT)
    assert isinstance(await link.ask(heartbeat(apart=True)), HeartbeatResponse)
    assert cluster.broker(0).connected(Purpose.COMMIT)
    assert not link.lost


async def test_a_request_timeout_closes_the_connection(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    """Otherwise the next request would wait behind it."""
    await link.ask(heartbeat())
    connection = cluster.broker(0).connected(Purpose.GROUP)
    assert connection is not None
    embedded.control(ApiKey.HEARTBEAT, drop=True)
    with pytest.raises(KafkaConnectionError):
        await link.ask(heartbeat(0.2))
    assert connection.closed
    assert link.lost
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_connecting_counts_toward_the_request_timeout(
    embedded: FakeCluster, link: CoordinatorLink
) -> None:
    embedded.pause(0)
    began = asyncio.get_running_loop().time()
    with pytest.raises(KafkaConnectionError, match="not connected within"):
        await link.ask(heartbeat(0.3))
    assert asyncio.get_running_loop().time() - began < 5
    embedded.resume(0)
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_a_request_version_that_the_coordinator_lacks_is_refused(
    link: CoordinatorLink,
) -> None:
    with pytest.raises(UnsupportedVersionError, match="Heartbeat"):
        await link.ask(heartbeat(oldest=99))


async def test_requests_to_a_dead_coordinator_fail_as_retriable(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    await link.ask(heartbeat())
    embedded.kill(0)
    await until(lambda: link.lost)
    await cluster.refresh(soon())
    with pytest.raises(KafkaError) as raised:
        await link.ask(heartbeat(1.0))
    assert raised.value.retriable
    await link.find(soon())
    assert not link.lost
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_a_lookup_skips_the_lost_coordinator_and_uses_a_newer_one(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    embedded.move_coordinator("g", 2)
    await link.find(soon())
    assert cluster.coordinators.get(CoordinatorKind.GROUP, "g") == 2
    assert embedded.count(ApiKey.FIND_COORDINATOR) == 2
    # A commit has found the next coordinator first.
    cluster.coordinators.set(CoordinatorKind.GROUP, "g", 1)
    await link.find(soon())
    assert cluster.coordinators.get(CoordinatorKind.GROUP, "g") == 1
    assert embedded.count(ApiKey.FIND_COORDINATOR) == 2


async def test_the_old_coordinator_is_not_waited_for(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    """A join may wait for minutes at a broker that will never respond."""
    fault = embedded.control(ApiKey.HEARTBEAT, drop=True)
    asking = asyncio.create_task(link.ask(heartbeat(60.0)))
    await fault.struck()
    embedded.move_coordinator("g", 1)
    await link.find(soon())
    with pytest.raises(KafkaConnectionError, match="is no longer the coordinator of group g"):
        await asyncio.wait_for(asking, 10)
    assert not link.lost
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_a_silent_coordinator_is_looked_up_at_other_brokers(
    embedded: FakeCluster, link: CoordinatorLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended broker does not respond; other brokers know the new coordinator."""
    monkeypatch.setattr(link._watch, "_interval", 0.2)
    await link.ask(heartbeat())
    searches = embedded.count(ApiKey.FIND_COORDINATOR)
    embedded.control(ApiKey.HEARTBEAT, drop=True)
    asking = asyncio.create_task(link.ask(heartbeat(60.0)))
    await until(lambda: embedded.count(ApiKey.FIND_COORDINATOR) >= searches + 2)
    assert not asking.done()  # it is still the coordinator
    embedded.move_coordinator("g", 1)
    with pytest.raises(KafkaConnectionError, match="is no longer the coordinator of group g"):
        await asyncio.wait_for(asking, 10)
    searches = embedded.count(ApiKey.FIND_COORDINATOR)
    await link.find(soon())
    assert embedded.count(ApiKey.FIND_COORDINATOR) == searches  # the watch has found it
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_a_failed_lookup_does_not_end_a_slow_request(
    embedded: FakeCluster, link: CoordinatorLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link._watch, "_interval", 0.1)
    embedded.control(ApiKey.HEARTBEAT, delay=1.0)
    embedded.control(ApiKey.FIND_COORDINATOR, times=None, error=30)
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)


async def test_a_cancelled_request_leaves_the_connection_open(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    await link.ask(heartbeat())
    fault = embedded.control(ApiKey.HEARTBEAT, delay=0.2)
    asking = asyncio.create_task(link.ask(heartbeat()))
    await fault.struck()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert isinstance(await link.ask(heartbeat()), HeartbeatResponse)
    assert not link.lost


async def test_a_lookup_that_finds_the_same_coordinator_keeps_the_request(
    cluster: Cluster, embedded: FakeCluster, link: CoordinatorLink
) -> None:
    fault = embedded.control(ApiKey.HEARTBEAT, delay=0.3)
    asking = asyncio.create_task(link.ask(heartbeat()))
    await fault.struck()
    await link.find(soon())
    assert isinstance(await asking, HeartbeatResponse)


async def test_a_lookup_without_a_coordinator_times_out(
    lost_link: CoordinatorLink, embedded: FakeCluster
) -> None:
    embedded.control(ApiKey.FIND_COORDINATOR, times=None, error=15)
    with pytest.raises(KafkaTimeoutError, match="Coordinator"):
        await lost_link.find(soon(0.2))


async def test_an_unauthorized_lookup_fails(
    lost_link: CoordinatorLink, embedded: FakeCluster
) -> None:
    embedded.control(ApiKey.FIND_COORDINATOR, error=30)
    with pytest.raises(GroupAuthorizationFailedError):
        await lost_link.find(soon())


@pytest.mark.parametrize("method", ["ask", "find"])
async def test_a_bug_in_the_link_is_reported_and_every_step_gets_its_result(
    embedded: FakeCluster, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The machine gets a result for every Send and every lookup, even after a bug."""
    original = getattr(CoordinatorLink, method)
    mistake = ZeroDivisionError("by mistake")

    async def fail(self: CoordinatorLink, *args: object) -> object:
        monkeypatch.setattr(CoordinatorLink, method, original)
        raise mistake

    monkeypatch.setattr(CoordinatorLink, method, fail)
    member = await CrewMember(embedded.bootstrap_servers, "g").start("t")
    try:
        await until(lambda: bool(member.failures), lambda: member)
        assert "ZeroDivisionError" in str(member.failures[0])
        assert member.mistakes == [mistake]
        member.mistakes.clear()
        member.driver.retry()
        await until(lambda: member.stable, lambda: member)
    finally:
        await member.die()
