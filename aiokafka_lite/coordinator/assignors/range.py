"""The range assignor under aiokafka's import path."""

from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(NativePartitionAssignor):
    """Assigns each member a range of consecutive partitions per topic; rack-aware.

    Topics with the same partition count and the same members are divided in the same way.
    """

    name = "range"
    native = RangeAssignor
