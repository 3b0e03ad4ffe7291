"""The part of `FakeCluster`'s face that moves what the cluster knows: topics, leaders, time.

Each lever is what an operator's command, another client or mere time would do, done at once.
"""

from collections.abc import Iterable, Mapping

from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.face.face_base import Face
from aiokafka_lite.testing.topics import Topic

__all__ = ["Levers"]


class Levers(Face):
    """Changes of the cluster's state, at a call."""

    # Time

    def advance(self, seconds: float) -> None:
        """Move the cluster's `VirtualClock` on, and let happen what falls due on the way.

        Raises:
            RuntimeError: The cluster goes by the machine's clock.
            ValueError: Time does not run backwards.
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
            name: Its name.
            partitions: How many, -1 for `default_partitions`; partition `i` is led by broker
                `i` modulo the brokers.
            replication_factor: Replicas of each; -1 for three, or as many brokers as there are.
            configs: Topic configurations by Kafka's names (`message.timestamp.type`, ...).

        Raises:
            BrokerResponseError: What a client would be answered.
        """
        return self._in_loop(
            lambda: self.state.create_topic(name, partitions, replication_factor, configs=configs)
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; created again it has another id."""
        self._in_loop(lambda: self.state.delete_topic(self._topic(name).name))

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow to `total` partitions."""
        self._in_loop(lambda: self.state.add_partitions(self._topic(name).name, total))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start of a partition to offset `before`."""
        found = self.partition(topic, partition)
        self._in_loop(lambda: found.delete_before(before))

    def truncate(self, topic: str, partition: int, to_offset: int) -> int:
        """Lose the end of a log, as an unclean leader election does.

        What is at `to_offset` or after it is gone, and the whole batch that holds it, though it
        was acknowledged; a new leader epoch begins there (KIP-101, KIP-320).

        Returns:
            Where the log ends now.
        """
        found = self.partition(topic, partition)
        return self._in_loop(lambda: found.truncate(to_offset))

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
        """Let another broker coordinate a group (or with `kind` a transactional id).

        What waits in the old coordinator is answered with NOT_COORDINATOR. Keys of the same
        partition of `__consumer_offsets` move along, as they do in Kafka.

        Raises:
            ValueError: There is no such broker, or it is not up.
        """
        self._node(node_id)
        self._in_loop(lambda: self.state.coordinators.move(kind, key, node_id))

    def shrink_isr(self, topic: str, partition: int, node_ids: Iterable[int]) -> None:
        """Let replicas fall behind; with fewer than `min.insync.replicas` left, acks=all fails.

        Raises:
            ValueError: The leader cannot fall behind; or there is no such broker.
        """
        found, nodes = self.partition(topic, partition), self._checked(node_ids)
        self._in_loop(lambda: found.shrink_isr(nodes))

    def expand_isr(self, topic: str, partition: int, node_ids: Iterable[int]) -> None:
        """Let replicas that fell behind catch up."""
        found, nodes = self.partition(topic, partition), self._checked(node_ids)
        self._in_loop(lambda: found.expand_isr(nodes))

    def _checked(self, node_ids: Iterable[int]) -> list[int]:
        return [self._node(node_id).node_id for node_id in node_ids]

    # What time would do

    def apply_retention(self) -> None:
        """Delete what is older than `retention.ms` or more than `retention.bytes`, now.

        Nothing does so by itself: a test that deletes says when. Time is the cluster's clock's.
        """
        self._in_loop(lambda: self.state.apply_retention())

    def compact(self, topic: str) -> None:
        """Keep the newest record of each key of a compacted topic, now.

        Raises:
            ValueError: There is no such topic, or its `cleanup.policy` is another.
        """
        self._in_loop(lambda: self.state.compact(self._topic(topic).name))

    def expire_offsets(self) -> None:
        """Forget committed offsets that are older than `offsets.retention.minutes`, now."""
        self._in_loop(lambda: self.state.groups.expire_offsets())

    def expire_producer_id(self, producer_id: int) -> None:
        """Forget a producer's sequences in every partition; its transactional id stays."""
        self._in_loop(lambda: self.state.transactions.expire_producer_id(producer_id))
