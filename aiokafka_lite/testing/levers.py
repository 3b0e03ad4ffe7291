"""The part of ``FakeCluster``'s face that moves what the cluster knows: topics, leaders, time.

Each lever is what an operator's command, another client or mere time would do, done at once.
"""

from collections.abc import Mapping

from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.coordinators import CoordinatorType
from aiokafka_lite.testing.face import Face
from aiokafka_lite.testing.topics import Topic

__all__ = ["Levers"]


class Levers(Face):
    """Changes of the cluster's state, at a call."""

    # Time

    def advance(self, seconds: float) -> None:
        """Move the cluster's ``VirtualClock`` on, and let happen what falls due on the way.

        Raises:
            RuntimeError: the cluster goes by the machine's clock.
            ValueError: time does not run backwards.
        """
        clock = self.state.clock
        if not isinstance(clock, VirtualClock):
            raise RuntimeError("advance() needs FakeCluster(clock=VirtualClock())")
        self._in_loop(lambda: clock.advance(seconds))

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic at once, known to every broker.

        Args:
            name: its name.
            partitions: how many, -1 for ``default_partitions``; partition ``i`` is led by broker
                ``i`` modulo the brokers.
            replication_factor: replicas of each; -1 for three, or as many brokers as there are.
            configs: topic configurations by Kafka's names (``message.timestamp.type``, ...).

        Raises:
            BrokerResponseError: what a client would be answered.
        """
        return self._in_loop(
            lambda: self.state.create_topic(name, partitions, replication_factor, configs=configs)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; created again it has another id."""
        self._topic(name)
        self._in_loop(lambda: self.state.delete_topic(name))

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow to ``total`` partitions."""
        self._topic(name)
        self._in_loop(lambda: self.state.add_partitions(name, total))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start of a partition to offset ``before``."""
        found = self.partition(topic, partition)
        self._in_loop(lambda: found.log.delete_before(before))

    # Who leads, who coordinates

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make another broker the leader of a partition, in a new leader epoch.

        It becomes a replica if it was none. Fetches that wait are answered with an error.
        """
        moved = self.partition(topic, partition)
        self._node(node_id)

        def move() -> None:
            for nodes in (moved.replicas, moved.isr):
                if node_id not in nodes:
                    nodes.append(node_id)
            moved.lead(node_id)

        self._in_loop(move)

    def move_coordinator(
        self, key: str, node_id: int, kind: CoordinatorType = CoordinatorType.GROUP
    ) -> None:
        """Let another broker coordinate a group (or with ``kind`` a transactional id).

        What waits in the old coordinator is answered with NOT_COORDINATOR. Keys of the same
        partition of ``__consumer_offsets`` move along, as they do in Kafka.

        Raises:
            ValueError: there is no such broker, or it is not up.
        """
        self._node(node_id)
        self._in_loop(lambda: self.state.coordinators.move(kind, key, node_id))
