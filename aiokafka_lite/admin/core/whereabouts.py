"""Looks up the leaders of many partitions, or the coordinators of many keys, in one request.

An item whose broker is unknown gets its error in the call's `Outcomes`; the others are returned by
node id. The request itself is retried by `cluster.retry.call`.

Source: MetadataRequest.json, FindCoordinatorRequest.json, KIP-699.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.metadata_requests import TopicMetadata
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.metadata import NO_LEADER, Node
from aiokafka_lite.cluster.refresh.refresh_task import PATIENCE
from aiokafka_lite.cluster.retry import ANY, CoordinatorOf, call
from aiokafka_lite.errors import (
    GroupCoordinatorNotAvailableError,
    KafkaError,
    KafkaProtocolError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.structs import TopicPartition

_BATCHED_FROM = 4
"""The version of FindCoordinator that takes many keys."""
_LOOKUPS_AT_ONCE = 500
"""Keys in a FindCoordinator request: a response about 500 takes 5 ms to read."""


async def find_leaders(
    cluster: Cluster,
    partitions: list[TopicPartition],
    outcomes: Outcomes[TopicPartition, Any],
    deadline: float,
) -> Mapping[int, list[TopicPartition]]:
    """Return the partitions by the node id of their leader.

    It asks a broker each time, because the client's metadata does not track the topics of admin
    calls. The request does not create topics.
    """
    metadata = TopicMetadata(_leader)
    found = await metadata.request(
        lambda request: call(cluster, request, ANY, deadline, patience=PATIENCE),
        list(dict.fromkeys(tp.topic for tp in partitions)),
    )
    nodes = {each.node_id: each for each in metadata.brokers}
    topics = {topic.name: (topic, dict(leaders)) for topic, leaders in found}
    placed: dict[int, list[TopicPartition]] = {}
    slices = Slices()
    for tp in partitions:
        if slices.over():
            await slices.pause()
        try:
            node = _leader_of(tp, topics, nodes, outcomes.label(tp))
        except KafkaError as error:
            outcomes.on_lookup_error(tp, error)
            continue
        cluster.learn_node(node)
        placed.setdefault(node.node_id, []).append(tp)
    return placed


def _leader(partition: MetadataResponsePartition) -> tuple[int, int]:
    return partition.partition_index, partition.leader_id


def _leader_of(
    tp: TopicPartition,
    topics: Mapping[str | None, tuple[MetadataResponseTopic, Mapping[int, int]]],
    nodes: Mapping[int, MetadataResponseBroker],
    label: str,
) -> Node:
    """Return the leader of a partition, or raise the reason why there is none."""
    if tp.topic not in topics:
        raise KafkaProtocolError(f"{label}: the metadata omits it")
    topic, leaders = topics[tp.topic]
    if topic.error_code:
        raise item_error(topic.error_code, label)
    leader_id = leaders.get(tp.partition)
    if leader_id is None:
        raise UnknownTopicOrPartitionError(f"{label}: the topic has {len(leaders)} partitions")
    leader = nodes.get(leader_id)
    if leader_id == NO_LEADER or leader is None:
        raise LeaderNotAvailableError(f"{label}: it has no leader")
    return Node.from_broker(leader.node_id, leader.host, leader.port, leader.rack)


async def find_coordinators(
    cluster: Cluster,
    kind: CoordinatorKind,
    keys: list[str],
    outcomes: Outcomes[str, Any],
    deadline: float,
) -> Mapping[int, list[str]]:
    """Return the keys by the node id of their coordinator, cached or looked up."""
    placed: dict[int, list[str]] = {}
    unknown = _place(cluster, kind, keys, placed)
    if unknown:
        try:
            for start in range(0, len(unknown), _LOOKUPS_AT_ONCE):
                part = unknown[start : start + _LOOKUPS_AT_ONCE]
                await _look_up_together(cluster, kind, part, outcomes, deadline)
        except UnsupportedVersionError:
            await _look_up_apart(cluster, kind, unknown, outcomes, deadline)
        _place(cluster, kind, filter(outcomes.is_pending, unknown), placed)
    return placed


def _place(
    cluster: Cluster, kind: CoordinatorKind, keys: Iterable[str], placed: dict[int, list[str]]
) -> list[str]:
    """Add the keys with a known coordinator to its node id; return the others."""
    known = cluster.coordinators
    unknown: list[str] = []
    for key in keys:
        node_id = known.get(kind, key)
        if node_id is None:
            unknown.append(key)
        else:
            placed.setdefault(node_id, []).append(key)
    return unknown


async def _look_up_together(
    cluster: Cluster,
    kind: CoordinatorKind,
    keys: list[str],
    outcomes: Outcomes[str, Any],
    deadline: float,
) -> None:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)

    def check(response: FindCoordinatorResponse) -> None:
        untold = set(keys)
        for each in response.coordinators:
            if each.key not in untold:
                continue
            untold.remove(each.key)
            label = f"coordinator of {each.key!r}"
            if each.error_code:
                error = item_error(each.error_code, label, each.error_message)
                outcomes.on_error(each.key, error)
                continue
            try:
                node = Node.from_broker(each.node_id, each.host, each.port)
            except KafkaProtocolError as wrong:  # another broker may answer correctly
                outcomes.on_error(
                    each.key, GroupCoordinatorNotAvailableError(f"{label}: {wrong.args[0]}")
                )
                continue
            cluster.learn_node(node)
            cluster.coordinators.set(kind, each.key, node.node_id)
        for key in untold:
            why = f"coordinator of {key!r}: the response omits it"
            outcomes.on_error(key, KafkaProtocolError(why))

    oldest = 6 if kind is CoordinatorKind.SHARE else _BATCHED_FROM
    await call(cluster, request, ANY, deadline, check=check, patience=PATIENCE, oldest=oldest)


async def _look_up_apart(
    cluster: Cluster,
    kind: CoordinatorKind,
    keys: list[str],
    outcomes: Outcomes[str, Any],
    deadline: float,
) -> None:
    """One request for each key, all at once: for brokers before 3.0."""

    async def look_up(key: str) -> None:
        try:
            await CoordinatorOf(key, kind).find(cluster, -1, deadline)
        except KafkaError as error:
            outcomes.on_error(key, error)

    async with asyncio.TaskGroup() as tasks:
        for key in keys:
            tasks.create_task(look_up(key), name=f"look up the coordinator of {key!r}")
