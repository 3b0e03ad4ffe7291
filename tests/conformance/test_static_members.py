"""Static members (KIP-345): members that return with their instance id, and fencing."""

import pytest

from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.conformance.conftest import Compare
from tests.conformance.membership import SHORT_REBALANCE_MS, Member, new_group
from tests.conformance.target import Target
from tests.conformance.test_classic_groups import RANGE, ROBIN, add, form


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
async def test_static_leader_returns(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        group = await new_group(target)
        old = Member(target, group, "old", instance_id="one", version=version)
        await old.join()
        await form(old)
        back = Member(target, group, "back", instance_id="one", version=version)
        await back.join()
        await back.sync()
        await back.beat()
        await old.beat()
        await old.sync()
        await old.join()
        commit = OffsetCommitRequest(group, old.generation, old.member_id, "one")
        commit.topics = [
            OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 5)])
        ]
        await target.ask(commit, 7)
        await old.leave()
        await target.ask(HeartbeatRequest(group, back.generation, back.member_id, "two"), 4)
        await target.ask(HeartbeatRequest(group, back.generation, back.member_id), 4)
        await back.join()  # with its member id: the leader triggers a new assignment
        await form(back)
        await back.leave(3)
        await back.beat()

    await compare(scenario)


@pytest.mark.parametrize("version", [5, 9])
async def test_static_follower_returns(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a = Member(target, group, "a", version=version)
        old = Member(target, group, "old", instance_id="one", version=version)
        await a.join()
        await form(a)
        await add(old, a)
        back = Member(target, group, "back", instance_id="one", version=version)
        await back.join()
        await back.sync()
        await a.beat()
        await old.beat()
        admin = LeaveGroupRequest(group, members=[MemberIdentity("", "one")])
        await target.ask(admin, 3)
        await target.ask(admin, 3)
        await a.beat()
        await back.beat()

    await compare(scenario)


async def test_static_member_returns_with_another_protocol(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        both = [RANGE, ROBIN]
        old = Member(target, group, "old", instance_id="one", protocols=both)
        await old.join()
        await form(old)
        back = Member(target, group, "back", instance_id="one", protocols=[("range", b"other")])
        await back.join()  # the protocol stays: so does the generation
        await back.sync()
        again = Member(target, group, "again", instance_id="one", protocols=[RANGE, ROBIN])
        await again.join()
        turned = Member(target, group, "turned", instance_id="one", protocols=[ROBIN, RANGE])
        await turned.join()  # another one would be elected: a new generation
        await form(turned)

    await compare(scenario)


async def test_static_member_returns_during_a_rebalance(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a = Member(target, group, "a", instance_id="a")
        b = Member(target, group, "b", instance_id="b")
        await a.join()
        await form(a)
        await b.begin_join()
        await a.beat_until()
        await b.waits_to_join()
        second = Member(target, group, "b2", instance_id="b")
        await second.begin_join()
        await b.joined()  # fenced by its own next incarnation
        await second.waits_to_join()
        await a.begin_join()
        await a.joined()
        await second.joined()
        second.begin_sync()
        await second.waits_to_sync()
        third = Member(target, group, "b3", instance_id="b")
        await third.begin_join()  # the leader may be assigning to the old id: all join again
        await second.synced()
        await third.waits_to_join()
        await a.beat_until()
        await a.join()
        await third.joined()
        await form(a, third)

    await compare(scenario)


async def test_static_members_stay_for_their_session(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b, c = (
            Member(
                target,
                group,
                name,
                instance_id=name,
                rebalance_timeout_ms=SHORT_REBALANCE_MS,
            )
            for name in "abc"
        )
        await a.join()
        await form(a)
        await add(b, a)
        await c.begin_join()
        await a.beat_until()
        await a.begin_join()
        await a.joined()  # b did not join, but is still in
        await c.joined()
        c.begin_sync()
        await a.sync({a.member_id: b"a", b.member_id: b"b", c.member_id: b"c"})
        await c.synced()

    await compare(scenario)


async def test_static_member_returns_before_its_sync(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a = Member(target, group, "a", rebalance_timeout_ms=SHORT_REBALANCE_MS)
        old = Member(
            target, group, "old", instance_id="one", rebalance_timeout_ms=SHORT_REBALANCE_MS
        )
        await a.join()
        await form(a)
        await old.begin_join()
        await a.beat_until()
        await a.join()
        await old.joined()
        await a.sync({a.member_id: b"mine", old.member_id: b"yours"})
        back = Member(
            target, group, "back", instance_id="one", rebalance_timeout_ms=SHORT_REBALANCE_MS
        )
        await back.join()
        await back.sync()
        await a.beat()
        await a.beat_until()  # the group still waits for the old member, and then removes it

    await compare(scenario)
