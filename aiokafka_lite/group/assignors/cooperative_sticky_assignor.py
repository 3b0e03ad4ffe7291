"""The cooperative sticky assignor: sticky, and members keep their partitions while they rebalance.

A partition that moves between members is assigned to neither at first. Its owner revokes it and
rejoins; only then is it assigned to the new owner (KIP-429).
"""

from __future__ import annotations

from typing import ClassVar

from aiokafka_lite.group.assignment_data import NO_GENERATION, Subscription
from aiokafka_lite.group.assignor import RebalanceProtocol
from aiokafka_lite.group.assignors.interface import (
    Assigned,
    NativeAssignor,
    Subscriptions,
    TopicLayouts,
)
from aiokafka_lite.group.assignors.sticky_assignment import divide_by_claims
from aiokafka_lite.group.assignors.sticky_claims import Claim
from aiokafka_lite.protocol.primitives import INT32
from aiokafka_lite.structs import TopicPartition

__all__ = ["CooperativeStickyAssignor", "cooperative_sticky_assignment"]


def cooperative_sticky_assignment(members: Subscriptions, topics: TopicLayouts) -> Assigned:
    """Compute the sticky assignment, without the partitions that must be revoked first."""
    claims = {
        member_id: Claim(member.owned, _generation(member)) for member_id, member in members.items()
    }
    assigned, moving = divide_by_claims(members, topics, claims)
    if moving is None:
        moving = _moving(members, assigned)
    if moving:
        for member_id in set(moving.values()):
            assigned[member_id] = [
                partition for partition in assigned[member_id] if moving.get(partition) != member_id
            ]
    return assigned


def _moving(members: Subscriptions, assigned: Assigned) -> dict[TopicPartition, str]:
    """Partitions that are new to one member while another must revoke them."""
    owned = {member_id: frozenset(member.owned) for member_id, member in members.items()}
    given_back = {
        partition
        for member_id, partitions in owned.items()
        for partition in partitions.difference(assigned[member_id])
    }
    return {
        partition: member_id
        for member_id, partitions in assigned.items()
        for partition in partitions
        if partition in given_back and partition not in owned[member_id]
    }


def _generation(member: Subscription) -> int:
    """The generation of a member's owned partitions; in user data before Kafka 3.5 (KIP-792)."""
    if member.generation > NO_GENERATION:
        return member.generation
    if member.user_data is None or len(member.user_data) < INT32.size:
        return NO_GENERATION
    generation: int = INT32.unpack_from(member.user_data)[0]
    return max(generation, NO_GENERATION)


class CooperativeStickyAssignor(NativeAssignor):
    """Java's CooperativeStickyAssignor; cooperative if used without an eager assignor."""

    name: ClassVar[str] = "cooperative-sticky"
    rebalance_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER}
    )
    divide = staticmethod(cooperative_sticky_assignment)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self) -> bytes | None:
        """The generation of the last assignment, for leaders that read older subscriptions only."""
        return INT32.pack(self._generation)

    def remember(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Keep the generation."""
        self._generation = generation
