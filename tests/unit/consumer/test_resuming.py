"""Resuming where the group stopped, with committed offsets and without them."""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.errors import (
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until

pytestmark = pytest.mark.unhurried

P0, P1, P2 = (TopicPartition("orders", i) for i in range(3))


class Commit(NamedTuple):
    offset: int
    leader_epoch: int | None = None


class Group:
    """Stands for the offsets that a group has committed."""

    def __init__(self, commits: Mapping[TopicPartition, Commit]) -> None:
        self.commits = dict(commits)
        self.errors: list[KafkaError] = []
        self.asked: list[list[TopicPartition]] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def read(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Commit]:
        self.asked.append(sorted(partitions))
        await self.answers.wait()
        if self.errors:
            raise self.errors.pop(0)
        return {tp: self.commits[tp] for tp in partitions if tp in self.commits}


def member(make: MakeConsumer, group: Group, **options: object) -> AIOKafkaConsumer:
    consumer = make(**options)
    consumer._core.resolver._committed = group.read
    return consumer


async def test_a_partition_resumes_at_the_committed_offset(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9))
    append(cluster, numbered(9), 1)
    group = Group({P0: Commit(4, 0), P1: Commit(0)})
    consumer = member(make, group, auto_offset_reset="latest")
    consumer.assign([P0, P1, P2])
    await consumer.start()
    assert [await consumer.position(tp) for tp in (P0, P1, P2)] == [4, 0, 0]
    assert group.asked == [[P0, P1, P2]]
    assert [record.offset for record in await _all(consumer, P0, 5)] == [4, 5, 6, 7, 8]


async def test_a_reset_does_not_go_back_to_the_commit(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9))
    group = Group({P0: Commit(4)})
    consumer = member(make, group)
    consumer.assign([P0])
    await consumer.start()
    await consumer.seek_to_end(P0)
    assert await consumer.position(P0) == 9
    consumer.seek(P0, 99)  # out of range: the policy decides where to continue
    assert (await consumer.getone()).offset == 0
    assert len(group.asked) == 1


async def test_a_partition_assigned_again_fetches_its_committed_offset_again(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9))
    group = Group({P0: Commit(4)})
    consumer = member(make, group)
    consumer.assign([P0])
    await consumer.start()
    consumer.assign([P1])
    group.commits[P0] = Commit(7)
    consumer.assign([P0, P1])
    assert await consumer.position(P0) == 7


async def test_a_seek_before_the_answer_wins(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(9))
    group = Group({P0: Commit(4), P1: Commit(0)})
    consumer = member(make, group)
    await consumer.start()
    group.answers.clear()
    consumer.assign([P0, P1])
    await until(lambda: len(group.asked) == 1)
    consumer.seek(P0, 6)
    group.answers.set()
    assert await consumer.position(P1) == 0
    assert await consumer.position(P0) == 6


async def test_the_waiting_for_commits_holds_up_no_reset(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9), 1)
    group = Group({})
    consumer = member(make, group)
    await consumer.start()
    group.answers.clear()
    consumer.assign([P0, P1])
    await until(lambda: len(group.asked) == 1)
    await consumer.seek_to_end(P1)
    assert await consumer.position(P1) == 9
    group.answers.set()
    assert await consumer.position(P0) == 0


@pytest.mark.parametrize(
    "error",
    [
        KafkaTimeoutError("late"),
        GroupLoadInProgressError("loading"),
        StaleMemberEpochError("old"),
        UnknownMemberIdError("out"),
        FencedMemberEpochError("out"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_retriable_errors_repeat_the_lookup(
    cluster: FakeCluster, make: MakeConsumer, error: KafkaError
) -> None:
    append(cluster, numbered(9))
    group = Group({P0: Commit(4)})
    group.errors = [error, error]
    consumer = member(make, group)
    consumer.assign([P0])
    await consumer.start()
    assert await consumer.position(P0) == 4
    assert len(group.asked) == 3


async def test_lasting_errors_are_raised_from_reads_and_the_lookup_is_repeated(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9))
    group = Group({P0: Commit(4)})
    group.errors = [GroupAuthorizationFailedError("orders-readers")] * 2
    consumer = member(make, group)
    consumer.assign([P0])
    await consumer.start()
    for _ in range(2):
        with pytest.raises(GroupAuthorizationFailedError):
            await consumer.getone()
    assert (await consumer.getone()).offset == 4


async def test_without_a_commit_and_a_policy_every_read_raises(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(9))
    append(cluster, numbered(9), 1)
    group = Group({P0: Commit(4)})
    consumer = member(make, group, auto_offset_reset="none")
    consumer.assign([P0, P1])
    await consumer.start()
    assert await consumer.position(P0) == 4
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.getone(P1)
    consumer.seek(P1, 2)
    assert (await consumer.getone(P1)).offset == 2


async def test_revoked_partitions_need_no_committed_offset(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    group = Group({P0: Commit(4)})
    group.errors = [GroupAuthorizationFailedError("orders-readers")]
    consumer = member(make, group)
    await consumer.start()
    group.answers.clear()
    consumer.assign([P0])
    await until(lambda: len(group.asked) == 1)
    consumer.assign([P1])
    await until(lambda: len(group.asked) == 2)
    group.answers.set()
    assert await consumer.position(P1) == 0
    assert await consumer.getmany(timeout_ms=20) == {}
    assert group.asked == [[P0], [P1]]
    assert cluster.count(ApiKey.LIST_OFFSETS) == 1


async def _all(consumer: AIOKafkaConsumer, tp: TopicPartition, count: int) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(10):
        while len(records) < count:
            records += (await consumer.getmany(tp, timeout_ms=1000)).get(tp, [])
    return records
