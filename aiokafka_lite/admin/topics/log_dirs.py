"""Describes the log directories of brokers, and moves replicas between those of one broker.

Source: DescribeLogDirsRequest.json v0-v5, AlterReplicaLogDirsRequest.json v0-v2, KIP-113, KIP-827,
KIP-1066.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from aiokafka_lite._arguments import INT32, as_partition, as_partitions, whole, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.retry import ToNode
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    for_code,
)
from aiokafka_lite.protocol.message import Request, RequestOf
from aiokafka_lite.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from aiokafka_lite.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "LogDirDescription",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "TopicPartitionReplica",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "describe_replica_log_dirs",
]

V = TypeVar("V")


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition that a broker has."""

    topic: str
    partition: int
    node_id: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory.

    Attributes:
        size: Bytes of its segments.
        offset_lag: How many records it is behind: a current replica behind the high watermark, a
            future one behind the current one.
        is_future: True if the replica is being moved into this directory.
    """

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker.

    Attributes:
        error: Why the directory cannot be used, such as KafkaStorageError; None if it can.
        replicas: The replicas in it.
        total_bytes, usable_bytes: Of its disk; None from brokers before 3.3 (KIP-827).
        is_cordoned: True if the broker puts no new replicas into it (KIP-1066, Kafka 4.3).
    """

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(repr=False)
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaLogDirInfo:
    """Where a broker has a replica.

    Attributes:
        current_dir: None if the broker has no such replica, or if its directory is offline.
        current_offset_lag: How many records it is behind the high watermark.
        future_dir: Where it is being moved; None if it stays.
        future_offset_lag: How many records the copy there is behind the current replica.
    """

    current_dir: str | None = None
    current_offset_lag: int | None = None
    future_dir: str | None = None
    future_offset_lag: int | None = None


async def describe_log_dirs(
    dispatcher: Dispatcher,
    node_ids: Iterable[int] | None,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: float | None,
) -> Results[int, dict[str, LogDirDescription]]:
    """See `AIOKafkaAdminClient.describe_log_dirs`."""
    deadline = dispatcher.deadline(timeout_ms)
    if node_ids is not None:
        node_ids = [
            whole("node id", node_id, most=INT32) for node_id in _several("node_ids", node_ids)
        ]
    topics = None if partitions is None else _topics(as_partitions(partitions))
    return await dispatcher.every_broker(
        DescribeLogDirsRequest(topics=topics),
        _descriptions,
        deadline,
        node_ids=node_ids,
        feature="Describing log directories",
    )


async def describe_replica_log_dirs(
    dispatcher: Dispatcher, replicas: Iterable[TopicPartitionReplica], timeout_ms: float | None
) -> Results[TopicPartitionReplica, ReplicaLogDirInfo]:
    """See `AIOKafkaAdminClient.describe_replica_log_dirs`."""
    deadline = dispatcher.deadline(timeout_ms)
    outcomes: Outcomes[TopicPartitionReplica, ReplicaLogDirInfo] = Outcomes(
        [_replica(each) for each in _several("replicas", replicas)], _label
    )

    def build(asked: list[TopicPartitionReplica]) -> DescribeLogDirsRequest:
        partitions = [TopicPartition(each.topic, each.partition) for each in asked]
        return DescribeLogDirsRequest(topics=_topics(partitions))

    def read(response: DescribeLogDirsResponse, asked: list[TopicPartitionReplica]) -> None:
        described = _descriptions(response)
        for each in asked:
            outcomes.on_value(each, _whereabouts(each, described))

    await _settle_on_nodes(
        dispatcher,
        outcomes,
        DescribeLogDirsRequest,
        build,
        read,
        deadline,
        "Describing log directories",
    )
    return outcomes.results()


async def alter_replica_log_dirs(
    dispatcher: Dispatcher,
    assignment: Mapping[TopicPartitionReplica, str],
    timeout_ms: float | None,
) -> Results[TopicPartitionReplica, None]:
    """See `AIOKafkaAdminClient.alter_replica_log_dirs`."""
    deadline = dispatcher.deadline(timeout_ms)
    given: object = assignment
    if not isinstance(given, Mapping):
        raise TypeError(f"`assignment` should be a mapping of replicas to paths, not {given!r}")
    paths = {_replica(each): wire_string("path", path) for each, path in given.items()}
    outcomes: Outcomes[TopicPartitionReplica, None] = Outcomes(
        # As in Java, all errors are final: the broker may have stored the directory.
        paths,
        _label,
        retriable=lambda error: False,
    )

    def build(asked: list[TopicPartitionReplica]) -> AlterReplicaLogDirsRequest:
        moves: dict[str, dict[str, list[int]]] = {}
        for each in asked:
            moves.setdefault(paths[each], {}).setdefault(each.topic, []).append(each.partition)
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path,
                    [AlterReplicaLogDirTopic(name, indexes) for name, indexes in topics.items()],
                )
                for path, topics in moves.items()
            ]
        )

    def read(response: AlterReplicaLogDirsResponse, asked: list[TopicPartitionReplica]) -> None:
        codes = {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in response.results
            for each in topic.partitions
        }
        for replica in asked:
            code = codes.get((replica.topic, replica.partition))
            if code is not None and not outcomes.on_code(replica, code):
                outcomes.on_value(replica, None)

    await _settle_on_nodes(
        dispatcher,
        outcomes,
        AlterReplicaLogDirsRequest,
        build,
        read,
        deadline,
        "Moving replicas between log directories",
    )
    return outcomes.results()


async def _settle_on_nodes(
    dispatcher: Dispatcher,
    outcomes: Outcomes[TopicPartitionReplica, V],
    request_class: type[Request],
    build: Callable[[list[TopicPartitionReplica]], RequestOf[Any]],
    read: Callable[[Any, list[TopicPartitionReplica]], None],
    deadline: float,
    feature: str,
) -> None:
    """Send each broker a request about its replicas.

    A response does not name its broker, and several brokers have replicas of one partition, so
    `read` receives the replicas that the response covers.
    """

    async def settle(node_id: int, replicas: list[TopicPartitionReplica]) -> None:
        asked: list[TopicPartitionReplica] = []

        def build_pending(version: int) -> RequestOf[Any]:
            nonlocal asked
            asked = outcomes.begin(replicas)
            return build(asked)

        def check(response: Any) -> None:
            read(response, asked)
            outcomes.end(asked)

        try:
            await dispatcher.ask(
                PerVersion(request_class, build_pending),
                ToNode(node_id),
                deadline,
                check=check,
                feature=feature,
            )
        except KafkaError as error:
            outcomes.fail_pending(error, replicas)

    by_node: dict[int, list[TopicPartitionReplica]] = {}
    for each in outcomes.pending:
        by_node.setdefault(each.node_id, []).append(each)
    async with asyncio.TaskGroup() as tasks:
        for node_id, replicas in by_node.items():
            name = f"{request_class.name} to {node_id}"
            tasks.create_task(settle(node_id, replicas), name=name)


def _descriptions(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
    if response.error_code:
        raise for_code(response.error_code)("the broker did not describe its log directories")
    if not response.results:
        # A broker before 3.2 answers so if the client may not describe the cluster.
        raise ClusterAuthorizationFailedError("the broker returned no log directory")
    return {
        each.log_dir: LogDirDescription(
            item_error(each.error_code, f"log directory {each.log_dir!r}")
            if each.error_code
            else None,
            {
                TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                    partition.partition_size, partition.offset_lag, partition.is_future_key
                )
                for topic in each.topics
                for partition in topic.partitions
            },
            None if each.total_bytes < 0 else each.total_bytes,
            None if each.usable_bytes < 0 else each.usable_bytes,
            each.is_cordoned,
        )
        for each in response.results
    }


def _whereabouts(
    replica: TopicPartitionReplica, described: Mapping[str, LogDirDescription]
) -> ReplicaLogDirInfo:
    current_dir = current_lag = future_dir = future_lag = None
    for path, directory in described.items():
        found = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
        if found is None:
            continue
        if found.is_future:
            future_dir, future_lag = path, found.offset_lag
        else:
            current_dir, current_lag = path, found.offset_lag
    return ReplicaLogDirInfo(current_dir, current_lag, future_dir, future_lag)


def _topics(partitions: list[TopicPartition]) -> list[DescribableLogDirTopic]:
    by_topic: dict[str, list[int]] = {}
    for tp in dict.fromkeys(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return [DescribableLogDirTopic(topic, indexes) for topic, indexes in by_topic.items()]


def _several(name: str, given: object) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"`{name}` should be a collection, not {given!r}")
    return list(given)


def _replica(given: object) -> TopicPartitionReplica:
    if not isinstance(given, TopicPartitionReplica):
        raise TypeError(f"replicas should be TopicPartitionReplica objects, not {given!r}")
    as_partition((given.topic, given.partition))
    whole("node_id", given.node_id, most=INT32)
    return given


def _label(replica: TopicPartitionReplica) -> str:
    return f"replica of {replica.topic}-{replica.partition} on broker {replica.node_id}"
