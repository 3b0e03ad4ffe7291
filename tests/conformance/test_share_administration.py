"""Share groups (KIP-932): membership, descriptions, offsets and deletion."""

import asyncio
from typing import Any

import pytest

from aiokafka_lite.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lite.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from aiokafka_lite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member, new_group
from tests.conformance.requests import produce
from tests.conformance.sharing import (
    ACCEPT,
    RELEASE,
    Sharer,
    batch_of,
    configure_group,
    fill,
    new_sharer,
)
from tests.conformance.target import PATIENCE, Target

pytestmark = pytest.mark.real


def offsets(group: str, *topics: tuple[str, list[int]] | None) -> DescribeShareGroupOffsetsRequest:
    """The offsets of some topics' partitions; of all with None."""
    asked = [DescribeShareGroupOffsetsRequestTopic(*one) for one in topics if one]
    return DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(group, None if None in topics else asked)]
    )


def alter(group: str, topic: str, *changes: tuple[int, int]) -> AlterShareGroupOffsetsRequest:
    parts = [AlterShareGroupOffsetsRequestPartition(*one) for one in changes]
    return AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, parts)])


def delete(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    asked = [DeleteShareGroupOffsetsRequestTopic(one) for one in topics]
    return DeleteShareGroupOffsetsRequest(group, asked)


def summary(group: Any) -> object:
    """The content of a description, without epochs, which depend on when states were
    initialized."""
    return (
        *(group.error_code, group.group_state, group.assignor_name),
        tuple(
            (
                *(member.member_id, member.client_id, tuple(member.subscribed_topic_names)),
                tuple(
                    (one.topic_name, tuple(one.partitions))
                    for one in member.assignment.topic_partitions
                ),
            )
            for member in group.members
        ),
    )


async def test_heartbeats_of_a_share_group(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = await new_group(target)
        beat = ShareGroupHeartbeatRequest
        for request in (
            beat(group, "m", 1),
            beat(group, "m", -1),
            beat(group, "m", -2),
            beat(group, "m", 0),
            beat(group, "m", 0, None, []),
            beat(group, "", 0, None, [topic]),
            beat("", "m", 0, None, [topic]),
            beat(group, "m", 0, "", [topic]),
        ):
            await target.ask(request, 1)
        a = await new_sharer(target, topic)
        for epoch in (a.epoch, a.epoch + 1, -2):
            answer = await target.quietly(a.report(epoch), 1, "a")
            target.note("error and partitions", (answer.error_code, answer.assignment is None))
        await target.ask(beat(a.group, "other", 5), 1)
        await target.ask(
            ConsumerGroupHeartbeatRequest(
                a.group, "c", 0, None, None, 1000, [topic], None, None, []
            ),
            1,
        )
        await a.leave()
        await a.leave()
        await target.ask(beat(a.group, "other", 5), 1)

    await compare(scenario)


async def test_describing_and_listing_share_groups(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        a = await new_sharer(target, topic)
        classic = Member(target, await new_group(target), "c")
        await classic.join()
        await target.ask(ShareGroupDescribeRequest([classic.group, "nope", ""]), 1)
        answer = await target.quietly(ShareGroupDescribeRequest([a.group], True), 1)
        target.note("described", summary(answer.groups[0]))
        target.note("operations", answer.groups[0].authorized_operations)

        async def note_listed(**filters: Any) -> None:
            listed = await target.quietly(ListGroupsRequest(**filters), 5)
            found = [
                (one.protocol_type, one.group_state, one.group_type)
                for one in listed.groups
                if one.group_id == a.group
            ]
            target.note(f"listed {filters}", found)

        await note_listed()
        await note_listed(types_filter=["Share"])
        await note_listed(types_filter=["consumer"])
        await target.ask(DeleteGroupsRequest([a.group]), 2)
        await a.leave()
        await note_listed(states_filter=["Empty"])
        answer = await target.quietly(ShareGroupDescribeRequest([a.group]), 1)
        target.note("described", summary(answer.groups[0]))
        await target.ask(DeleteGroupsRequest([a.group]), 2)
        await target.ask(ShareGroupDescribeRequest([a.group]), 1)

    await compare(scenario)


async def test_offsets_of_share_groups(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(2), await target.topic(1)
        a = await new_sharer(target, topic)
        absent = target.unique("absent")
        await target.ask(offsets(absent, None), 1)
        await target.ask(offsets("", None), 1)
        await target.ask(offsets(a.group, None), 1)
        # Kafka answers only after a minute if a partition does not exist, so all of these do.
        asked = offsets(a.group, (topic, [0, 1]), (other, [0]))
        await target.ask(asked, 1)
        await a.warm_up(0, 1)
        await fill(target, topic, 6)
        await target.ask(offsets(a.group, None), 1)
        await a.get(0, 1)
        await a.acknowledge({0: [(0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [ACCEPT])]})
        await target.ask(asked, 1)
        await target.ask(offsets(a.group, (topic, [0])), 0)
        await a.beat()
        await target.ask(alter(a.group, topic, (0, 4)), 0)
        await target.ask(delete(a.group, topic), 0)
        await a.fetch(epoch=-1)
        await a.leave()
        await target.ask(alter(a.group, topic, (0, 4), (7, 1)), 0)
        await target.ask(alter(a.group, "nowhere", (0, 4)), 0)
        await target.ask(alter(absent, topic, (0, 4)), 0)
        await target.ask(alter("", topic, (0, 4)), 0)
        await target.ask(offsets(a.group, (topic, [0])), 1)
        await a.join()
        await a.get(0, epoch=0)
        await a.acknowledge({0: [(4, 5, [RELEASE])]})
        await a.get()
        await a.acknowledge({0: [(4, 4, [ACCEPT])]})
        await a.fetch(epoch=-1)
        await a.leave()
        await target.ask(offsets(a.group, (topic, [0])), 1)
        await target.ask(delete(a.group, topic, other, "nowhere"), 0)
        await target.ask(delete(target.unique("absent"), topic), 0)
        await target.ask(offsets(a.group, None), 1)
        await target.ask(offsets(a.group, (topic, [0])), 1)

    await compare(scenario)


async def grow(target: Target, topic: str, count: int) -> None:
    """Add partitions, without recording."""
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 10_000)
    answer = await target.quietly(request, 3, "topics")
    assert not answer.results[0].error_code, answer
    async with asyncio.timeout(PATIENCE):
        while await target.leader_of(topic, count - 1) < 0:
            await asyncio.sleep(0.05)
        # Metadata lists the leader before the broker has become it.
        wanted = [ListOffsetsPartition(count - 1, timestamp=-1)]
        ends = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, wanted)])
        while (await target.quietly(ends, 1, "topics")).topics[0].partitions[0].error_code:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("reset", ["latest", "earliest"])
async def test_partitions_added_later(compare: Compare, reset: str) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await fill(target, topic, 2)
        a = await new_sharer(target, topic, share_auto_offset_reset=reset)
        await a.warm_up(0)
        await grow(target, topic, 2)
        written = await target.quietly(produce(topic, batch_of(1), batch_of(3)), 8, "producer")
        assert not written.responses[0].partition_responses[1].error_code, written
        await a.beat_until_assigned(0, 1)
        await a.get(1)
        await a.acknowledge({1: [(0, 2, [ACCEPT])]})
        await target.ask(offsets(a.group, (topic, [1])), 1)

    await compare(scenario)


@pytest.mark.long
async def test_offsets_set_before_a_member_joins(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        written = await target.quietly(produce(topic, batch_of(3), batch_of(3)), 8, "producer")
        assert not written.responses[0].partition_responses[1].error_code, written
        group = await new_group(target)
        await configure_group(target, group, share_auto_offset_reset="latest")
        await target.ask(alter(group, topic, (0, 2)), 0)
        a = Sharer(target, group, "a", [topic])
        await a.join()
        await a.beat_until_assigned(0, 1)
        await a.warm_up(0, 1)
        await a.get(1, epoch=0)
        await a.get(0, max_wait_ms=2000)  # for nothing

    await compare(scenario)
