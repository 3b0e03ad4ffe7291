"""Maps groups, transactional ids and share groups to their coordinators. No I/O.

As in Kafka, a key belongs by its Java hash to one of the 50 partitions of an internal topic, whose
leader is the coordinator. The topics themselves do not exist: the cluster state replaces their
records.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from aiokafka_lite.errors import GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.watchers import Watchers

__all__ = ["SLOTS", "CoordinatorType", "Coordinators", "slot_of"]

SLOTS: Final = 50  # offsets.topic.num.partitions and transaction.state.log.num.partitions


class CoordinatorType(IntEnum):
    """`key_type` of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def slot_of(key: str) -> int:
    """Return the internal topic's partition of a key (Java's `String.hashCode`)."""
    code = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[index : index + 2], "big")) & 0xFFFFFFFF
    signed = code - 2**32 if code >= 2**31 else code
    return (0 if signed == -(2**31) else abs(signed)) % SLOTS


class Coordinators:
    """Assigns keys to brokers; an assignment stays until the broker is killed.

    Args:
        nodes: Every broker of the cluster, running or killed, by node id.

    Attributes:
        watchers: Notified after every move; an answer that waits in the old coordinator must
            fail with NOT_COORDINATOR.
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._assigned: dict[tuple[CoordinatorType, int], int] = {}
        self.watchers = Watchers()

    def node_of(self, kind: CoordinatorType, key: str) -> Node:
        """Return the coordinator of a key.

        Raises:
            GroupCoordinatorNotAvailableError: No broker is up.
        """
        slot = slot_of(key)
        node_id = self._assigned.get((kind, slot))
        if node_id is None or not self._nodes[node_id].alive:
            node_id = self._next_alive(slot)
            self._assigned[kind, slot] = node_id
        return self._nodes[node_id]

    def check(self, node_id: int, kind: CoordinatorType, key: str) -> None:
        """Check that a broker is the coordinator of a key.

        Raises:
            NotCoordinatorForGroupError: Another broker is the coordinator.
            GroupCoordinatorNotAvailableError: No broker is up.
        """
        if self.node_of(kind, key).node_id != node_id:
            raise NotCoordinatorForGroupError(f"broker {node_id} is not the coordinator of {key!r}")

    def move(self, kind: CoordinatorType, key: str, node_id: int) -> None:
        """Make another broker the coordinator of a key and its slot.

        Raises:
            ValueError: The broker does not exist or is not running.
        """
        node = self._nodes.get(node_id)
        if node is None or not node.alive:
            raise ValueError(f"broker {node_id} cannot coordinate {key!r}: it is not running")
        self._assigned[kind, slot_of(key)] = node_id
        self.watchers.notify()

    def on_node_down(self) -> None:
        """Reassign the keys of a killed broker at their next lookup."""
        self.watchers.notify()

    def on_node_up(self) -> None:
        """Handle a restarted broker: it coordinates keys without a coordinator."""
        self.watchers.notify()

    def _next_alive(self, slot: int) -> int:
        node_ids = list(self._nodes)
        first = slot % len(node_ids)
        for node_id in node_ids[first:] + node_ids[:first]:
            if self._nodes[node_id].alive:
                return node_id
        raise GroupCoordinatorNotAvailableError("no broker is running")
