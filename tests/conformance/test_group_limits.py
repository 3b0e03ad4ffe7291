"""Groups on brokers with other limits than the defaults: sizes, sessions, delays, expiry.

The real Kafka of these scenarios is one of their own, with the same configurations.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from aiokafka_lite.protocol.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchResponse
from tests.conformance.conftest import Compare
from tests.conformance.membership import SHORT_REBALANCE_MS, Member, new_group, subscription
from tests.conformance.target import PATIENCE, PAUSE, Scenario, Target
from tests.conformance.test_classic_groups import add, form
from tests.conformance.test_offsets import ask_for, commit
from tools.kafka import KafkaCluster
from tools.kafka.jars import KafkaNotAvailable

# What has to happen before a limit is reached still does if a process pauses for some seconds.
DELAY_MS: Final = 4_000
SHORTEST_SESSION_MS: Final = 4_000
KEPT_MS: Final = 5_000
"""How long the offsets are kept that a scenario lets expire."""

LIMITS: Final = {
    "group.initial.rebalance.delay.ms": DELAY_MS,
    "group.max.size": 2,
    "group.min.session.timeout.ms": SHORTEST_SESSION_MS,
    "group.max.session.timeout.ms": 20_000,
    "offset.metadata.max.bytes": 10,
    "offsets.retention.check.interval.ms": 300,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster(config=LIMITS))
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        yield cluster


@pytest.fixture
def compare_limited(compare: Compare) -> Callable[[Scenario], Awaitable[None]]:
    def run(scenario: Scenario) -> Awaitable[None]:
        return compare(scenario, broker_configs=LIMITS)

    return run


def short(target: Target, group: str, name: str, **fields: Any) -> Member:
    """A member within these limits."""
    return Member(target, group, name, **{"session_timeout_ms": 20_000, **fields})


async def new_kept_group(target: Target) -> str:
    """The name of a group that brokers do not remove between requests of its first member.

    Here, brokers check every 300 ms and remove a group that has neither members nor offsets. The
    check does not count a member that has received its id but has not joined with it.
    """
    topic, group = await target.topic(1), await new_group(target)
    await target.quietly(commit(group, topic, 1), 8)
    return group


async def await_members(target: Target, group: str, count: int) -> None:
    """Wait until a group has this many members, without recording."""
    async with asyncio.timeout(PATIENCE):
        while True:
            response = await target.quietly(DescribeGroupsRequest([group]), 5, "watcher")
            if len(response.groups[0].members) == count:
                return
            await asyncio.sleep(PAUSE)


async def test_initial_rebalance_delay(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_kept_group(target)
        a, b = (short(target, group, name) for name in "ab")
        await a.begin_join()
        await asyncio.sleep(0.8)
        await b.begin_join()
        await asyncio.sleep(DELAY_MS / 1000 - 0.4)  # longer than the delay, which was doubled
        await a.waits_to_join()
        await b.waits_to_join()
        await a.joined()
        await b.joined()
        await form(a, b)

    await compare_limited(scenario)


async def test_leaving_during_the_initial_delay(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_kept_group(target)
        a, b = (short(target, group, name, instance_id=name) for name in "ab")
        await a.begin_join()
        await b.begin_join()
        await await_members(target, group, 2)
        leaving = short(target, group, "admin", instance_id="b")
        await leaving.leave()
        await b.joined()
        await a.waits_to_join()  # all remaining members have joined, but the delay is not over
        await a.joined()

    await compare_limited(scenario)


async def test_group_size_limit(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_kept_group(target)
        a, b, c = (
            short(target, group, name, rebalance_timeout_ms=SHORT_REBALANCE_MS) for name in "abc"
        )
        await a.join()
        await form(a)
        await add(b, a)
        await target.ask(c.join_request(), 9)
        await a.begin_join()
        await b.beat_until()
        await c.begin_join()  # the first to join is in
        await c.waits_to_join()
        await target.ask(b.join_request(), 9, "b")
        await a.joined()
        await c.joined()
        await form(a, c)
        await b.beat()

    await compare_limited(scenario)


async def test_session_timeout_limits(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_kept_group(target)
        for session_ms in (SHORTEST_SESSION_MS - 1, 20_001):
            request = short(target, group, "a", session_timeout_ms=session_ms).join_request()
            await target.ask(request, 9)
        member = short(target, group, "a", session_timeout_ms=SHORTEST_SESSION_MS)
        await member.join()
        await form(member)
        await await_members(target, group, 0)
        await member.beat()
        forgotten = short(target, group, "b", session_timeout_ms=SHORTEST_SESSION_MS)
        await forgotten.meet()
        await asyncio.sleep(SHORTEST_SESSION_MS / 1000 + 0.5)
        await target.ask(forgotten.join_request(), 9)

    await compare_limited(scenario)


async def test_offset_metadata_limit(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = await new_group(target)
        for metadata in ("x" * 10, "x" * 11, "é" * 10, "😀" * 5, "😀" * 5 + "x"):
            await target.ask(commit(group, topic, 1, 2, metadata=metadata), 8)
            await target.ask(ask_for(group, 8, topic), 8)

    await compare_limited(scenario)


def kept_for(request: OffsetCommitRequest, milliseconds: int) -> OffsetCommitRequest:
    request.retention_time_ms = milliseconds
    return request


def is_gone(response: OffsetFetchResponse) -> bool:
    return response.topics[0].partitions[0].committed_offset == -1


async def test_expired_offsets_and_groups_are_removed(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = await new_group(target)
        await target.ask(kept_for(commit(group, topic, 1), KEPT_MS), 4)
        await target.ask(ask_for(group, 7, topic), 7)
        await target.until(ask_for(group, 7, topic), 7, is_gone)

        def is_dead(response: Any) -> bool:
            return bool(response.groups[0].group_state == "Dead")

        await target.until(DescribeGroupsRequest([group]), 5, is_dead)
        member = short(target, group, "a")
        await member.join()
        await member.leave()
        await target.until(DescribeGroupsRequest([group]), 5, is_dead)

    await compare_limited(scenario)


async def test_offsets_of_subscribed_topics_do_not_expire(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        read, other = await target.topic(1), await target.topic(1)
        group = await new_group(target)
        member = short(target, group, "a", protocols=[("range", subscription(read))])
        await member.join()
        await form(member)
        who = {"generation": member.generation, "member_id": member.member_id}
        for topic in (read, other):
            await target.ask(kept_for(commit(group, topic, 1, **who), 500), 4)
        await target.until(ask_for(group, 7, other), 7, is_gone)
        await target.ask(ask_for(group, 7, read), 7)
        await member.beat()
        await member.leave()
        await target.until(ask_for(group, 7, read), 7, is_gone)

    await compare_limited(scenario)


async def test_offsets_of_other_group_types_do_not_expire(compare_limited: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = await new_group(target)
        worker = short(target, group, "w", protocol_type="connect")
        await worker.join()
        await form(worker)
        who = {"generation": worker.generation, "member_id": worker.member_id}
        await target.ask(kept_for(commit(group, topic, 1, **who), 1), 4)
        await asyncio.sleep(1.0)
        await target.ask(ask_for(group, 7, topic), 7)
        await worker.leave()
        await target.until(ask_for(group, 7, topic), 7, is_gone)

    await compare_limited(scenario)
