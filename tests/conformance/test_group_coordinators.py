"""The coordinator of a group, and the state that its successor has after a failure."""

import asyncio
from typing import Any

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member
from tests.conformance.target import Target
from tests.conformance.test_offsets import ask_for, commit

LOADING = (14, 15, 16)  # not yet, none, another one


def has_loaded(response: Any) -> bool:
    return response.error_code not in LOADING


async def loaded(target: Target, group: str, node: int) -> None:
    """Wait until a broker that has just become the coordinator has loaded its state."""
    everything = ask_for(group, 7)
    async with asyncio.timeout(30):
        while not has_loaded(await target.quietly(everything, 7, f"loading@{node}")):
            await asyncio.sleep(0.05)


async def test_brokers_that_do_not_coordinate_the_group(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = target.unique("group")
        here = await target.coordinator_of(group)
        brokers = (await target.quietly(MetadataRequest([]), 9)).brokers
        wrong = next(each.node_id for each in brokers if each.node_id != here)
        on = f"wrong@{wrong}"
        asked: list[tuple[Request, range]] = [
            (JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer"), range(10)),
            (JoinGroupRequest(group, 30_000, 30_000, "me", None, "consumer"), range(10)),
            (JoinGroupRequest(group, 1, 30_000, "me", None, "consumer"), range(10)),
            (SyncGroupRequest(group, 1, "me"), range(5)),
            (SyncGroupRequest(group, 1, "me", None, "consumer", "range"), range(5, 6)),
            (HeartbeatRequest(group, 1, "me"), range(5)),
            (LeaveGroupRequest(group, "me"), range(3)),
            (LeaveGroupRequest(group, members=[MemberIdentity("me", None)]), range(3, 6)),
            (commit(group, topic, 1, 2), range(2, 10)),
            (commit(group, target.unique("absent"), 1), range(2, 10)),
            (OffsetCommitRequest(group), range(2, 10)),
        ]
        for request, versions in asked:
            for version in versions:
                await target.ask(request, version, on)
        for version in range(1, 10):
            await target.ask(ask_for(group, version, topic), version, on)
            if version >= 2:
                await target.ask(ask_for(group, version), version, on)

    await compare3(scenario)


async def test_coordinator_failover(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        brokers = (await target.quietly(MetadataRequest([]), 9)).brokers
        port = int(target.bootstrap.split(",")[0].rpartition(":")[2])
        first = next(each.node_id for each in brokers if each.port == port)
        here = first
        while here == first:  # this broker is asked for the coordinator
            group = target.unique("group")
            here = await target.coordinator_of(group)
        await loaded(target, group, here)  # brokers may have started again just before
        member = Member(target, group, f"a@{here}", instance_id="static")
        pending = Member(target, group, f"b@{here}")
        await member.join()
        await member.sync({member.member_id: b"all"})
        await target.ask(
            commit(group, topic, 5, member_id=member.member_id, generation=1), 8, member.name
        )
        await pending.meet()
        await target.kill(here)
        there = here
        while there == here:
            there = await target.coordinator_of(group)
        member.name, pending.name = f"a@{there}", f"b@{there}"
        await target.until(member.sync_request(), 5, has_loaded, member.name)
        await member.beat()
        await target.ask(ask_for(group, 7, topic), 7, member.name)
        await pending.join()  # the pending member id was not stored
        await member.join()
        await target.restart(here)

    await compare3(scenario)
