"""Partitioners, under aiokafka's import path, and murmur2."""

import itertools
import random
from collections.abc import Sequence

from aiokafka_lite.record.murmur2 import murmur2

__all__ = ["DefaultPartitioner", "RoundRobinPartitioner", "murmur2"]


class DefaultPartitioner:
    """Java's default partitioner: murmur2 of the key, or any partition that has a leader.

    A producer given an instance of exactly this class (the default) runs the same logic natively
    and improves on it for records without a key: they stick to one partition until it received a
    batch's worth of them (KIP-794). Batches are fuller than with a new choice for each record.
    """

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        """Choose a partition.

        Args:
            key: The serialized key.
            all_partitions: Numbers of the topic's partitions, ascending.
            available: Numbers of the partitions that have a leader, in any order.
        """
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class RoundRobinPartitioner:
    """Java's round-robin partitioner: each record to the next partition that has a leader.

    It ignores keys and fills batches slowly. Use it to spread records evenly over partitions.
    """

    def __init__(self) -> None:
        self._turns = itertools.count()

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        """Choose a partition; see `DefaultPartitioner`."""
        partitions = available or all_partitions
        return partitions[next(self._turns) % len(partitions)]
