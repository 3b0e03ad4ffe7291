"""What membership and assignors exchange. Cheap to import, because every consumer's default names
an assignor."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from aiokafka_lite.structs import TopicPartition

__all__ = ["Assignor", "GroupMember", "RebalanceProtocol", "TopicLayout"]


class GroupMember(NamedTuple):
    """A member as the coordinator describes it to the leader."""

    member_id: str
    instance_id: str | None
    subscription: bytes
    """The member's encoded ConsumerProtocolSubscription."""


class TopicLayout(NamedTuple):
    """The part of a topic's metadata that membership needs."""

    partitions: int
    """Number of partitions, numbered from 0."""
    racks: tuple[frozenset[str], ...] = ()
    """By partition, the racks of its replicas; empty if racks do not matter."""
    topic_id: UUID | None = None
    """None with brokers before 2.8."""


class RebalanceProtocol(Enum):
    """The kind of a rebalance (KIP-429); the larger value is preferred."""

    EAGER = 0  # every member revokes all partitions before it joins
    COOPERATIVE = 1  # members revoke only the partitions that move


class Assignor(Protocol):
    """The part of an assignor that a member needs; `LeadingAssignor` adds the leader's part."""

    @property
    def name(self) -> str:
        """The assignor's name in the group protocol."""

    @property
    def rebalance_protocols(self) -> Collection[RebalanceProtocol]:
        """The rebalance protocols that it supports."""

    def subscription(
        self,
        topics: frozenset[str],
        owned: frozenset[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """This member's encoded ConsumerProtocolSubscription, for the leader.

        Args:
            generation: The generation in which `owned` was received; -1: none.
        """

    def on_assignment(self, assignment: bytes, generation: int) -> Collection[TopicPartition]:
        """Decode the leader's ConsumerProtocolAssignment and store it.

        Raises:
            KafkaProtocolError: The bytes are not an assignment.
        """
