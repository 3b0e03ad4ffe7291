"""The round-robin assignor under aiokafka's import path."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(NativePartitionAssignor):
    """Assigns all partitions to the members in turn."""

    name = "roundrobin"
    native = RoundRobinAssignor
