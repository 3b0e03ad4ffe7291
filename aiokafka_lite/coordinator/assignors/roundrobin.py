"""aiokafka's path to the round robin assignor."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(NativePartitionAssignor):
    """All partitions dealt out to the members in turn."""

    name = "roundrobin"
    native = RoundRobinAssignor
