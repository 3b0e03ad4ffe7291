"""The cooperative sticky assignor beside aiokafka's, which has none."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor

__all__ = ["CooperativeStickyPartitionAssignor"]


class CooperativeStickyPartitionAssignor(NativePartitionAssignor):
    """Even, with as few moves as can be, and without stopping what does not move (KIP-429).

    Members keep what they have while they rebalance, if this is their only assignor. A subclass is
    an assignor in aiokafka's form, which rebalances eagerly.
    """

    name = "cooperative-sticky"
    native = CooperativeStickyAssignor
