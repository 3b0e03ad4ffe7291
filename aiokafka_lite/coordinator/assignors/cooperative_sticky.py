"""The cooperative sticky assignor. Not in aiokafka."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor

__all__ = ["CooperativeStickyPartitionAssignor"]


class CooperativeStickyPartitionAssignor(NativePartitionAssignor):
    """Balances partitions with minimal moves; unmoved partitions are not revoked (KIP-429).

    Members keep their partitions while they rebalance if this is their only assignor. A subclass
    is an assignor in aiokafka's form, which rebalances eagerly.
    """

    name = "cooperative-sticky"
    native = CooperativeStickyAssignor
