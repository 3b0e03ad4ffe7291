"""aiokafka's path to the sticky assignor."""

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
    """Even, with as few moves as can be from what members had before.

    In aiokafka's form the memory belongs to the class, so two consumers of one process would share
    it; a consumer that is given this very class has its own.

    Attributes:
        member_assignment: What was assigned last; None: nothing yet.
        generation: When.
    """

    DEFAULT_GENERATION_ID: ClassVar[int] = NO_GENERATION

    name = "sticky"
    native = StickyAssignor
    member_assignment: ClassVar[list[TopicPartition] | None] = None
    generation: ClassVar[int] = NO_GENERATION

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What the leader is to know of this member: its topics, and what it had."""
        user_data = b""
        if cls.member_assignment is not None:
            user_data = write_user_data(Claim(tuple(cls.member_assignment), cls.generation))
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), user_data)

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """This member was assigned partitions, which it will claim next time."""
        cls.member_assignment = assignment.partitions()

    @classmethod
    def on_generation_assignment(cls, generation: int) -> None:
        """In which generation that was."""
        cls.generation = generation
