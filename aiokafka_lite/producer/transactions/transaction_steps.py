"""Steps of a transaction: requests to coordinators, independent of their version. Sans-IO.

`transaction_requests` encodes a step. Each step is sent to the coordinator of its `place`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import CommitFailedError, KafkaError
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "AddOffsets",
    "AddPartitions",
    "Answer",
    "CommitOffsets",
    "CoordinatorKey",
    "EndTransaction",
    "FindCoordinator",
    "InitProducer",
    "OffsetsOrder",
    "ProducerIdAndEpoch",
    "Step",
]

CoordinatorKey: TypeAlias = tuple[CoordinatorKind, str]
"""Identifies a coordinator: that of a transactional id or of a group."""

ProducerIdAndEpoch: TypeAlias = tuple[int, int]
"""Producer id and epoch."""


@dataclass(eq=False, slots=True)
class OffsetsOrder:
    """Offsets to commit with the transaction.

    Attributes:
        group: The group, and the member that has read up to the offsets (KIP-447).
        offsets: All offsets.
        left: Offsets that the coordinator has not accepted yet.
        done: True if all are part of the transaction, or `error` is set.
    """

    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    left: dict[TopicPartition, OffsetAndMetadata]
    done: bool = False
    error: KafkaError | None = None

    def refused(self) -> CommitFailedError | None:
        """Return the reason why these offsets must not be committed, or None.

        It applies even if the coordinator accepts them.
        """
        lease = self.group.lease if isinstance(self.group, ConsumerGroupMetadata) else None
        return None if lease is None else lease.broken_for(self.offsets)


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Find a coordinator again; the previous one is no longer used."""

    place: CoordinatorKey


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Get a producer id, or the next epoch of an existing one (KIP-360)."""

    place: CoordinatorKey
    identity: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add partitions to the transaction, before anything is written to them."""

    place: CoordinatorKey
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Add a group's offsets to the transaction, before any are committed."""

    place: CoordinatorKey
    identity: ProducerIdAndEpoch
    group_id: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit the offsets of `order` that were left when the step was created."""

    place: CoordinatorKey
    identity: ProducerIdAndEpoch
    order: OffsetsOrder
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    implicit: bool
    """True if the commit itself adds the group to the transaction (KIP-890, part 2)."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort the transaction."""

    place: CoordinatorKey
    identity: ProducerIdAndEpoch
    committed: bool
    implicit: bool
    """True if the coordinator assigns a new epoch (KIP-890, part 2)."""


Step: TypeAlias = (
    FindCoordinator | InitProducer | AddPartitions | AddOffsets | CommitOffsets | EndTransaction
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A coordinator's answer to any step.

    Attributes:
        code: The error code; 0 if only partitions have one.
        partitions: Codes by partition, for AddPartitions and CommitOffsets.
        identity: The new identity, for InitProducer and for an EndTransaction that bumps the
            epoch; None: unchanged.
    """

    code: int = 0
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    identity: ProducerIdAndEpoch | None = None
