"""The interface of all assignors, and the choice of a rebalance protocol."""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.group.assignment_data import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from aiokafka_lite.group.assignor import Assignor, GroupMember, RebalanceProtocol, TopicLayout
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "Assigned",
    "LeadingAssignor",
    "NativeAssignor",
    "Subscriptions",
    "TopicLayouts",
    "choose_rebalance_protocol",
    "known_partitions",
    "member_order",
]

Subscriptions: TypeAlias = Mapping[str, Subscription]
"""By member id."""

TopicLayouts: TypeAlias = Mapping[str, TopicLayout]
"""By name; topics that do not exist are omitted."""

Assigned: TypeAlias = dict[str, list[TopicPartition]]
"""By member id, for all members."""


class LeadingAssignor(Assignor, Protocol):
    """A complete assignor: the part of a member, and the part of the leader."""

    def assign(self, members: Sequence[GroupMember], topics: TopicLayouts) -> dict[str, bytes]:
        """Assign the partitions to the members.

        Args:
            members: All members of the generation.
            topics: At least every existing topic that a member subscribes to.

        Returns:
            The bytes for `on_assignment`, by member id, for all members.

        Raises:
            KafkaProtocolError: A member's subscription cannot be read.
        """


class NativeAssignor(abc.ABC):
    """Base class of the built-in assignors. One instance belongs to one member."""

    name: ClassVar[str]
    rebalance_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.EAGER}
    )

    def subscription(
        self,
        topics: frozenset[str],
        owned: frozenset[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """This member's encoded subscription, for the leader."""
        return write_subscription(
            Subscription(tuple(topics), tuple(owned), generation, rack, self.user_data())
        )

    def on_assignment(self, assignment: bytes, generation: int) -> Collection[TopicPartition]:
        """Decode the leader's assignment and store it."""
        partitions = read_assignment(assignment).partitions
        self.remember(partitions, generation)
        return partitions

    def assign(self, members: Sequence[GroupMember], topics: TopicLayouts) -> dict[str, bytes]:
        """Assign the partitions to the members; see `LeadingAssignor`."""
        subscriptions = {
            member.member_id: read_subscription(member.subscription, member.instance_id)
            for member in members
        }
        return {
            member_id: write_assignment(Assignment(tuple(partitions)))
            for member_id, partitions in self.divide(subscriptions, topics).items()
        }

    @staticmethod
    @abc.abstractmethod
    def divide(members: Subscriptions, topics: TopicLayouts) -> Assigned:
        """Compute the assignment; a pure function."""

    def user_data(self) -> bytes | None:
        """The assignor's user data in the subscription, or None."""
        return None

    def remember(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:  # noqa: B027
        """Keep the data for the next `user_data`; most assignors keep nothing."""


def choose_rebalance_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The best rebalance protocol that all of a member's assignors support.

    All must support it: the group chooses an assignor only after its members have joined, which is
    too late to revoke partitions.

    Raises:
        KafkaConfigurationError: There are no assignors, they have no protocol in common, or two
            share a name.
    """
    names: set[str] = set()
    common = set(RebalanceProtocol)
    for assignor in assignors:
        if assignor.name in names:
            raise KafkaConfigurationError(f"two assignors have the name {assignor.name!r}")
        names.add(assignor.name)
        common &= set(assignor.rebalance_protocols)
    if not names:
        raise KafkaConfigurationError("a group member requires an assignor")
    if not common:
        listed = ", ".join(sorted(names))
        raise KafkaConfigurationError(
            f"the assignors {listed} have no rebalance protocol in common"
        )
    return max(common, key=lambda protocol: protocol.value)


def member_order(members: Subscriptions) -> list[str]:
    """Member ids in the order in which they receive partitions.

    Static members come first, by their instance id: they keep their partitions over a restart,
    which gives them new member ids (KIP-345).
    """

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(members, key=rank)


def known_partitions(topics: TopicLayouts, names: Iterable[str]) -> list[TopicPartition]:
    """All partitions of topics in the order of `names`; none of those that do not exist."""
    return [
        TopicPartition(name, number)
        for name in names
        if name in topics
        for number in range(topics[name].partitions)
    ]
