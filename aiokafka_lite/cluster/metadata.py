"""What a client knows of the cluster: an immutable snapshot.

A `Metadata` never changes; `merging` makes the next one from the last and an answer. So whoever
holds a snapshot may read it across awaits, and a listener may compare the old one with the new
one. Nothing here waits, sends or looks at a clock.

Source: MetadataResponse.json, KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidTopicError,
    KafkaProtocolError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
)

NO_LEADER = -1
UNKNOWN_EPOCH = -1
NO_CONTROLLER = -1

LAST_PORT = 65535
LONGEST_HOST = 255
"""Characters of a domain name (RFC 1035)."""

OUTDATED_ANSWERS = 10
"""Consecutive answers with an older leader epoch after which the older epoch is believed. A broker
that lags gives a few. More of them mean that the newer epoch was wrong, or that the topic was
recreated in a cluster without topic ids. Believing an older epoch is safe: a broker that does not
lead the partition refuses requests."""

# What a broker says against a topic that will not pass by itself. Anything else may, an unexpected
# server error included: 0.8.2 answers so while it is starting (the Java client goes on as well).
LASTING_ERRORS: tuple[type[BrokerResponseError], ...] = (
    InvalidTopicError,
    TopicAuthorizationFailedError,
)


class Node(NamedTuple):
    """One broker as the cluster names it: its id and the address it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @classmethod
    def from_broker(cls, node_id: int, host: str, port: int, rack: str | None = None) -> Node:
        """A node that a broker reports.

        Raises:
            KafkaProtocolError: The id is negative, which means "no leader" or a bootstrap address
                elsewhere; or nothing can connect to the host and port.
        """
        node = cls(node_id, host, port, rack)
        if not node.is_possible:
            raise KafkaProtocolError(
                f"The broker reports an impossible node: id {node_id}, host {host[:100]!r}, "
                f"port {port}"
            )
        return node

    @property
    def is_possible(self) -> bool:
        """True if it has the id and the address of a broker."""
        return self.node_id >= 0 and 0 < self.port <= LAST_PORT and _is_host(self.host)


def _is_host(host: str) -> bool:
    """True if a resolver accepts it."""
    if host.isascii() and host.isprintable():
        return 0 < len(host) <= LONGEST_HOST
    try:
        host.encode("idna")  # as the resolver does
    except UnicodeError:
        return False
    return host.isprintable()


class Partition(NamedTuple):
    """One partition as last told.

    Attributes:
        leader: Node id, or -1 while there is none.
        leader_epoch: Epoch of that leadership, or -1 where the broker does not tell it.
        offline: Replicas that are down.
        error: What the broker said against it, or None.
    """

    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = UNKNOWN_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: type[BrokerResponseError] | None = None


class LeaderHint(NamedTuple):
    """A leader told in passing by a produce or fetch response (KIP-951).

    Attributes:
        epoch: Only an epoch newer than the known one is believed.
        node: The leader's address, if the hint brought it.
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as last told.

    Attributes:
        topic_id: Its id, or None where the broker does not tell one (before Kafka 2.8).
        error: What the broker said against it last, or None. With a passing error `partitions`
            are those known before; with a lasting one there are none.
    """

    name: str
    topic_id: UUID | None = None
    error: type[BrokerResponseError] | None = None
    is_internal: bool = False
    partitions: Mapping[int, Partition] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Whether the error is one that will not pass by itself."""
        return self.error in LASTING_ERRORS

    @property
    def settled(self) -> bool:
        """Whether asking again would tell nothing new: each partition has a leader, or the topic
        is refused."""
        if self.error is not None:
            return self.refused
        if not self.partitions:
            return False  # it is just being made, or taken away
        return all(partition.leader != NO_LEADER for partition in self.partitions.values())


@dataclass(frozen=True, slots=True)
class Metadata:
    """A snapshot of the cluster: immutable, so it stays true to its moment.

    Attributes:
        version: The number of the refresh it came from (not of a leader hint): grows, with gaps
            where a refresh failed. 0 before the first answer.
        brokers: Live brokers by node id.
        controller_id: Node id, or -1 where unknown (always with Metadata v0).
        cluster_id: None before Metadata v2.
        topics: By name: those the client tracks, or all.
        topic_names: Name by topic id, of the topics that have one.
        outdated: Consecutive answers that reported an older leader epoch than the one believed, by
            topic and partition.
    """

    version: int = 0
    brokers: Mapping[int, Node] = field(default_factory=dict)
    controller_id: int = NO_CONTROLLER
    cluster_id: str | None = None
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    outdated: Mapping[tuple[str, int], int] = field(default_factory=dict, compare=False, repr=False)

    def partition(self, topic: str, partition: int) -> Partition | None:
        """The partition as last told, or None if nothing is known of it."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> Node | None:
        """The node that leads the partition, or None while none is known or it is not alive."""
        known = self.partition(topic, partition)
        return None if known is None else self.brokers.get(known.leader)

    def with_leaders(self, hints: Iterable[LeaderHint]) -> Metadata:
        """The snapshot that believes leaders told in passing by a produce or fetch response.

        Returns:
            A new snapshot of the same `version`; without any hint that is newer, of a partition
            that is known and a leader whose address is, this very one. Impossible
            hints are ignored, too.

        Source: KIP-951.
        """
        topics: dict[str, dict[int, Partition]] = {}
        brokers: dict[int, Node] = {}
        for topic, partition, leader, epoch, node in hints:
            known_topic = self.topics.get(topic)
            known = None if known_topic is None else known_topic.partitions.get(partition)
            if known_topic is None or known is None or epoch <= known.leader_epoch or leader < 0:
                continue
            if node is not None:
                if not node.is_possible:
                    continue
                brokers[node.node_id] = node
            elif leader not in self.brokers:
                continue
            partitions = topics.get(topic)
            if partitions is None:
                partitions = topics[topic] = dict(known_topic.partitions)
            partitions[partition] = known._replace(leader=leader, leader_epoch=epoch, error=None)
        if not topics:
            return self
        changed = {
            name: replace(self.topics[name], partitions=partitions)
            for name, partitions in topics.items()
        }
        return replace(self, topics={**self.topics, **changed}, brokers={**self.brokers, **brokers})

    def with_node(self, node: Node) -> Metadata:
        """The snapshot that knows one node more (a coordinator may be found before a refresh)."""
        known = self.brokers.get(node.node_id)
        if known is not None and (known.host, known.port) == (node.host, node.port):
            return self  # a coordinator look-up does not tell the rack
        return replace(self, brokers={**self.brokers, node.node_id: node})


EMPTY = Metadata()


def metadata_request(
    asked: Collection[str] | None, api_version: int, auto_create: bool
) -> MetadataRequest:
    """The request for some topics, or (None) for all.

    Metadata v0 has no way to ask for no topic at all: its empty list means all of them.
    """
    topics: list[MetadataRequestTopic] | None = None
    if asked is not None:
        topics = [MetadataRequestTopic(name=name) for name in sorted(asked)]
    elif api_version == 0:
        topics = []
    return MetadataRequest(
        topics=topics,
        # Older versions cannot say no; the brokers do as their configuration says.
        allow_auto_topic_creation=auto_create or api_version < 4,
    )
