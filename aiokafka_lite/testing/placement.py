"""Assigns replicas to brokers, as requested or round-robin. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka_lite.errors import (
    InvalidPartitionsError,
    InvalidReplicationAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    PolicyViolationError,
)
from aiokafka_lite.testing.features import Features
from aiokafka_lite.testing.topics import NO_LEADER, Partition, Topic

__all__ = ["check_replicas", "in_sync_replicas", "place", "place_as_assigned", "place_more"]

MOST_AT_ONCE: Final = 10_000
"""Maximum number of partitions per request, as in Kafka (`MAX_PARTITIONS_PER_BATCH`)."""


def place(node_ids: Sequence[int], partitions: int, replication_factor: int) -> list[Sequence[int]]:
    """Return the replicas of each partition; leaders rotate from the first broker on.

    Raises:
        InvalidPartitionsError, InvalidReplicationFactorError, PolicyViolationError
    """
    if partitions <= 0:
        raise InvalidPartitionsError(
            "Number of partitions was set to an invalid non-positive value."
        )
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if replication_factor > len(node_ids):
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): only"
            f" {len(node_ids)} broker(s) are registered."
        )
    if partitions > MOST_AT_ONCE:
        raise PolicyViolationError("Excessively large number of partitions per request.")
    twice = list(node_ids) * 2
    starts = (partition % len(node_ids) for partition in range(partitions))
    return [twice[start : start + replication_factor] for start in starts]


def place_as_assigned(
    node_ids: Sequence[int],
    partitions: int,
    replication_factor: int,
    assignments: Mapping[int, Sequence[int]],
) -> list[Sequence[int]]:
    """Return the replicas of each partition as assigned by the client.

    Raises:
        InvalidRequestError, InvalidReplicationAssignmentError
    """
    if replication_factor != -1 or partitions != -1:
        raise InvalidRequestError(
            "A manual partition assignment was specified, but replication factor or"
            " numPartitions was not set to -1."
        )
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplicationAssignmentError(
            "partitions should be a consecutive 0-based integer sequence"
        )
    replicas = [assignments[index] for index in range(len(assignments))]
    for nodes in replicas:
        check_replicas(nodes, node_ids, len(replicas[0]))
    return replicas


def place_more(
    node_ids: Sequence[int],
    topic: Topic,
    total: int,
    replicas: Sequence[Sequence[int]] | None,
) -> list[Sequence[int]]:
    """Return the replicas of a topic's additional partitions.

    Raises:
        InvalidPartitionsError, InvalidReplicationAssignmentError, PolicyViolationError
    """
    present = len(topic.partitions)
    if total == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if total < present:
        raise InvalidPartitionsError(
            f"The topic {topic.name} currently has {present} partition(s); {total} would not be"
            " an increase."
        )
    factor = len(topic.partitions[0].replicas)
    if replicas is None:
        if total - present > MOST_AT_ONCE:
            raise PolicyViolationError(
                "Excessively large number of additional partitions per request."
            )
        twice = list(node_ids) * 2
        starts = (index % len(node_ids) for index in range(present, total))
        return [twice[start : start + factor] for start in starts]
    if len(replicas) != total - present:
        raise InvalidReplicationAssignmentError(
            f"Attempted to add {total - present} additional partition(s), but only"
            f" {len(replicas)} assignment(s) were specified."
        )
    for nodes in replicas:
        check_replicas(nodes, node_ids, factor)
    return list(replicas)


def check_replicas(
    nodes: Sequence[int], node_ids: Sequence[int], factor: int | None = None
) -> None:
    """Check that replicas are non-empty, unique, known and as many as those of other partitions.

    Raises:
        InvalidReplicationAssignmentError
    """
    if not nodes:
        raise InvalidReplicationAssignmentError(
            "The manual partition assignment includes an empty replica list."
        )
    unknown = [node for node in nodes if node not in node_ids]
    if unknown:
        raise InvalidReplicationAssignmentError(
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker"
            " is registered."
        )
    if len(set(nodes)) != len(nodes):
        raise InvalidReplicationAssignmentError(
            f"The manual partition assignment {list(nodes)} includes a broker more than once."
        )
    if factor is not None and len(nodes) != factor:
        raise InvalidReplicationAssignmentError(
            f"The manual partition assignment includes a partition with {len(nodes)} replica(s),"
            f" but this is not consistent with previous partitions, which have {factor}"
            " replica(s)."
        )


def in_sync_replicas(partition: Partition, features: Features) -> tuple[list[int], list[int]]:
    """Return the in-sync replicas, and the other eligible leader replicas (KIP-966).

    `Partition.isr` keeps the last in-sync replica even if it is down. Kafka did the same before it
    had eligible leader replicas.
    """
    isr = list(partition.isr)
    if partition.leader == NO_LEADER and features.level("eligible.leader.replicas.version"):
        return [], isr
    return isr, []
