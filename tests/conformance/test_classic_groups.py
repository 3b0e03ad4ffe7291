"""Groups of the classic protocol: joining, assignments, leaving, and errors.

Not compared: the leader after the old one has left. Kafka chooses the first in a `HashMap` of
random ids, the embedded broker the oldest member.
"""

import pytest

from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.conftest import Compare
from tests.conformance.membership import SHORT_REBALANCE_MS, Member, new_group, subscription
from tests.conformance.target import Target

RANGE = ("range", b"r")
ROBIN = ("roundrobin", b"o")
STICKY = ("sticky", b"s")


async def form(*members: Member) -> None:
    """Let all members join and sync; the first one leads."""
    leader, *others = members
    for other in others:
        other.begin_sync()
    shares = {member.member_id: member.name.encode() for member in members}
    await leader.sync(shares)
    for other in others:
        await other.synced()


async def add(newcomer: Member, *members: Member) -> None:
    """Add a member to a stable group."""
    await newcomer.begin_join()
    for member in members:
        await member.beat_until()
    for member in members:
        await member.begin_join()
    for member in (*members, newcomer):
        await member.joined()
    await form(*members, newcomer)


@pytest.mark.parametrize("version", range(10))
async def test_one_member(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        member = Member(target, await new_group(target), "a", version=version)
        await member.join()
        await member.beat()
        await member.join()  # again, as after a lost response
        await member.sync({member.member_id: b"all of it"})
        await member.sync()
        await member.beat()
        await member.join()  # the leader rejoins: another generation
        await member.sync({member.member_id: b"all of it", "nobody": b"nothing"})
        await member.beat()
        await member.leave(min(version, 5))
        await member.beat()
        await member.sync()
        await member.join()
        await member.leave(min(version, 5))
        member.member_id = ""
        await member.join()

    await compare(scenario)


@pytest.mark.parametrize("version", [0, 3, 4, 6, 9])
async def test_two_members(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        first, second = (Member(target, group, name, version=version) for name in "ab")
        await first.join()
        await form(first)
        await second.begin_join()
        await first.beat_until()
        await second.waits_to_join()
        await first.sync()
        await first.begin_join()
        await first.joined()
        await second.joined()
        second.begin_sync()
        await second.waits_to_sync()
        await first.sync({first.member_id: b"mine", second.member_id: b"yours"})
        await second.synced()
        await first.beat()
        await second.beat()
        await second.join()  # with nothing changed
        await second.sync()
        await second.leave(min(version, 5))
        await first.beat()
        await first.join()
        await first.sync({first.member_id: b"all again"})

    await compare(scenario)


async def test_three_members_and_one_that_leaves_while_they_join(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b, c = (Member(target, group, name) for name in "abc")
        await a.join()
        await form(a)
        await add(b, a)
        await add(c, a, b)
        await b.begin_join()  # nothing changed: answered at once
        await b.joined()
        c.protocols = [("range", b"changed")]
        await c.begin_join()
        await a.beat_until()
        await c.waits_to_join()
        leaving = LeaveGroupRequest(
            group, members=[MemberIdentity(b.member_id, None, "enough"), MemberIdentity("x", None)]
        )
        await target.ask(leaving, 5)
        await a.begin_join()
        await a.joined()
        await c.joined()
        await form(a, c)
        everybody = [MemberIdentity(each.member_id, None) for each in (a, c)]
        await target.ask(LeaveGroupRequest(group, members=everybody), 4)
        await target.ask(LeaveGroupRequest(group, members=everybody), 4)

    await compare(scenario)


async def test_a_leader_that_joins_while_others_sync(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b = (Member(target, group, name) for name in "ab")
        await a.join()
        await form(a)
        await b.begin_join()
        await a.beat_until()
        await a.join()
        await b.joined()
        await a.join()  # without a change, before it assigned: the same generation
        b.begin_sync()
        await b.waits_to_sync()
        a.protocols = [("range", b"changed")]
        await a.begin_join()
        await b.synced()  # the response asks it to join again
        await a.waits_to_join()
        await b.join()
        await a.joined()
        await form(a, b)

    await compare(scenario)


@pytest.mark.parametrize(
    "supported",
    [
        ((RANGE, ROBIN), (ROBIN, RANGE)),
        ((ROBIN, RANGE), (RANGE, ROBIN)),
        ((STICKY, RANGE), (RANGE, STICKY)),
        ((RANGE, ROBIN, STICKY), (STICKY, ROBIN)),
        ((RANGE, STICKY, ROBIN), (STICKY, RANGE), (STICKY, RANGE)),
        ((STICKY, ROBIN), (RANGE, ROBIN)),
    ],
)
async def test_protocol_with_most_votes_is_chosen(
    compare: Compare, supported: tuple[tuple[tuple[str, bytes], ...], ...]
) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        members: list[Member] = []
        for name, protocols in zip("abc", supported, strict=False):
            newcomer = Member(target, group, name, protocols=protocols)
            if members:
                await add(newcomer, *members)
            else:
                await newcomer.join()
                await form(newcomer)
            members.append(newcomer)

    await compare(scenario)


async def test_incompatible_protocols(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        for protocol_type, protocols in (("", [RANGE]), ("consumer", []), ("", [])):
            await Member(
                target, group, "a", protocol_type=protocol_type, protocols=protocols, version=3
            ).join()
        worker = Member(
            target, group, "w", protocol_type="connect", protocols=[("default", b"url")]
        )
        await worker.join()
        await form(worker)
        for version in (3, 5, 9):
            request = Member(target, group, "a", version=version).join_request()
            await target.ask(request, version)
        other = Member(target, group, "o", protocol_type="connect", protocols=[("eager", b"")])
        await target.ask(other.join_request(), 9)
        await worker.sync()
        for wrong in (
            {"protocol_type": "consumer"},
            {"protocol_name": "eager"},
            {"protocol_type": None},
            {"protocol_name": None},
        ):
            await worker.sync(**wrong)
        worker.protocols = [("eager", b"")]
        await worker.join()  # even alone it may not change to an assignor that it did not support

    await compare(scenario)


async def test_rejected_requests(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        protocols = [JoinGroupRequestProtocol(*RANGE)]
        for version in (0, 4, 6, 7, 9):
            for group_id, session_ms, member_id in (
                ("", 30_000, ""),
                ("", 30_000, "me"),
                (group, 5_999, ""),
                (group, 5_999, "me"),
                (group, 1_800_001, ""),
                (group, -1, ""),
                (group, 30_000, "me"),
            ):
                request = JoinGroupRequest(
                    group_id, session_ms, 30_000, member_id, None, "consumer", protocols
                )
                await target.ask(request, version)
        for version in range(6):
            named = (None, None, None) if version < 5 else (None, "consumer", "range")
            await target.ask(SyncGroupRequest("", 1, "me", *named), version)
            await target.ask(SyncGroupRequest(group, 1, "me", *named), version)
        for version in range(5):
            await target.ask(HeartbeatRequest("", 1, "me"), version)
            await target.ask(HeartbeatRequest(group, 1, "me"), version)
        for version in range(6):
            for group_id in ("", group):
                request = LeaveGroupRequest(group_id, "me")
                if version >= 3:
                    members = [MemberIdentity("me", None), MemberIdentity("", "static")]
                    request = LeaveGroupRequest(group_id, members=members)
                await target.ask(request, version)
        member = Member(target, group, "a")
        await member.join()
        await form(member)
        for generation, member_id in ((0, member.member_id), (2, member.member_id), (1, "you")):
            await target.ask(HeartbeatRequest(group, generation, member_id), 4)
            await target.ask(SyncGroupRequest(group, generation, member_id), 4)
            await target.ask(HeartbeatRequest(group, generation, member_id, "static"), 4)
            await target.ask(SyncGroupRequest(group, generation, member_id, "static"), 4)
        stranger = JoinGroupRequest(group, 30_000, 30_000, "you", None, "consumer", protocols)
        await target.ask(stranger, 9)
        stranger.group_instance_id = "static"
        await target.ask(stranger, 9)
        for members in (
            [MemberIdentity("", None)],
            [MemberIdentity("you", None)],
            [MemberIdentity("", "static")],
            [MemberIdentity(member.member_id, "static")],
            [],
        ):
            await target.ask(LeaveGroupRequest(group, members=members), 5)
        await target.ask(LeaveGroupRequest(group, ""), 2)

    await compare(scenario)


async def test_pending_member_delays_the_others_until_it_leaves(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, pending = (Member(target, group, name) for name in ("a", "pending"))
        await a.join()
        await form(a)
        await pending.meet()
        await a.begin_join()
        await a.waits_to_join()
        await pending.beat()
        await pending.leave()
        await a.joined()
        await form(a)
        await pending.join()  # its id is no longer known

    await compare(scenario)


async def test_member_that_does_not_rejoin_by_the_deadline_is_removed(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b = (
            Member(target, group, name, rebalance_timeout_ms=SHORT_REBALANCE_MS) for name in "ab"
        )
        await a.join()
        await form(a)
        await b.begin_join()
        await a.beat_until()
        await b.waits_to_join()
        await b.joined()
        await a.beat()
        await a.join()
        await form(b)

    await compare(scenario)


async def test_member_that_never_syncs_is_removed(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b = (
            Member(target, group, name, rebalance_timeout_ms=SHORT_REBALANCE_MS) for name in "ab"
        )
        await a.join()
        await form(a)
        await b.begin_join()
        await a.beat_until()
        await a.join()
        await b.joined()
        await a.sync({a.member_id: b"mine", b.member_id: b"yours"})
        await a.beat()
        await a.beat_until()
        await b.beat()
        await a.join()
        await form(a)
        c = Member(target, group, "c", rebalance_timeout_ms=SHORT_REBALANCE_MS)
        await add(c, a)

    await compare(scenario)


async def test_a_group_whose_members_never_sync_becomes_empty(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        member = Member(
            target, await new_group(target), "a", rebalance_timeout_ms=SHORT_REBALANCE_MS
        )
        await member.join()
        await member.beat()
        await member.beat_until(25)
        member.member_id = ""
        await member.join()

    await compare(scenario)


async def test_member_without_heartbeats_is_removed(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b = (Member(target, group, name, session_timeout_ms=6_000) for name in "ab")
        a.session_timeout_ms = 30_000
        await a.join()
        await form(a)
        await add(b, a)
        await a.beat_until()
        await b.beat()
        await a.join()
        await form(a)

    await compare(scenario)


async def test_client_that_disconnects_during_its_join(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a, b = (Member(target, group, name) for name in "ab")
        await a.join()
        await form(a)
        await b.begin_join()
        await a.beat_until()
        await b.waits_to_join()
        target.disconnect("b")
        again = Member(target, group, "b again")
        again.member_id = b.member_id
        await again.begin_join()
        await again.waits_to_join()
        await a.begin_join()
        await a.joined()  # with two members: the liveness of the second was not checked
        await again.joined()
        await form(a, again)

    await compare(scenario)


async def test_joining_ignores_subscriptions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        a = Member(target, group, "a", protocols=[("range", subscription("x", "y"))])
        b = Member(target, group, "b", protocols=[("range", b"")])
        await a.join()
        await form(a)
        await add(b, a)

    await compare(scenario)
