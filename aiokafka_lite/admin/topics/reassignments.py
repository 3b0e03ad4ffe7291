"""Changes the replicas of partitions, and lists the changes that are in progress.

Source: AlterPartitionReassignmentsRequest.json v0-v1, ListPartitionReassignmentsRequest.json v0,
KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import INT32, as_partition, as_partitions, flag, whole
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors, perhaps_ours
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.retry import CONTROLLER, raise_error_code
from aiokafka_lite.errors import IllegalArgumentError, NoReassignmentInProgressError
from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "PartitionReassignment",
    "alter_partition_reassignments",
    "list_partition_reassignments",
]

_GUARD_FROM: Final = 1
"""The version that can forbid changes of the replication factor (KIP-860)."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment in progress.

    Attributes:
        replicas: Node ids of all replicas now, those to add and to remove included.
        adding_replicas: Node ids of the replicas that are being added.
        removing_replicas: Node ids of the replicas that will be removed.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


async def alter_partition_reassignments(
    dispatcher: Dispatcher,
    reassignments: Mapping[TopicPartition, Sequence[int] | None],
    timeout_ms: float | None,
    *,
    allow_replication_factor_change: bool,
) -> Results[TopicPartition, None]:
    """See `AIOKafkaAdminClient.alter_partition_reassignments`."""
    deadline = dispatcher.deadline(timeout_ms)
    flag("allow_replication_factor_change", allow_replication_factor_change)
    wanted = _replicas(reassignments)
    outcomes: Outcomes[TopicPartition, None] = Outcomes(
        wanted,
        lambda tp: f"partition {tp.topic}-{tp.partition}",
        retriable=only_controller_errors(False),
    )

    def build(version: int, pending: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
        topics: dict[str, list[ReassignablePartition]] = {}
        for tp in pending:
            replicas = wanted[tp]
            topics.setdefault(tp.topic, []).append(
                ReassignablePartition(tp.partition, None if replicas is None else list(replicas))
            )
        return AlterPartitionReassignmentsRequest(
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[ReassignableTopic(topic, group) for topic, group in topics.items()],
        )

    def read(
        response: AlterPartitionReassignmentsResponse, outcomes: Outcomes[TopicPartition, None]
    ) -> None:
        raise_error_code(response)
        for topic in response.responses:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                message = each.error_message
                if each.error_code == NoReassignmentInProgressError.errno:
                    message = perhaps_ours(outcomes, tp, "cancelled", message)
                if not outcomes.on_code(tp, each.error_code, message):
                    outcomes.on_value(tp, None)

    return await dispatcher.settle(
        outcomes,
        AlterPartitionReassignmentsRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        oldest=0 if allow_replication_factor_change else _GUARD_FROM,
        feature="Reassigning partitions"
        if allow_replication_factor_change
        else "allow_replication_factor_change=False",
    )


async def list_partition_reassignments(
    dispatcher: Dispatcher, partitions: Iterable[TopicPartition] | None, timeout_ms: float | None
) -> dict[TopicPartition, PartitionReassignment]:
    """See `AIOKafkaAdminClient.list_partition_reassignments`."""
    deadline = dispatcher.deadline(timeout_ms)
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for tp in dict.fromkeys(as_partitions(partitions)):
            topics.setdefault(tp.topic, []).append(tp.partition)

    def build(version: int) -> ListPartitionReassignmentsRequest:
        return ListPartitionReassignmentsRequest(
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            topics=None
            if topics is None
            else [
                ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in topics.items()
            ],
        )

    answer = await dispatcher.ask(
        PerVersion(ListPartitionReassignmentsRequest, build),
        CONTROLLER,
        deadline,
        feature="Listing reassignments of partitions",
    )
    return {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def _replicas(given: object) -> dict[TopicPartition, tuple[int, ...] | None]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`reassignments` should be a mapping of partitions, not {given!r}")
    wanted: dict[TopicPartition, tuple[int, ...] | None] = {}
    for key, replicas in given.items():
        tp = as_partition(key)
        if replicas is None:
            wanted[tp] = None
            continue
        what = f"replicas of {tp.topic}-{tp.partition}"
        if isinstance(replicas, str | bytes) or not isinstance(replicas, Iterable):
            raise TypeError(f"{what} should be node ids or None, not {replicas!r}")
        node_ids = tuple(whole("node id", node_id, most=INT32) for node_id in replicas)
        if not node_ids:
            raise IllegalArgumentError(f"{what}: the list is empty; None cancels a reassignment")
        if len(set(node_ids)) < len(node_ids):
            raise IllegalArgumentError(f"{what}: a node id occurs twice in {list(node_ids)}")
        wanted[tp] = node_ids
    return wanted
