"""Snapshots of groups of both kinds as members join and leave."""

from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lite.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

Connect = Callable[[str], Any]


async def test_a_group_of_the_new_protocol(cluster: FakeCluster, connect: Connect) -> None:
    client = await connect(cluster.address(0))
    request = ConsumerGroupHeartbeatRequest(
        group_id="mine",
        member_id="one",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    await client.ask(request, 1)
    both = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert cluster.group("mine").kind == "consumer"
    assert cluster.group("mine").members == {"one": both}


async def test_a_classic_group(cluster: FakeCluster, connect: Connect) -> None:
    client = await connect(cluster.address(0))
    join = JoinGroupRequest(
        group_id="mine",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    joined = await client.ask(join, 3)
    member = joined.member_id
    assert cluster.group("mine").state == "CompletingRebalance"
    assert cluster.group("mine").members == {member: set()}
    assignment = bytearray(b"\0\0")
    ConsumerProtocolAssignment([AssignedTopic("orders", [1])]).encode(assignment, 0)
    sync = SyncGroupRequest(
        group_id="mine",
        generation_id=joined.generation_id,
        member_id=member,
        assignments=[SyncGroupRequestAssignment(member, bytes(assignment))],
    )
    await client.ask(sync, 3)
    view = cluster.group("mine")
    assert view == ("classic", "Stable", {member: {TopicPartition("orders", 1)}})


async def test_an_unknown_group_is_an_error(cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="group 'mine' does not exist; existing groups: none"):
        cluster.group("mine")
