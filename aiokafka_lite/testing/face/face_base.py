"""What the parts of `FakeCluster`'s face share: the state, and the way to it from any thread."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.state import ClusterState
from aiokafka_lite.testing.topics import Partition, Topic

__all__ = ["Face"]

T = TypeVar("T")


class Face(ABC):
    """A part of the cluster's face.

    Attributes:
        state: What the brokers answer from; only `_in_loop` may change it while they run.
    """

    state: ClusterState

    @abstractmethod
    def _in_loop(self, function: Callable[[], T]) -> T:
        """Change or read state where nothing else does at the same time."""

    def partition(self, topic: str, partition: int) -> Partition:
        """The state of a partition, to look at: its log, its leader, its epoch.

        Raises:
            ValueError: There is no such topic or partition.
        """
        partitions = self._topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise ValueError(f"{topic} has no partition {partition}, but {len(partitions)} in all")
        return partitions[partition]

    def _topic(self, name: str) -> Topic:
        topic = self.state.topics.get(name)
        if topic is None:
            there_are = ", ".join(sorted(self.state.topics)) or "none"
            raise ValueError(f"there is no topic {name!r}; there are: {there_are}")
        return topic

    def _node(self, node_id: int) -> Node:
        node = self.state.nodes.get(node_id)
        if node is None:
            raise ValueError(f"there is no broker {node_id}, but {len(self.state.nodes)} in all")
        return node
