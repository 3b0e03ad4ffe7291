"""aiokafka's path to the range assignor."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(NativePartitionAssignor):
    """Of each topic, a run of neighbouring partitions to each member; by racks if there are any.

    Topics with as many partitions and the same members are divided alike.
    """

    name = "range"
    native = RangeAssignor
