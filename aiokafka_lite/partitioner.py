"""Choices of a partition; aiokafka's path to the default one and to murmur2."""

import itertools
import random
from collections.abc import Sequence

from aiokafka_lite.record.murmur2 import murmur2

__all__ = ["DefaultPartitioner", "RoundRobinPartitioner", "murmur2"]


class DefaultPartitioner:
    """Java's choice of a partition: murmur2 of the key, or any partition that has a leader.

    A producer that is given an instance of this very class (the default) does the same natively,
    and better for records without a key: they stick to one partition until a batch's worth of them
    went there (KIP-794), which makes fuller batches than a new choice for each record.
    """

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        """Choose a partition.

        Args:
            key: The serialized key.
            all_partitions: Numbers of the topic's partitions, ascending.
            available: Those of them that have a leader, in any order.
        """
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class RoundRobinPartitioner:
    """Every record to the next partition that has a leader, whatever its key (Java's).

    Batches fill up slowly with it; it is for topics whose every record should weigh the same.
    """

    def __init__(self) -> None:
        self._turns = itertools.count()

    def __call__(
        self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        """Choose a partition; see `DefaultPartitioner`."""
        partitions = available or all_partitions
        return partitions[next(self._turns) % len(partitions)]
