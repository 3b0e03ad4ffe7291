"""What a transactional producer asks of coordinators, one step at a time: sans-IO.

A step says what is asked, not in which version: `requests` puts it into bytes. Each goes to the
coordinator of its `place`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import CommitFailedError, KafkaError
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata
from aiokafka_lite.group.membership import GroupMetadata
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "AddOffsets",
    "AddPartitions",
    "Answer",
    "CommitOffsets",
    "EndTransaction",
    "FindCoordinator",
    "Identity",
    "InitProducer",
    "OffsetsOrder",
    "Place",
    "Step",
]

Place: TypeAlias = tuple[CoordinatorKind, str]
"""Whose coordinator: the transactional id's, or a group's."""

Identity: TypeAlias = tuple[int, int]
"""Producer id and epoch."""


@dataclass(eq=False, slots=True)
class OffsetsOrder:
    """Offsets that the application wants committed with the transaction.

    Attributes:
        group: Whose, and who has read up to there (KIP-447).
        offsets: All of them.
        left: What the coordinator has not accepted yet.
        done: It came to an end: all are part of the transaction, or `error` says why not.
    """

    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    left: dict[TopicPartition, OffsetAndMetadata]
    done: bool = False
    error: KafkaError | None = None

    def refused(self) -> CommitFailedError | None:
        """Why these offsets must not be committed, whatever the coordinator says, or None."""
        lease = self.group.lease if isinstance(self.group, ConsumerGroupMetadata) else None
        return None if lease is None else lease.broken_for(self.offsets)


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Who coordinates; whoever was found before is believed no more."""

    place: Place


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Get a producer id; or, with one, its next epoch (KIP-360)."""

    place: Place
    identity: Identity


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Make partitions part of the transaction, before anything is written there."""

    place: Place
    identity: Identity
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Make a group's offsets part of the transaction, before any are committed."""

    place: Place
    identity: Identity
    group_id: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets with the transaction; of `order`, what was left when this was made."""

    place: Place
    identity: Identity
    order: OffsetsOrder
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    implicit: bool
    """The commit itself makes the group part of the transaction (KIP-890, part 2)."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort."""

    place: Place
    identity: Identity
    committed: bool
    implicit: bool
    """It ends in a new epoch (KIP-890, part 2)."""


Step: TypeAlias = (
    FindCoordinator | InitProducer | AddPartitions | AddOffsets | CommitOffsets | EndTransaction
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a coordinator answered to any step.

    Attributes:
        code: Of all; 0 where only partitions have one.
        partitions: Codes by partition, of AddPartitions and CommitOffsets.
        identity: The one to go on with, of InitProducer, and of an EndTransaction that bumps;
            None: it stays.
    """

    code: int = 0
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    identity: Identity | None = None
