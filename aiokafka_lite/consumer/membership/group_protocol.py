"""Chooses the rebalance protocol of a consumer's group, and makes the membership."""

from __future__ import annotations

from typing import NamedTuple

from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer.consumer_options import GroupOptions
from aiokafka_lite.coordinator.strategy import assignors_of
from aiokafka_lite.group.assignors.interface import LeadingAssignor, choose_rebalance_protocol
from aiokafka_lite.group.classic.machine import ClassicMembership
from aiokafka_lite.group.consumer.machine import ConsumerMembership
from aiokafka_lite.group.membership import Membership, MembershipOptions, RebalanceProtocol


class GroupProtocol(NamedTuple):
    """The protocol of one member.

    Attributes:
        membership: The state machine.
        assignors: The assignors that the member offers; empty if the broker assigns.
        gradual: True if rebalances are not eager, so that a new member may get partitions late.
    """

    membership: Membership
    assignors: tuple[LeadingAssignor, ...]
    gradual: bool

    @classmethod
    def of(
        cls, options: GroupOptions, member: MembershipOptions, cluster: Cluster
    ) -> GroupProtocol:
        """Make the membership for these options.

        Args:
            options: The consumer's options of its group.
            member: The membership's options.
            cluster: The cluster whose metadata is passed to assignors.

        Raises:
            TypeError, KafkaConfigurationError: The strategy is invalid, or its assignors cannot be
                combined.
        """
        if options.modern:
            return cls(ConsumerMembership(member), (), True)
        assignors = assignors_of(options.strategy, ClusterMetadata(lambda: cluster.metadata))
        protocol = choose_rebalance_protocol(assignors)
        return cls(
            ClassicMembership(member, assignors),
            assignors,
            protocol is RebalanceProtocol.COOPERATIVE,
        )
