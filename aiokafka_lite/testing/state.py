"""The state that all brokers of a cluster share: nodes, topics, leaders. No I/O.

It is controller and metadata cache in one: every broker sees a change immediately.
"""

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import UUID

from aiokafka_lite.errors import (
    InvalidTopicError,
    NotLeaderForPartitionError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigStore
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.configs.topic_configs import TopicDefaults, check_configs
from aiokafka_lite.testing.coordinator_table import Coordinators, slot_of
from aiokafka_lite.testing.features import Features
from aiokafka_lite.testing.fetch_sessions import FetchSessionCache
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.placement import check_replicas, place, place_as_assigned, place_more
from aiokafka_lite.testing.quotas import QuotaTable
from aiokafka_lite.testing.security.authorizer import Authorizer
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.throttles import Throttles
from aiokafka_lite.testing.topics import ANY_EPOCH, NO_LEADER, Partition, Topic, check_topic_name

if TYPE_CHECKING:
    from aiokafka_lite.testing.data_folder import Storage
    from aiokafka_lite.testing.groups.group_registry import Groups
    from aiokafka_lite.testing.security.authentication import Sasl
    from aiokafka_lite.testing.security.users import Users
    from aiokafka_lite.testing.share.share_coordination import ShareCoordination
    from aiokafka_lite.testing.telemetry.telemetry_instances import TelemetryInstances
    from aiokafka_lite.testing.transactions.transaction_coordinator import Transactions

__all__ = ["ClusterState"]

LARGEST_REPLICATION: Final = 3  # of topics created without a replication factor
_CAPS_MIN_ISR_FROM: Final = (3, 7)  # KAFKA-15583


class ClusterState:
    """Nodes, topics and counters of one cluster.

    Args:
        nodes: Every broker, running or killed.
        clock: The source of time and timers.
        random: The source of ids; the same seed gives the same ids.
        default_partitions: Partition count of a topic created without one (`num.partitions`).
        auto_create_topics: Create unknown topics on Metadata requests
            (`auto.create.topics.enable`).
        check_records: Decode every produced batch and reject invalid records.
        journal: Stores state across restarts; by default nothing does.
        storage: Stores topics and records across restarts, and contains the journal.
        version: The Kafka release to emulate; None for the latest.
        features: Finalized feature levels that differ from those of a new cluster.
        broker_configs: Static broker configurations, by Kafka's names.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        clock: Clock,
        random: Random,
        default_partitions: int = 1,
        auto_create_topics: bool = True,
        check_records: bool = False,
        journal: Journal | None = None,
        storage: "Storage | None" = None,
        version: str | None = None,
        features: Mapping[str, int] | None = None,
        broker_configs: Mapping[str, object] | None = None,
    ) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.clock = clock
        self.journal = journal or (storage.journal if storage else Journal())
        self._storage = storage
        self.authorizer: Authorizer | None = None  # None allows everything
        self.quotas = QuotaTable(self.journal)
        self.throttles = Throttles(self.quotas, clock)
        self.sasl: Sasl | None = None  # None requires no authentication
        self.coordinators = Coordinators(self.nodes)
        self.features = Features(version, features, self.journal)
        self.configs = ConfigStore(self.journal)
        self.broker_config = BrokerConfigs(broker_configs, self.configs)
        self.broker_config.start_with(
            {
                "auto.create.topics.enable": str(auto_create_topics).lower(),
                "default.replication.factor": str(min(len(self.nodes), LARGEST_REPLICATION)),
                "num.partitions": str(default_partitions),
            }
        )
        if self.features.level("eligible.leader.replicas.version"):
            self.broker_config.set_for_all("min.insync.replicas")  # as in a newly formatted cluster
        self.group_config = GroupConfigs(self.configs, self.broker_config)
        only_node = next(iter(self.nodes)) if len(self.nodes) == 1 else None
        self.topic_defaults = TopicDefaults(self.broker_config, only_node)
        self.check_records = check_records
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self._random = random
        self.fetch_sessions = {
            node_id: FetchSessionCache(
                self.broker_config.integer("max.incremental.fetch.session.cache.slots", node_id),
                self._new_session_id,
            )
            for node_id in self.nodes
        }
        self.cluster_id = base64.urlsafe_b64encode(self.new_uuid().bytes).rstrip(b"=").decode()
        if storage is not None:
            self.cluster_id = storage.cluster_id(fresh=self.cluster_id)
            for topic in storage.load_topics(self._new_topic, self.nodes):
                self.topics[topic.name] = topic
                self.topics_by_id[topic.topic_id] = topic

    @property
    def alive(self) -> list[Node]:
        """The running brokers, by node id."""
        return [node for node in self.nodes.values() if node.alive]

    @property
    def controller_id(self) -> int:
        """The first running broker; -1 if there is none."""
        return next((node.node_id for node in self.alive), -1)

    @cached_property
    def users(self) -> "Users":
        """The users that can authenticate; imported and created on first use."""
        from aiokafka_lite.testing.security.users import Users

        return Users(lambda: self.new_uuid().bytes, self.journal)

    @cached_property
    def groups(self) -> "Groups":
        """The groups; imported and created on first use."""
        from aiokafka_lite.testing.groups.environment import Environment
        from aiokafka_lite.testing.groups.group_registry import Groups

        environment = Environment(
            self.clock, self.journal, self.topics, self.new_uuid, self.broker_config.integer
        )
        groups = Groups(environment, self.coordinators)
        if any(value["kind"] == "consumer" for _, value in self.journal.entries("group")):
            from aiokafka_lite.testing.groups.migration import recall

            recall(groups, self.broker_config, self.group_config)
        if any(value["kind"] == "share" for _, value in self.journal.entries("group")):
            self.__dict__["groups"] = groups  # `share` refers to them
            self.share.recall()
        return groups

    @cached_property
    def share(self) -> "ShareCoordination":
        """The state of share groups; imported and created on first use."""
        from aiokafka_lite.testing.share.dead_letters import DeadLetters
        from aiokafka_lite.testing.share.share_coordination import ShareCoordination

        return ShareCoordination(
            self.nodes,
            self.clock,
            self.journal,
            self.broker_config,
            self.group_config,
            self.features,
            self.groups,
            DeadLetters(
                self.topics,
                lambda name, configs: self.create_topic(name, configs=configs),
                self.broker_config,
                self.clock,
            ),
        )

    @property
    def used_share(self) -> "ShareCoordination | None":
        """The state of share groups, or None if no request has used one yet."""
        if any(True for _ in self.journal.entries("share")):
            return self.share
        made: ShareCoordination | None = self.__dict__.get("share")
        return made

    @cached_property
    def transactions(self) -> "Transactions":
        """The transactional ids; imported and created on first use."""
        from aiokafka_lite.testing.transactions.transaction_coordinator import Transactions

        return Transactions(
            self.clock,
            self.journal,
            self.coordinators,
            self.broker_config.integer,
            lambda: self.features.level("transaction.version"),
            self._find_partition,
            self._all_partitions,
            self._end_offsets,
        )

    @cached_property
    def telemetry(self) -> "TelemetryInstances":
        """The clients that push metrics; imported and created on first use."""
        from aiokafka_lite.testing.telemetry.telemetry_instances import TelemetryInstances

        return TelemetryInstances(self.configs, self.clock, self.new_uuid)

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic; its partitions' leaders rotate from the first broker on.

        Args:
            name: The topic's name.
            partitions: Partition count; -1 for the default, and with `assignments`.
            replication_factor: Replicas per partition; -1 for the default, and with `assignments`.
            assignments: Node ids of the replicas of each partition, the leader first.
            configs: The topic's own configurations.
            validate_only: Only check; the returned topic is not part of the cluster.

        Raises:
            BrokerResponseError: The error for the client; nothing was created.
        """
        check_topic_name(name)
        if name in self.topics:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        collided = name.replace(".", "_")
        for other in self.topics:
            if other.replace(".", "_") == collided:
                raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")
        checked = check_configs(configs or {}, self.topic_defaults)
        topic = self._new_topic(name, self.new_uuid(), checked)
        for replicas in self._place(partitions, replication_factor, assignments):
            self._add_partition(topic, replicas)
        if not validate_only:
            self._keep(topic)  # first: the records of a topic that is not stored would be lost
            self.topics[name] = topic
            self.topics_by_id[topic.topic_id] = topic
        return topic

    def configure_topic(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace a topic's configurations by validated ones, effective immediately."""
        topic.configure(configs)
        self._keep(topic)
        for partition in topic.partitions:
            partition.watchers.notify()  # min.insync.replicas may be lower now

    def configure(self, kind: ConfigResource, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a broker (or all), a group or client metrics by validated
        ones."""
        self.configs.replace(kind, name, configs)
        if kind is ConfigResource.BROKER:
            for topic in self.topics.values():  # their defaults may have changed
                topic.configure(topic.configs)
                for partition in topic.partitions:
                    partition.watchers.notify()  # min.insync.replicas may be lower now

    def delete_topic(self, name: str) -> None:
        """Delete a topic and answer fetches that wait for it."""
        topic = self.topics[name]
        if self._storage is not None:
            self._storage.forget_topic(topic)
        del self.topics[name], self.topics_by_id[topic.topic_id]
        if self.used_share is not None:
            self.used_share.on_topic_deleted(topic.topic_id)
        for partition in topic.partitions:
            partition.lead(NO_LEADER)
        self.groups.on_topic_deleted(name)

    def add_partitions(
        self,
        name: str,
        total: int,
        replicas: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic's partition count to `total`.

        Args:
            name: The topic's name.
            total: The new partition count.
            replicas: Node ids for each new partition, the leader first; None for round-robin.
            validate_only: Only check.

        Raises:
            InvalidPartitionsError, InvalidReplicationAssignmentError, PolicyViolationError
        """
        topic = self.topics[name]
        present = len(topic.partitions)
        placed = place_more(list(self.nodes), topic, total, replicas)
        if validate_only:
            return
        try:
            for nodes in placed:
                self._add_partition(topic, nodes)
            self._keep(topic)
        except BaseException:
            del topic.partitions[present:]  # the records of one that is not stored would be lost
            raise

    def check_replicas(self, nodes: Sequence[int]) -> None:
        """Check the node ids of a partition's replicas.

        Raises:
            InvalidReplicationAssignmentError
        """
        check_replicas(nodes, list(self.nodes))

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change a partition's replicas to validated ones; the leader stays if it is among them."""
        alive = [node for node in replicas if self.nodes[node].alive]
        removed = set(partition.replicas) - set(replicas)
        partition.replicas = list(replicas)
        partition.isr = alive or [replicas[0]]
        if partition.leader not in alive:
            partition.lead(alive[0] if alive else NO_LEADER)
        elif removed:  # a new epoch, so that the removed replicas detect it
            partition.lead(partition.leader)
        self._keep(partition.topic)
        partition.watchers.notify()  # more replicas may be in sync

    def topic(self, name: str | None, topic_id: UUID = ZERO_UUID) -> Topic:
        """Return the topic with an id, or without an id the one with a name.

        Raises:
            UnknownTopicIdError, UnknownTopicOrPartitionError: There is none.
        """
        if topic_id != ZERO_UUID:
            topic = self.topics_by_id.get(topic_id)
            if topic is None:
                raise UnknownTopicIdError(f"topic id {topic_id} does not exist")
            return topic
        topic = self.topics.get(name or "")
        if topic is None:
            raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
        return topic

    def led_partition(
        self, node_id: int, topic: Topic, index: int, leader_epoch: int = ANY_EPOCH
    ) -> Partition:
        """Return a partition for a request to its leader.

        Args:
            node_id: The broker that received the request.
            topic: The partition's topic.
            index: The partition's number.
            leader_epoch: The leader epoch that the client sent (KIP-320); -1 for any.

        Raises:
            UnknownTopicOrPartitionError: The topic has no such partition.
            NotLeaderForPartitionError: This broker is not the leader.
            FencedLeaderEpochError, UnknownLeaderEpochError: The client's epoch is older, or newer.
        """
        partition = topic.partition(index)
        if node_id in partition.replicas:
            partition.check_epoch(leader_epoch)
        self.check_leader(node_id, partition)
        return partition

    def check_leader(self, node_id: int, partition: Partition) -> None:
        """Check that a broker leads a partition.

        Raises:
            NotLeaderForPartitionError: It does not.
        """
        if partition.leader != node_id:
            raise NotLeaderForPartitionError(f"broker {node_id} does not lead {partition}")

    def apply_retention(self) -> None:
        """Apply retention to all topics whose cleanup policy includes delete."""
        for topic in self.topics.values():
            if "delete" in topic.config("cleanup.policy").split(","):
                for partition in topic.partitions:
                    partition.apply_retention(self.clock.now_ms())

    def compact(self, name: str) -> None:
        """Compact every partition of a topic, as a broker's log cleaner does.

        Raises:
            UnknownTopicOrPartitionError: The topic does not exist.
            ValueError: Its `cleanup.policy` does not include compact.
        """
        topic = self.topic(name)
        if not topic.is_compacted:
            raise ValueError(
                f"topic {name!r} cannot be compacted: its cleanup.policy is "
                f"{topic.config('cleanup.policy')!r}"
            )
        for partition in topic.partitions:
            partition.compact(self.clock.now_ms())

    # Nodes

    def on_node_up(self, node_id: int) -> None:
        """Register a broker that has started or restarted."""
        self.nodes[node_id].alive = self.nodes[node_id].registered = True
        alive = [node.node_id for node in self.alive]
        for partition in self._partitions_on(node_id):
            partition.on_node_up(node_id, alive)
        self.coordinators.on_node_up()
        if len(alive) == 1 and any(self.journal.entries("transaction")):
            self.transactions.resume()

    def on_node_down(self, node_id: int) -> None:
        """Handle a killed broker."""
        self.nodes[node_id].alive = False
        self.fetch_sessions[node_id].clear()
        if self.used_share is not None:
            self.used_share.on_node_down(node_id)
        for partition in self._partitions_on(node_id):
            partition.on_node_down(node_id)
        self.coordinators.on_node_down()

    def _find_partition(self, topic: str, index: int) -> Partition | None:
        partitions = self.topics[topic].partitions if topic in self.topics else []
        return partitions[index] if 0 <= index < len(partitions) else None

    def _all_partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def _end_offsets(self, slot: int, producer_id: int, committed: bool) -> None:
        """Complete a producer's transaction in a partition of `__consumer_offsets`."""
        for group in self.groups.all():
            if slot_of(group.group_id) == slot:
                group.offsets.on_marker(producer_id, committed=committed)

    def _place(
        self,
        partitions: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
    ) -> list[Sequence[int]]:
        """Return the replicas of each partition, by partition number."""
        node_ids = list(self.nodes)
        if assignments:
            return place_as_assigned(node_ids, partitions, replication_factor, assignments)
        if partitions == -1:
            partitions = self.broker_config.integer("num.partitions")
        if replication_factor == -1:
            replication_factor = self.broker_config.integer("default.replication.factor")
        return place(node_ids, partitions, replication_factor)

    def _add_partition(self, topic: Topic, replicas: Sequence[int]) -> None:
        partition = topic.add_partition(replicas)
        for node in self.nodes.values():
            if not node.alive and node.node_id in replicas and self.alive:
                partition.on_node_down(node.node_id)

    def _new_topic(self, name: str, topic_id: UUID, configs: Mapping[str, str]) -> Topic:
        return Topic(
            name,
            topic_id,
            configs,
            check_records=self.check_records,
            defaults=self.topic_defaults,
            caps_min_insync_replicas=self.features.release >= _CAPS_MIN_ISR_FROM,
        )

    def _keep(self, topic: Topic) -> None:
        """Store a new or changed topic, if the cluster has a data folder."""
        if self._storage is not None:
            self._storage.keep_topic(topic)

    def _partitions_on(self, node_id: int) -> list[Partition]:
        return [
            partition
            for topic in self.topics.values()
            for partition in topic.partitions
            if node_id in partition.replicas
        ]

    def new_uuid(self) -> UUID:
        """Return a random UUID, which depends on the seed."""
        return UUID(int=self._random.getrandbits(128), version=4)

    def _new_session_id(self) -> int:
        return self._random.randrange(1, 2**31)
