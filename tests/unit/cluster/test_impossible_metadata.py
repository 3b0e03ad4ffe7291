"""Invalid metadata is rejected before it becomes the client's state."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.cluster.metadata import (
    EMPTY,
    OUTDATED_ANSWERS,
    LeaderHint,
    Metadata,
    Node,
    Partition,
)
from aiokafka_lite.cluster.metadata_merge import GAPS, merge
from aiokafka_lite.errors import KafkaError, KafkaProtocolError
from aiokafka_lite.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

HIGHEST = 2**31 - 1
LOWEST = -(2**31)


def metadata_response(
    *numbers: int, leader: int = 1, epoch: int = 0, **broker: Any
) -> MetadataResponse:
    """A response with one topic and these partitions."""
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(**{"node_id": 1, "host": "b1", "port": 9092, **broker}),
            MetadataResponseBroker(node_id=2, host="b2", port=9092),
        ],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="orders",
                topic_id=UUID(int=1),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=number, leader_id=leader, leader_epoch=epoch
                    )
                    for number in numbers
                ],
            )
        ],
    )


def merged(response: MetadataResponse, old: Metadata = EMPTY) -> Metadata:
    return merge(
        old, response, version=1, api_version=13, asked=frozenset({"orders"}), keep=lambda _: True
    )


@pytest.mark.parametrize(
    "response",
    [
        metadata_response(0, -1),
        metadata_response(-1),
        metadata_response(LOWEST),
        metadata_response(HIGHEST),
        metadata_response(0, 3_000_000),
        metadata_response(0, 1 + GAPS + 1),
        metadata_response(0, 0, 0, GAPS + 2),
        metadata_response(0, leader=-2),
        metadata_response(0, leader=LOWEST),
        metadata_response(0, epoch=-2),
        metadata_response(0, node_id=-1),
        metadata_response(0, node_id=LOWEST),
        metadata_response(0, port=0),
        metadata_response(0, port=-1),
        metadata_response(0, port=65536),
        metadata_response(0, port=HIGHEST),
        metadata_response(0, host=""),
        metadata_response(0, host="a\0b"),
        metadata_response(0, host="\N{ZERO WIDTH SPACE}"),
        metadata_response(0, host="h" * 300),
    ],
)
def test_invalid_response_is_rejected(response: MetadataResponse) -> None:
    with pytest.raises(KafkaProtocolError, match="invalid"):
        merged(response)


def test_partitions_that_never_had_a_leader_may_be_missing() -> None:
    """A cluster with ZooKeeper omits them; the others keep their numbers."""
    partitions = merged(metadata_response(1, 5)).topics["orders"].partitions
    assert set(partitions) == {1, 5}


def test_a_repeated_partition_counts_once() -> None:
    assert len(merged(metadata_response(0, 0, 0)).topics["orders"].partitions) == 1


def test_a_negative_controller_id_means_no_controller() -> None:
    response = metadata_response(0)
    response.controller_id = LOWEST
    assert merged(response).controller_id == -1


@pytest.mark.parametrize(
    "hint",
    [
        LeaderHint("orders", 0, -1, 7),
        LeaderHint("orders", 0, -5, 7, Node(-5, "b5", 9092)),
        LeaderHint("orders", 0, 5, 7, Node(5, "b5", 0)),
        LeaderHint("orders", 0, 5, 7, Node(5, "b5", 70_000)),
        LeaderHint("orders", 0, 5, 7, Node(5, "", 9092)),
        LeaderHint("orders", -1, 2, 7),
        LeaderHint("orders", HIGHEST, 2, 7),
    ],
)
def test_invalid_leader_hint_is_ignored(hint: LeaderHint) -> None:
    metadata = merged(metadata_response(0))
    assert metadata.with_leaders([hint]) is metadata


def partition_after(metadata: Metadata) -> Partition:
    return metadata.topics["orders"].partitions[0]


def test_a_false_epoch_is_dropped_after_consecutive_contradictions() -> None:
    """Otherwise one false epoch would hide every later leader for as long as the client lives."""
    metadata = merged(metadata_response(0, leader=1, epoch=HIGHEST))
    true = metadata_response(0, leader=2, epoch=3)
    for _ in range(OUTDATED_ANSWERS - 1):
        metadata = merged(true, metadata)
        assert partition_after(metadata).leader == 1
    metadata = merged(true, metadata)
    assert (partition_after(metadata).leader, partition_after(metadata).leader_epoch) == (2, 3)
    assert not metadata.outdated


def test_only_consecutive_outdated_responses_count() -> None:
    metadata = merged(metadata_response(0, leader=1, epoch=9))
    for _ in range(3):
        for _ in range(OUTDATED_ANSWERS - 1):
            metadata = merged(metadata_response(0, leader=2, epoch=8), metadata)
        metadata = merged(metadata_response(0, leader=1, epoch=9), metadata)
    assert partition_after(metadata).leader == 1


def test_response_about_other_topics_keeps_the_count() -> None:
    metadata = merged(metadata_response(0, leader=1, epoch=9))
    metadata = merged(metadata_response(0, leader=2, epoch=8), metadata)
    other = merge(
        metadata,
        MetadataResponse(brokers=metadata_response(0).brokers, cluster_id="c", topics=[]),
        version=2,
        api_version=13,
        asked=frozenset(),
        keep=lambda _: True,
    )
    assert other.outdated == metadata.outdated == {("orders", 0): 1}


def number(partitions: list[int]) -> Callable[[MetadataResponse], None]:
    def edit(response: MetadataResponse) -> None:
        for topic in response.topics:
            for partition, index in zip(topic.partitions, partitions, strict=True):
                partition.partition_index = index

    return edit


@pytest.mark.parametrize("partitions", [[0, -1], [0, 3_000_000], [HIGHEST, LOWEST], [-1, -2]])
async def test_producer_survives_invalid_partitions(partitions: list[int]) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, max_block_ms=3000, retry_backoff_ms=1
        )
        async with producer:
            fault = cluster.control(
                ApiKey.METADATA, times=None, after_handling=True, edit=number(partitions)
            )
            tracemalloc.start()
            try:
                with pytest.raises(KafkaError):
                    await producer.send("orders", b"value")
                assert tracemalloc.get_traced_memory()[1] < 20_000_000
            finally:
                tracemalloc.stop()
            fault.remove()
            for value in range(20):
                await producer.send_and_wait("orders", b"%d" % value)
        assert len(cluster.records("orders")) == 20
