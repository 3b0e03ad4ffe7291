"""Metadata that loses partitions: temporarily (positions stay) or permanently (they end)."""

import asyncio
from uuid import UUID

import pytest

from aiokafka_lite.cluster.metadata import Metadata, Partition, Topic
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.membership.missing_partitions import Presence
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.errors import (
    BrokerResponseError,
    KafkaStorageError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until

pytestmark = pytest.mark.unhurried

P0, P1, P2 = MINE = [TopicPartition("orders", i) for i in range(3)]
OLD, NEW = UUID(int=1), UUID(int=2)


def told(
    version: int,
    count: int = 0,
    *,
    topic_id: UUID | None = OLD,
    error: type[BrokerResponseError] | None = None,
) -> Metadata:
    partitions = {i: Partition(i, leader=0) for i in range(count)}
    topic = Topic("orders", topic_id, error, partitions=partitions)
    return Metadata(version=version, topics={"orders": topic})


def nothing(version: int) -> Metadata:
    return Metadata(version=version)


@pytest.mark.parametrize(
    "without",
    [
        pytest.param(lambda version: told(version, 2), id="fewer partitions"),
        pytest.param(nothing, id="no such topic"),
        pytest.param(
            lambda version: told(version, 3, error=UnknownTopicOrPartitionError), id="unknown topic"
        ),
        pytest.param(lambda version: told(version, 3, error=UnknownTopicIdError), id="unknown id"),
        pytest.param(lambda version: told(version, 2, topic_id=None), id="no ids"),
    ],
)
def test_partitions_missing_from_metadata_are_kept_for_a_while(without: object) -> None:
    assert callable(without)
    it = Presence(10)
    assert it.kept(told(1, 3), MINE, 0) == set()
    assert P2 in it.kept(without(2), MINE, 100)
    assert P2 in it.kept(without(3), MINE, 109.9)
    assert it.kept(told(4, 3), MINE, 109.95) == set()  # it is back
    assert P2 in it.kept(without(5), MINE, 110)  # and its time starts again
    assert P2 in it.kept(without(6), MINE, 119.9)
    assert it.kept(without(7), MINE, 120) == set()


def test_one_answer_is_not_enough() -> None:
    it = Presence(10)
    assert it.kept(told(1, 2), MINE, 0) == {P2}
    assert it.kept(told(1, 2), MINE, 99) == {P2}  # a leader hint, no new answer
    assert it.kept(told(2, 2), MINE, 100) == set()


def test_a_topic_made_again_with_fewer_partitions() -> None:
    it = Presence(10)
    assert it.kept(told(1, 3), MINE, 0) == set()
    assert it.kept(told(2, 2, error=UnknownTopicOrPartitionError), MINE, 1) == set(MINE)
    assert it.kept(told(3, 2, topic_id=NEW), MINE, 2) == set()


@pytest.mark.parametrize("in_parts", [True, False])
def test_a_topic_recreated_after_refreshes_without_a_change(in_parts: bool) -> None:
    subscription = Subscription(exclude_internal=True)
    subscription.subscribe(["orders"], None, None)
    if in_parts:
        assigned = [tp for part in subscription.first_partitions(told(1, 3)) for tp in part]
    else:
        assigned = subscription.on_metadata(told(1, 3), [], 0) or []
    assert assigned == MINE
    for version in range(2, 5):
        assert subscription.on_metadata(told(version, 3), MINE, version) is None
    assert subscription.on_metadata(told(5, 2, topic_id=NEW), MINE, 5) == [P0, P1]


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError, KafkaStorageError])
def test_other_metadata_errors_do_not_imply_deletion(error: type[BrokerResponseError]) -> None:
    it = Presence(10)
    for version in range(1, 5):
        assert it.kept(told(version, error=error), MINE, version * 100.0) == set(MINE)


def test_unread_partitions_are_removed() -> None:
    it = Presence(10)
    assert it.kept(told(1, 2), MINE, 0) == {P2}
    assert it.kept(told(2, 2), [P0], 9) == set()
    assert it.kept(told(3, 2), MINE, 11) == {P2}


def test_a_pattern_keeps_a_topic_missing_from_metadata() -> None:
    it = Subscription(exclude_internal=True)
    it.subscribe((), "or", None)
    assert it.on_metadata(told(1, 3), [], 0) == MINE
    assert it.on_metadata(nothing(2), MINE, 1) == MINE
    assert it.topics == {"orders"}
    assert it.on_metadata(nothing(3), MINE, 12) == []
    assert it.topics == frozenset()


def test_another_subscription_keeps_nothing() -> None:
    it = Subscription(exclude_internal=True)
    it.subscribe(["orders"], None, None)
    assert it.on_metadata(told(1, 3), [], 0) == MINE
    it.subscribe(["others"], None, None)
    assert it.on_metadata(told(2, 3), MINE, 1) == []


def hide(count: int) -> object:
    """An edit of metadata that leaves this many partitions of each topic."""

    def edit(response: MetadataResponse) -> None:
        for topic in response.topics:
            topic.partitions = [p for p in topic.partitions if p.partition_index < count]

    return edit


async def refreshed(consumer: AIOKafkaConsumer) -> None:
    cluster = consumer._core.cluster
    await cluster.refresh(asyncio.get_running_loop().time() + 5)


@pytest.mark.parametrize("by", ["topic", "pattern", "hand"])
async def test_a_position_outlives_metadata_that_shrinks(
    cluster: FakeCluster, make: MakeConsumer, by: str
) -> None:
    append(cluster, numbered(5), 2)
    consumer = make(auto_offset_reset="latest")
    if by == "hand":
        consumer.assign(MINE)
    elif by == "topic":
        consumer.subscribe(["orders"])
    else:
        consumer.subscribe(pattern="orders")
    await consumer.start()
    assert consumer.assignment() == set(MINE)
    consumer.seek(P2, 3)
    for count in (2, 0):
        fault = cluster.control(ApiKey.METADATA, edit=hide(count), times=1)
        await refreshed(consumer)
        assert fault.hits == 1
        assert consumer.assignment() == set(MINE)
        # Nothing else requests metadata, yet it is requested again, and the position is the old
        # one.
        await until(lambda: consumer._core.positions.state(P2).source.node == 0)
        assert await consumer.position(P2) == 3
    record = await consumer.getone()
    assert (record.partition, record.offset) == (2, 3)


@pytest.mark.parametrize("by", ["topic", "pattern"])
async def test_a_deleted_topic_is_unassigned_and_may_be_created_again(
    cluster: FakeCluster, make: MakeConsumer, by: str
) -> None:
    consumer = make(allow_auto_create_topics=False, metadata_max_age_ms=200)
    if by == "topic":
        consumer.subscribe(["orders"])
    else:
        consumer.subscribe(pattern="orders")
    consumer._core.subscription._presence = Presence(0.05)
    await consumer.start()
    assert consumer.assignment() == set(MINE)
    cluster.delete_topic("orders")
    await until(lambda: not consumer.assignment())
    assert await consumer.getmany(timeout_ms=10) == {}
    cluster.create_topic("orders", 2)
    append(cluster, numbered(1), 1)
    record = await consumer.getone()
    assert (record.partition, record.offset) == (1, 0)
    assert consumer.assignment() == {P0, P1}
