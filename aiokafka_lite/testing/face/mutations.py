"""The part of `FakeCluster` that changes cluster state: topics, leaders, time.

Each method applies at once what an operator's command, another client or time would cause.
"""

from collections.abc import Iterable, Mapping

from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.face.face_base import Face
from aiokafka_lite.testing.topics import Topic

__all__ = ["Levers"]


class Levers(Face):
    """Methods that change the cluster's state immediately."""

    # Time

    def advance(self, seconds: float) -> None:
        """Advance the cluster's `VirtualClock` and run every timer that falls due.

        Raises:
            RuntimeError: The cluster uses the system clock.
            ValueError: `seconds` is negative.
        """
        clock = self.state.clock
        if not isinstance(clock, VirtualClock):
            raise RuntimeError("advance() requires FakeCluster(clock=VirtualClock())")
        self._in_loop(lambda: clock.advance(seconds))

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic that is immediately in every broker's metadata.

        Args:
            name: The topic's name.
            partitions: Partition count; -1 for `default_partitions`. Broker `i` modulo the number
                of brokers leads partition `i`.
            replication_factor: Replicas per partition; -1 for three, or for the number of brokers
                if that is smaller.
            configs: Topic configurations by Kafka's names (`message.timestamp.type`, ...).

        Raises:
            BrokerResponseError: The error that a client would receive.
        """
        return self._in_loop(
            lambda: self.state.create_topic(name, partitions, replication_factor, configs=configs)
        )

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Set configurations of a group, which need not exist yet; the others stay.

        Args:
            group: The group id.
            configs: By Kafka's names: `{"share.auto.offset.reset": "earliest"}`.

        Raises:
            InvalidConfigurationError: A name is unknown, or the brokers do not allow a value.
        """
        from aiokafka_lite.testing.configs.config_store import ConfigResource
        from aiokafka_lite.testing.configs.group_configs import check_group_configs

        def configure() -> None:
            check_group_configs(configs, self.state.broker_config)
            known = self.state.configs.of(ConfigResource.GROUP, group)
            self.state.configure(ConfigResource.GROUP, group, {**known, **configs})

        self._in_loop(configure)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; a topic created later with this name has another id."""
        self._in_loop(lambda: self.state.delete_topic(self._topic(name).name))

    def add_partitions(self, name: str, total: int) -> None:
        """Increase a topic's partition count to `total`."""
        self._in_loop(lambda: self.state.add_partitions(self._topic(name).name, total))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start offset of a partition to `before`."""
        found = self.partition(topic, partition)
        self._in_loop(lambda: found.delete_before(before))

    def truncate(self, topic: str, partition: int, to_offset: int) -> int:
        """Truncate a log, as an unclean leader election does.

        Removes the batch that contains `to_offset` and all later batches, although they were
        acknowledged, and starts a new leader epoch there (KIP-101, KIP-320).

        Returns:
            The new log end offset.
        """
        found = self.partition(topic, partition)
        return self._in_loop(lambda: found.truncate(to_offset))

    # Leaders and coordinators

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make another broker the leader of a partition, in a new leader epoch.

        The broker becomes a replica if it was not one. Waiting fetches fail with an error.
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
        """Make another broker the coordinator of a group (or with `kind`, of a transactional id).

        Requests that wait in the old coordinator fail with NOT_COORDINATOR. All keys of the same
        `__consumer_offsets` partition move with it, as in Kafka.

        Raises:
            ValueError: The broker does not exist or is not running.
        """
        self._node(node_id)
        self._in_loop(lambda: self.state.coordinators.move(kind, key, node_id))

    def shrink_isr(self, topic: str, partition: int, node_ids: Iterable[int]) -> None:
        """Remove replicas from the ISR; acks=all fails below `min.insync.replicas`.

        Raises:
            ValueError: `node_ids` contains the leader or an unknown broker.
        """
        found, nodes = self.partition(topic, partition), self._checked(node_ids)
        self._in_loop(lambda: found.shrink_isr(nodes))

    def expand_isr(self, topic: str, partition: int, node_ids: Iterable[int]) -> None:
        """Return replicas to the ISR."""
        found, nodes = self.partition(topic, partition), self._checked(node_ids)
        self._in_loop(lambda: found.expand_isr(nodes))

    def _checked(self, node_ids: Iterable[int]) -> list[int]:
        return [self._node(node_id).node_id for node_id in node_ids]

    # Effects of time

    def apply_retention(self) -> None:
        """Delete records beyond `retention.ms` or `retention.bytes` now.

        Retention never runs by itself; a test calls this method. Time is that of the cluster clock.
        """
        self._in_loop(lambda: self.state.apply_retention())

    def compact(self, topic: str) -> None:
        """Compact a topic now: keep only the newest record of each key.

        Raises:
            ValueError: The topic does not exist, or its `cleanup.policy` is not compact.
        """
        self._in_loop(lambda: self.state.compact(self._topic(topic).name))

    def expire_offsets(self) -> None:
        """Delete committed offsets older than `offsets.retention.minutes` now."""
        self._in_loop(lambda: self.state.groups.expire_offsets())

    def expire_producer_id(self, producer_id: int) -> None:
        """Delete a producer id's sequences in every partition; its transactional id remains."""
        self._in_loop(lambda: self.state.transactions.expire_producer_id(producer_id))
