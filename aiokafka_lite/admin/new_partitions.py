"""`NewPartitions`: partitions to add to a topic."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka_lite._arguments import INT32, whole
from aiokafka_lite.errors import IllegalArgumentError

__all__ = ["NewPartitions"]


class NewPartitions:
    """The new number of partitions of a topic.

    Args:
        total_count: The number of partitions, those that exist included.
        new_assignments: For each partition to add, in order, the node ids of its replicas, the
            preferred leader first; None: the cluster assigns them.

    Raises:
        IllegalArgumentError: `total_count` is below 1, or there are more assignments than that.
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.total_count = whole("total_count", total_count, least=1, most=INT32)
        self.new_assignments: list[list[int]] | None = None
        if new_assignments is not None:
            self.new_assignments = [
                [whole("replica", node_id, most=INT32) for node_id in node_ids]
                for node_ids in new_assignments
            ]
            if len(self.new_assignments) >= self.total_count:
                raise IllegalArgumentError(
                    f"{len(self.new_assignments)} new_assignments for {total_count} partitions in "
                    "total: they are those of the added partitions only"
                )

    def __repr__(self) -> str:
        return f"NewPartitions({self.total_count}, {self.new_assignments!r})"
