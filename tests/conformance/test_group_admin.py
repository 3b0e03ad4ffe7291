"""Describing, listing and deleting groups of both types, and deleting their offsets.

Not compared: the group without a name, which other tests may use on the same Kafka at the same
time.
"""

from typing import Any

import pytest

from aiokafka_lite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokafka_lite.protocol.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lite.protocol.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member, subscription
from tests.conformance.reporting import Reporter, new_group
from tests.conformance.target import Target


async def commit(target: Target, group: str, *topics: str) -> None:
    """Offsets of partition 0, from outside of the group."""
    wanted = [
        OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 5)])
        for topic in topics
    ]
    await target.ask(OffsetCommitRequest(group, topics=wanted), 8)


async def committed(target: Target, group: str, *topics: str) -> None:
    wanted = [OffsetFetchRequestTopics(topic, partition_indexes=[0]) for topic in topics]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)])
    await target.ask(request, 9)


def deletion(group: str, *topics: str) -> OffsetDeleteRequest:
    both = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)]
    return OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, both) for topic in topics])


@pytest.mark.parametrize("version", range(7))
async def test_describing_classic_groups(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        group, other = [await new_group(target, interval_ms=None) for _ in range(2)]

        async def describe() -> None:
            groups = [group, other]
            await target.ask(DescribeGroupsRequest(groups, version >= 3), version)

        await describe()
        member = Member(
            *(target, group, "a"), protocols=[("range", subscription(topic))], instance_id="i"
        )
        await member.join()
        await describe()
        await member.sync({member.member_id: b"all"})
        await describe()
        late = Member(target, group, "late", protocols=[("range", subscription(topic))])
        await late.begin_join()
        await late.waits_to_join()
        await describe()
        await member.begin_join()
        await member.joined()
        await late.joined()
        await late.leave()
        await Reporter(target, other, "b", topic).join()
        await commit(target, target.unique("third"), topic)
        await describe()
        await member.leave()
        await describe()

    await compare(scenario)


@pytest.mark.parametrize("version", [0, 1])
async def test_describing_consumer_groups(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group, classic = await new_group(target), target.unique("classic")
        await Reporter(target, group, "a", topic, rack_id="r").join()
        await Member(target, classic, "b").join()
        groups = [group, classic, target.unique("none"), ""]
        for operations in (False, True):
            await target.ask(ConsumerGroupDescribeRequest(groups, operations), version)

    await compare(scenario)


@pytest.mark.parametrize("version", range(6))
async def test_listing_groups(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        ids = [await new_group(target) for _ in range(4)]
        await commit(target, ids[0], topic)
        member = Member(target, ids[1], "a", protocols=[("range", subscription(topic))])
        await member.join()
        await Reporter(target, ids[2], "b", topic).join()
        gone = Reporter(target, ids[3], "c", topic)
        await gone.join()
        await gone.leave()
        filters: list[dict[str, Any]] = [{}]
        if version >= 4:
            filters += [
                {"states_filter": states}
                for states in (["Stable"], ["stable", " EMPTY "], ["Nonsense"], ["Reconciling"])
            ]
            filters += [{"states_filter": ["CompletingRebalance"]}]
        if version >= 5:
            filters += [
                {"types_filter": types}
                for types in (["classic"], ["Consumer"], ["share"], ["nonsense"], ["classic", "x"])
            ]
            filters += [{"types_filter": ["consumer"], "states_filter": ["Empty"]}]
        for fields in filters:
            response = await target.quietly(ListGroupsRequest(**fields), version)
            listed = {each.group_id: each for each in response.groups if each.group_id in ids}
            target.note(f"{fields}", (response.error_code, listed))

    await compare(scenario)


@pytest.mark.parametrize("version", range(4))
async def test_deleting_groups(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        kept, classic, consumer = [await new_group(target) for _ in range(3)]
        await commit(target, kept, topic)
        await commit(target, classic, topic)
        old = Member(target, classic, "a", protocols=[("range", subscription(topic))])
        new = Reporter(target, consumer, "b", topic)
        await old.join()
        await new.join()
        every = [kept, classic, consumer, target.unique("none")]
        await target.ask(DeleteGroupsRequest(every), version)
        await committed(target, kept, topic)
        await committed(target, classic, topic)
        await old.leave()
        await new.leave()
        await target.ask(DeleteGroupsRequest(every), version)
        await target.ask(DeleteGroupsRequest([]), version)
        await committed(target, classic, topic)
        await target.ask(DescribeGroupsRequest(every), 6)
        await target.ask(ConsumerGroupDescribeRequest([consumer]), 1)

    await compare(scenario)


async def test_deleting_offsets(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        read, other = await target.topic(2), await target.topic(2)
        nowhere = target.unique("nowhere")
        plain, classic, connect, consumer = [await new_group(target) for _ in range(4)]
        for group in (plain, classic, connect, consumer):
            await commit(target, group, read, other)
        old = Member(target, classic, "a", protocols=[("range", subscription(read))])
        await old.join()
        worker = Member(target, connect, "b", protocol_type="connect")
        await worker.join()
        new = Reporter(target, consumer, "c", read)
        await new.join()
        for group in (plain, classic, connect, consumer, target.unique("none"), ""):
            await target.ask(deletion(group, read, other, nowhere), 0)
            await target.ask(deletion(group, nowhere), 0)
            await target.ask(deletion(group), 0)
            await committed(target, group, read, other)
        await old.sync({old.member_id: b""})
        await target.ask(deletion(classic, read, other), 0)
        await old.leave()
        await worker.leave()
        await new.leave()
        for group in (classic, connect, consumer):
            await target.ask(deletion(group, read, other), 0)
            await committed(target, group, read, other)

    await compare(scenario)
