"""Committed offsets: by members and from outside, in each version, and refused commits.

Not compared: OffsetCommit 0 and 1 and OffsetFetch 0, which the embedded broker still serves and
Kafka 4 dropped.
"""

import pytest

from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member, new_group, subscription
from tests.conformance.target import Target
from tests.conformance.test_classic_groups import form

Partition = OffsetCommitRequestPartition


def commit(
    group: str,
    topic: str,
    *offsets: int,
    generation: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    epoch: int = -1,
) -> OffsetCommitRequest:
    """An offset for each partition from 0 on."""
    partitions = [
        Partition(index, offset, epoch, committed_metadata=metadata)
        for index, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest(
        group,
        generation,
        member_id,
        topics=[OffsetCommitRequestTopic(topic, partitions=partitions)],
    )


def ask_for(group: str, version: int, *topics: str, partitions: int = 3) -> OffsetFetchRequest:
    """The offsets of a few partitions, or with no topic of all."""
    indexes = list(range(partitions))
    if version < 8:
        old = [OffsetFetchRequestTopic(topic, indexes) for topic in topics]
        return OffsetFetchRequest(group, old if topics or version < 2 else None)
    new = [OffsetFetchRequestTopics(topic, partition_indexes=indexes) for topic in topics]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=new or None)])


async def topic_id_of(target: Target, topic: str) -> object:
    request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
    (answer,) = (await target.quietly(request, 12)).topics
    return answer.topic_id


async def test_commits_from_outside_in_each_version(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        group = await new_group(target)
        for version in range(1, 10):
            await target.ask(ask_for(group, version, topic), version)
        for version in range(2, 10):
            offsets = (version * 100, version * 100 + 1)
            epoch = 0 if version >= 6 else -1
            request = commit(group, topic, *offsets, metadata=f"v{version}", epoch=epoch)
            await target.ask(request, version)
            for fetched in range(1, 10):
                await target.ask(ask_for(group, fetched, topic), fetched)
            for fetched in range(2, 10):
                await target.ask(ask_for(group, fetched), fetched)
        await target.ask(commit(group, topic, 7, metadata=None), 8)
        await target.ask(ask_for(group, 8, topic), 8)

    await compare(scenario)


async def test_topics_by_id(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = await new_group(target)
        known = await topic_id_of(target, topic)
        other = target.unique("no such topic")
        unknown = type(known)(int=12345)
        for topic_id in (known, unknown, ZERO_UUID):
            request = commit(group, "", 5, 6, 7)
            request.topics[0].topic_id = topic_id
            await target.ask(request, 10)
            wanted = [OffsetFetchRequestTopics("", topic_id, [0, 1, 2])]
            await target.ask(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)]), 10
            )
        both = [OffsetCommitRequestTopic("", i, [Partition(0, 9)]) for i in (known, unknown)]
        await target.ask(OffsetCommitRequest(group, topics=both), 10)
        await target.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 10
        )
        empty = OffsetFetchRequestGroup(other, topics=None)
        await target.ask(OffsetFetchRequest(groups=[empty]), 10)

    await compare(scenario)


@pytest.mark.parametrize("version", [2, 5, 8, 9])
async def test_rejected_commits(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = await new_group(target)
        absent = target.unique("absent")
        await target.ask(commit(group, absent, 1), version)
        await target.ask(commit(group, topic, 1, 2), version)  # there is no partition 1
        await target.ask(commit(group, topic, 1, metadata="x" * 4096), version)
        await target.ask(commit(group, topic, 2, metadata="x" * 4097), version)
        await target.ask(commit(group, topic, 3, metadata="é" * 4096), version)
        await target.ask(commit(group, topic, -5), version)
        await target.ask(commit("", topic, 4), version)
        await target.ask(ask_for("", version, topic), version)
        nobody = target.unique("nobody")
        await target.ask(commit(nobody, topic, 1, generation=3), version)
        await target.ask(commit(nobody, topic, 1, generation=3, member_id="me"), version)
        await target.ask(commit(nobody, absent, 1, generation=3, member_id="me"), version)
        await target.ask(commit(group, topic, 1, generation=3), version)
        await target.ask(commit(group, topic, 5, member_id="me"), version)
        await target.ask(OffsetCommitRequest(group), version)
        await target.ask(ask_for(group, version, topic, absent), version)
        await target.ask(ask_for(nobody, version, topic, absent), version)

    await compare(scenario)


async def test_commits_of_members(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = await new_group(target)
        member = Member(target, group, "a", protocols=[("range", subscription(topic))])
        await member.join()

        async def commits() -> None:
            who = {"generation": member.generation, "member_id": member.member_id}
            for fields in (
                who,
                {**who, "generation": member.generation - 1},
                {**who, "generation": -1},
                {**who, "member_id": "you"},
                {**who, "member_id": ""},
                {},
            ):
                for version in (2, 7, 9):
                    await target.ask(commit(group, topic, 10, **fields), version)
            named = commit(group, topic, 11, **who)
            named.group_instance_id = "static"
            await target.ask(named, 7)

        await commits()  # while the group has no assignment
        await form(member)
        await commits()
        await target.ask(ask_for(group, 8, topic), 8)
        newcomer = Member(target, group, "b", protocols=[("range", subscription(topic))])
        await newcomer.begin_join()
        await member.beat_until()
        await commits()  # while the group waits for this member
        await member.join()
        await newcomer.joined()
        await form(member, newcomer)
        await member.leave()
        await newcomer.leave()
        await commits()
        await target.ask(ask_for(group, 8, topic), 8)

    await compare(scenario)


async def test_several_groups_at_once(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(2), await target.topic(1)
        first, second, third = [await new_group(target) for _ in range(3)]
        await target.ask(commit(first, topic, 1, 2), 8)
        await target.ask(commit(second, topic, 3), 8)
        await target.ask(commit(second, other, 4), 8)
        wanted = [OffsetFetchRequestTopics(topic, partition_indexes=[0, 1])]
        groups = [
            OffsetFetchRequestGroup(first, topics=wanted),
            OffsetFetchRequestGroup(second, topics=None),
            OffsetFetchRequestGroup(third, topics=wanted),
            OffsetFetchRequestGroup("", topics=[]),
        ]
        for version in (8, 9):
            for stable in (False, True):
                await target.ask(OffsetFetchRequest(groups=groups, require_stable=stable), version)
        await target.ask(OffsetFetchRequest(groups=[]), 8)
        asked = OffsetFetchRequestGroup(first, "who", 5, wanted)
        await target.ask(OffsetFetchRequest(groups=[asked]), 9)  # epochs are for other groups

    await compare(scenario)


async def test_deleting_a_topic_deletes_its_offsets(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(1), await target.topic(1)
        group = await new_group(target)
        await target.ask(commit(group, topic, 1), 8)
        await target.ask(commit(group, other, 2), 8)
        await target.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000), 5)

        def is_gone(response: OffsetFetchResponse) -> bool:
            return len(response.groups[0].topics) == 1

        await target.until(ask_for(group, 8), 8, is_gone)
        await target.ask(ask_for(group, 8, topic, other), 8)

    await compare(scenario)


async def test_retention_time_of_old_clients(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        group = await new_group(target)
        request = commit(group, topic, 1)
        request.retention_time_ms = 60_000
        for version in (2, 3, 4):
            await target.ask(request, version)
        request.retention_time_ms = -1
        await target.ask(request, 4)
        await target.ask(ask_for(group, 5, topic), 5)

    await compare(scenario)
