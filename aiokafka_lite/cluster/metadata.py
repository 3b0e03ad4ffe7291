"""Cluster metadata: an immutable snapshot.

A `Metadata` never changes; `metadata_merge` builds the next one from the last one and a response.
So a snapshot can be read across awaits, and a listener can compare the old with the new one. This
module does no I/O and reads no clock.

Source: MetadataResponse.json, KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple
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
"""Consecutive responses with an older leader epoch after which the older epoch is accepted. A
lagging broker sends a few. More of them mean that the newer epoch was wrong, or that the topic was
recreated in a cluster without topic ids. Accepting an older epoch is safe: a broker that does not
lead the partition rejects requests."""

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})

# Topic errors that are not retriable. Any other error is, including an unexpected server error:
# 0.8.2 returns it while it starts (the Java client retries as well).
LASTING_ERRORS: tuple[type[BrokerResponseError], ...] = (
    InvalidTopicError,
    TopicAuthorizationFailedError,
)


class Node(NamedTuple):
    """One broker: its id and the address that it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @classmethod
    def from_broker(cls, node_id: int, host: str, port: int, rack: str | None = None) -> Node:
        """A node that a broker reports.

        Raises:
            KafkaProtocolError: The id is negative (elsewhere that means "no leader" or a bootstrap
                address), or the host and port are not a valid address.
        """
        node = cls(node_id, host, port, rack)
        if not node.is_possible:
            raise KafkaProtocolError(
                f"The broker reported an invalid node: id {node_id}, host {host[:100]!r}, "
                f"port {port}"
            )
        return node

    @property
    def is_possible(self) -> bool:
        """True if the id and the address can be those of a broker."""
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
    """One partition as last reported.

    Attributes:
        leader: Node id, or -1 if there is none.
        leader_epoch: The leader's epoch, or -1 if the broker does not report it.
        offline: Replicas that are down.
        error: The partition's error, or None.
    """

    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = UNKNOWN_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: type[BrokerResponseError] | None = None


class LeaderHint(NamedTuple):
    """A leader reported by a produce or fetch response (KIP-951).

    Attributes:
        epoch: Only an epoch newer than the known one is accepted.
        node: The leader's address, if the hint includes it.
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    node: Node | None = None


class Topic(NamedTuple):
    """One topic as last reported.

    Attributes:
        topic_id: Its id, or None if the broker does not report one (before Kafka 2.8).
        error: The topic's last error, or None. With a retriable error `partitions` are those known
            before; with a lasting one it is empty.
    """

    name: str
    topic_id: UUID | None = None
    error: type[BrokerResponseError] | None = None
    is_internal: bool = False
    partitions: Mapping[int, Partition] = _NOTHING

    @property
    def refused(self) -> bool:
        """True if the error is not retriable."""
        return self.error in LASTING_ERRORS

    @property
    def settled(self) -> bool:
        """True if no further request is needed: every partition has a leader, or the topic is
        refused."""
        if self.error is not None:
            return self.refused
        if not self.partitions:
            return False  # the topic is being created or deleted
        return all(partition.leader != NO_LEADER for partition in self.partitions.values())


class Metadata(NamedTuple):
    """An immutable snapshot of the cluster.

    Attributes:
        version: The number of the refresh that produced it; increases, with gaps for failed
            refreshes. Leader hints keep it. 0 before the first response.
        brokers: Live brokers by node id.
        controller_id: Node id, or -1 if unknown (always with Metadata v0).
        cluster_id: None before Metadata v2.
        topics: By name: those the client tracks, or all.
        topic_names: Name by topic id, for the topics that have one.
        outdated: Consecutive responses that reported an older leader epoch than the accepted one,
            by topic and partition.
    """

    version: int = 0
    brokers: Mapping[int, Node] = _NOTHING
    controller_id: int = NO_CONTROLLER
    cluster_id: str | None = None
    topics: Mapping[str, Topic] = _NOTHING
    topic_names: Mapping[UUID, str] = _NOTHING
    outdated: Mapping[tuple[str, int], int] = _NOTHING

    def partition(self, topic: str, partition: int) -> Partition | None:
        """The partition as last reported, or None if it is unknown."""
        known = self.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> Node | None:
        """The partition's leader, or None if it is unknown or not live."""
        known = self.partition(topic, partition)
        return None if known is None else self.brokers.get(known.leader)

    def with_leaders(self, hints: Iterable[LeaderHint]) -> Metadata:
        """The snapshot with newer leaders from a produce or fetch response.

        Ignores hints with an older or equal epoch, of an unknown partition, of a leader without a
        known address, and impossible ones.

        Returns:
            A new snapshot of the same `version`, or this one if no hint applies.

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
            name: self.topics[name]._replace(partitions=partitions)
            for name, partitions in topics.items()
        }
        return self._replace(topics={**self.topics, **changed}, brokers={**self.brokers, **brokers})

    def with_node(self, node: Node) -> Metadata:
        """The snapshot with one more node (a coordinator may be found before a refresh)."""
        known = self.brokers.get(node.node_id)
        if known is not None and (known.host, known.port) == (node.host, node.port):
            return self  # keeps the rack, which a coordinator lookup does not return
        return self._replace(brokers={**self.brokers, node.node_id: node})


EMPTY = Metadata()


def metadata_request(
    asked: Collection[str] | None, api_version: int, auto_create: bool
) -> MetadataRequest:
    """The request for some topics, or for all (None).

    Metadata v0 cannot request zero topics: its empty list means all of them.
    """
    topics: list[MetadataRequestTopic] | None = None
    if asked is not None:
        topics = [MetadataRequestTopic(name=name) for name in sorted(asked)]
    elif api_version == 0:
        topics = []
    return MetadataRequest(
        topics=topics,
        # Older versions have no such field; brokers follow their own configuration.
        allow_auto_topic_creation=auto_create or api_version < 4,
    )
