"""Snapshots of share groups, and settings of groups."""

from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

Connect = Callable[[str], Any]
PLACE = TopicPartition("orders", 0)


async def test_the_records_in_flight(cluster: FakeCluster, connect: Connect) -> None:
    cluster.configure_group("workers", {"share.auto.offset.reset": "earliest"})
    cluster.configure_group("workers", {"share.delivery.count.limit": "3"})
    client = await connect(cluster.address(0))
    await client.ask(ShareGroupHeartbeatRequest("workers", "m", 0, None, ["orders"]), 1)
    assert cluster.group("workers").kind == "share"
    assert cluster.group("workers").members["m"] == {PLACE, TopicPartition("orders", 1)}
    assert cluster.share_group("workers").start_offsets == {}
    for _ in range(2):
        cluster.produce("orders", b"tea", partition=0)
    topic_id = cluster.state.topics["orders"].topic_id
    fetch = ShareFetchRequest(
        *("workers", "m", 0, 0, 0),
        max_records=10,
        batch_size=10,
        topics=[FetchTopic(topic_id, [FetchPartition(0)])],
    )
    await client.ask(fetch, 2)
    view = cluster.share_group("workers")
    assert view.acquired == {PLACE: {0: "m", 1: "m"}}
    assert view.delivery_counts == {PLACE: {0: 1, 1: 1}}
    assert view.start_offsets == {PLACE: 0}
    cluster.disconnect()
    assert cluster.share_group("workers").acquired == {}
    assert cluster.share_group("workers").delivery_counts == {PLACE: {0: 1, 1: 1}}
    assert cluster.dead_letters("workers") == []


async def test_groups_that_are_not_share_groups(cluster: FakeCluster) -> None:
    for look in (cluster.share_group, cluster.dead_letters):
        with pytest.raises(ValueError, match="'workers' does not exist"):
            look("workers")
    cluster.state.groups.classic("old")
    with pytest.raises(ValueError, match="classic group, not a share group"):
        cluster.share_group("old")


async def test_invalid_configurations_of_groups(cluster: FakeCluster) -> None:
    with pytest.raises(InvalidConfigurationError, match=r"share\.delivery\.count\.limit"):
        cluster.configure_group("workers", {"share.delivery.count.limit": "11"})
    with pytest.raises(InvalidConfigurationError, match="nope"):
        cluster.configure_group("workers", {"nope": "1"})
