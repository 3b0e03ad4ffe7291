"""The common base of `FakeCluster`'s base classes: the state, and thread-safe access to it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.state import ClusterState
from aiokafka_lite.testing.topics import Partition, Topic

__all__ = ["Face"]

T = TypeVar("T")


class Face(ABC):
    """A part of `FakeCluster`'s public interface.

    Attributes:
        state: The cluster's state; only `_in_loop` may change it while the brokers run.
    """

    state: ClusterState

    @abstractmethod
    def _in_loop(self, function: Callable[[], T]) -> T:
        """Run `function` in the cluster's loop, where nothing else uses the state concurrently."""

    def partition(self, topic: str, partition: int) -> Partition:
        """Return the state of a partition: its log, leader and leader epoch. Read-only.

        Raises:
            ValueError: The topic or partition does not exist.
        """
        partitions = self._topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise ValueError(
                f"topic {topic!r} has no partition {partition}; it has {len(partitions)} in total"
            )
        return partitions[partition]

    def _topic(self, name: str) -> Topic:
        topic = self.state.topics.get(name)
        if topic is None:
            there_are = ", ".join(sorted(self.state.topics)) or "none"
            raise ValueError(f"topic {name!r} does not exist; existing topics: {there_are}")
        return topic

    def _node(self, node_id: int) -> Node:
        node = self.state.nodes.get(node_id)
        if node is None:
            raise ValueError(
                f"broker {node_id} does not exist; the cluster has {len(self.state.nodes)} in total"
            )
        return node
