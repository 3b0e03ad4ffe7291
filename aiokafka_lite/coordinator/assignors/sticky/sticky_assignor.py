"""The sticky assignor under aiokafka's import path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka_lite.group.assignment_data import NO_GENERATION
from aiokafka_lite.group.assignors.sticky_assignment import StickyAssignor, write_user_data
from aiokafka_lite.group.assignors.sticky_claims import Claim
from aiokafka_lite.structs import TopicPartition

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(NativePartitionAssignor):
    """Balances partitions with minimal moves from the previous assignment.

    In aiokafka's form the class holds the previous assignment, so two consumers of one process
    would share it. A consumer given exactly this class keeps its own.

    Attributes:
        member_assignment: The last assignment; None before the first.
        generation: Its generation.
    """

    DEFAULT_GENERATION_ID: ClassVar[int] = NO_GENERATION

    name = "sticky"
    native = StickyAssignor
    member_assignment: ClassVar[list[TopicPartition] | None] = None
    generation: ClassVar[int] = NO_GENERATION

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """The subscription sent to the leader: this member's topics and previous partitions."""
        user_data = b""
        if cls.member_assignment is not None:
            user_data = write_user_data(Claim(tuple(cls.member_assignment), cls.generation))
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), user_data)

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Store this member's assignment, which it claims in the next rebalance."""
        cls.member_assignment = assignment.partitions()

    @classmethod
    def on_generation_assignment(cls, generation: int) -> None:
        """Store the generation of the last assignment."""
        cls.generation = generation
