"""The leader of a classic group, and the topics that members of both protocols see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.assignors.interface import TopicLayouts
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor
from aiokafka_lite.group.membership import GroupMember
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.group.crew import Crew, CrewMember, until
from tests.unit.group.test_membership_driver import CONFIGS

pytestmark = pytest.mark.unhurried


@pytest.fixture
async def embedded() -> AsyncIterator[FakeCluster]:
    topics = {"t": 6, "u": 2}
    racks = ["r0", "r1", "r2"]
    async with FakeCluster(3, topics, broker_configs=CONFIGS, racks=racks) as cluster:
        yield cluster


@pytest.fixture
async def crew(embedded: FakeCluster) -> AsyncIterator[Crew]:
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6)
    yield crew
    await crew.end()


class Watching(RangeAssignor):
    """Records its calls, and fails on request."""

    def __init__(self) -> None:
        self.asked: list[TopicLayouts] = []
        self.fails: Exception | None = None

    def assign(self, members: Sequence[GroupMember], topics: TopicLayouts) -> dict[str, bytes]:
        self.asked.append(topics)
        if self.fails is not None:
            raise self.fails
        return super().assign(members, topics)


async def add(crew: Crew, *topics: str, **options: Any) -> CrewMember:
    member = CrewMember(crew.bootstrap, crew.group_id, **{**crew.options, **options})
    crew.members.append(member)
    return await member.start(*topics)


async def test_the_leader_follows_the_topics_of_all_members(
    crew: Crew, embedded: FakeCluster
) -> None:
    leader = await add(crew, "t")
    await until(lambda: leader.stable, lambda: leader)
    other = await add(crew, "u")
    await until(lambda: len(other.held) == 2, lambda: crew.members)
    await until(lambda: leader.machine.watched_topics == {"t", "u"}, lambda: leader)
    embedded.add_partitions("u", 4)
    leader.cluster.request_update()  # as its age would; the other one's does not count
    await until(lambda: len(other.held) == 4, lambda: crew.members)


async def test_a_topic_that_is_made_while_the_group_waits_for_it() -> None:
    async with FakeCluster(
        topics={"t": 6}, auto_create_topics=False, broker_configs=CONFIGS
    ) as embedded:
        member = await CrewMember(embedded.bootstrap_servers, "g").start("t", "later")
        try:
            await until(lambda: len(member.held) == 6, lambda: member)
            embedded.create_topic("later", 2)
            await until(lambda: len(member.held) == 8, lambda: member)
        finally:
            await member.die()


async def test_the_assignor_receives_racks_and_topic_ids(crew: Crew, embedded: FakeCluster) -> None:
    assignor = Watching()
    member = await add(crew, "t", assignors=[assignor], client_rack="r1")
    await until(lambda: member.stable, lambda: member)
    layout = assignor.asked[-1]["t"]
    assert layout.partitions == 6
    assert layout.topic_id == embedded.state.topics["t"].topic_id
    assert len(layout.racks) == 6
    assert frozenset().union(*layout.racks) == {"r0", "r1", "r2"}


async def test_a_broker_that_is_down_keeps_its_rack(crew: Crew, embedded: FakeCluster) -> None:
    """Otherwise each restart would rebalance a group whose members report their racks."""
    embedded.move_coordinator("g", 0)
    member = await add(crew, "t", client_rack="r1")
    await until(lambda: member.stable, lambda: member)
    rebalances = member.machine.counters.rebalances
    embedded.kill(2)
    version = member.cluster.request_update()
    await until(lambda: member.cluster.metadata.version > version)
    assert 2 not in member.cluster.metadata.brokers
    await embedded.restart(2)
    await asyncio.sleep(0.5)
    assert member.machine.counters.rebalances == rebalances
    assert not member.machine.rejoin_needed


async def test_the_assignor_chosen_by_the_coordinator_is_used(crew: Crew) -> None:
    both: list[Any] = [Watching(), RoundRobinAssignor()]
    leader = await add(crew, "t", assignors=both)
    await until(lambda: leader.stable, lambda: leader)
    assert len(both[0].asked) == 1
    other = await add(crew, "t", assignors=[RoundRobinAssignor()])
    await crew.until_settled()
    assert len(both[0].asked) == 1
    assert leader.held == {TopicPartition("t", n) for n in (0, 2, 4)} or (
        other.held == {TopicPartition("t", n) for n in (0, 2, 4)}
    )


async def test_an_assignor_exception_is_reported_to_the_application(crew: Crew) -> None:
    assignor = Watching()
    assignor.fails = ZeroDivisionError("by mistake")
    member = await add(crew, "t", assignors=[assignor])
    await until(lambda: bool(member.failures), lambda: member)
    (failure,) = member.failures
    assert type(failure) is KafkaError
    assert "ZeroDivisionError" in str(failure)
    assert failure.__cause__ is assignor.fails
    assignor.fails = None
    member.driver.retry()
    await crew.until_settled()


async def test_a_leader_without_metadata_keeps_waiting(crew: Crew, embedded: FakeCluster) -> None:
    """The leader cannot assign yet; the request stays pending, and the group continues."""
    leader = await add(crew, "t", request_timeout=0.8)
    await until(lambda: leader.stable, lambda: leader)
    fault = embedded.control(
        ApiKey.METADATA,
        times=None,
        when=lambda request: bool(request.topics) and "u" in {one.name for one in request.topics},
        error=29,  # for topics: the response contains nothing useful
    )
    other = await add(crew, "u")
    await fault.struck()
    fault.remove()
    await until(lambda: len(other.held) == 2, lambda: crew.members)


# --- the consumer protocol's ids


@pytest.fixture
async def modern(embedded: FakeCluster) -> AsyncIterator[Crew]:
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=True)
    yield crew
    await crew.end()


async def test_topics_of_a_pattern_are_found_by_their_ids(
    modern: Crew, embedded: FakeCluster
) -> None:
    member = CrewMember(modern.bootstrap, "g", modern=True)
    modern.members.append(member)
    await member.start(pattern="[tv].*")
    await until(lambda: len(member.held) == 6, lambda: member)
    await until(lambda: "t" in member.cluster.metadata.topics, lambda: member)


async def test_topic_names_are_requested_until_metadata_has_them(
    modern: Crew, embedded: FakeCluster
) -> None:
    fault = embedded.control(
        ApiKey.METADATA,
        times=3,
        when=lambda request: bool(request.topics) and request.topics[0].name is None,
        error=100,
    )
    member = CrewMember(modern.bootstrap, "g", modern=True)
    modern.members.append(member)
    await member.start(pattern="t")
    await until(lambda: len(member.held) == 6, lambda: member)
    await fault.struck(3)


async def test_a_topic_made_again_under_its_name(modern: Crew, embedded: FakeCluster) -> None:
    member = await modern.add()
    await modern.until_settled()
    embedded.delete_topic("t")
    embedded.create_topic("t", 4)
    modern.partitions = 4
    await modern.until_settled()
    told = [what for what, partitions in member.log if partitions]
    assert told[:2] == ["assign", "revoke"]
    assert told[-1] == "assign"
