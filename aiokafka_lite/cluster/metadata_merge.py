"""Merges a metadata response into the last snapshot to make the next one.

Guarantees:

- An older leader epoch never wins (KIP-320). A lagging broker may still report the previous leader;
  accepting it would send requests in circles. A known epoch is dropped in three cases: the topic
  id changed (KIP-516: the topic was deleted and recreated), the response has another cluster id, or
  `OUTDATED_ANSWERS` consecutive responses report the older epoch (the newer one was wrong, or the
  topic was recreated in a cluster without topic ids).
- Before Metadata v9 the epochs in a response are not reliable while partitions are reassigned
  (KAFKA-9212), so they are read as unknown (-1). An unknown epoch is not compared.
- A topic with a retriable error keeps its known partitions in addition to the error. A broker that
  has just started briefly returns UNKNOWN_TOPIC_OR_PARTITION, which must not stop a producer that
  knows the leaders. A lasting error (authorization, invalid name) removes the partitions.
- A requested topic that is missing from the response gets UNKNOWN_TOPIC_OR_PARTITION.
- An unchanged topic keeps its `Topic` object, and an unchanged partition its `Partition` object.
  Listeners find changes by identity, in time proportional to the number of topics.
- Every number in a response is checked before it sizes or indexes anything. A response with an
  impossible partition, leader, epoch or node is rejected as a whole, and the next broker is tried.
  Memory use grows with the size of a response, never with a number in it.

Source: MetadataResponse.json, KIP-320, KIP-516.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from aiokafka_lite.cluster.metadata import (
    EMPTY,
    LASTING_ERRORS,
    NO_CONTROLLER,
    NO_LEADER,
    OUTDATED_ANSWERS,
    UNKNOWN_EPOCH,
    Metadata,
    Node,
    Partition,
    Topic,
)
from aiokafka_lite.errors import (
    BrokerResponseError,
    KafkaProtocolError,
    MetadataEmptyBrokerList,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka_lite.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID

# The first Metadata version with reliable leader epochs (Kafka 2.4).
RELIABLE_EPOCHS_FROM = 9

GAPS = 1000
"""Partitions of one topic that a response may omit: a cluster with ZooKeeper does not report a
partition until it has had a leader. Larger partition numbers are rejected."""


def merge(
    old: Metadata,
    response: MetadataResponse,
    *,
    version: int,
    api_version: int,
    asked: Collection[str] | None,
    keep: Callable[[str], bool],
) -> Metadata:
    """The snapshot after one response.

    Args:
        old: The last snapshot.
        response: The broker's response.
        version: The number of the refresh.
        api_version: The Metadata API version of the response.
        asked: The requested names, or None if all topics were requested.
        keep: Returns True for a known topic, not requested now, that must be kept.

    Raises:
        MetadataEmptyBrokerList: The response lists no broker, because the sender is starting; ask
            again. A 0.8.2 cluster lists none until its first topic is created, so with Metadata v0
            an empty list is accepted while no broker is known.
        KafkaProtocolError: A partition or node is impossible; see `Merging.end_topic`.
    """
    merging = Merging(old, api_version=api_version, asked=asked, keep=keep)
    merging.add_all(response)
    return merging.finish(response, version=version)


class Merging:
    """Builds a snapshot from a response, partition by partition, so that a large one can be split.

    Args:
        old, api_version, asked, keep: As in `merge`.

    Call `add_all`, or: `begin`; for each topic `begin_topic`, `add_partition` for each of its
    partitions, and `end_topic`. Then `finish`.
    """

    def __init__(
        self,
        old: Metadata,
        *,
        api_version: int,
        asked: Collection[str] | None,
        keep: Callable[[str], bool],
    ) -> None:
        self._old = old
        self._api_version = api_version
        self._asked = asked
        self._keep = keep
        self._topics: dict[str, Topic] = {}
        self._reported: MetadataResponseTopic | None = (
            None  # the current topic, unless it is skipped
        )
        self._before: Mapping[int, Partition] = {}  # its partitions in the old snapshot
        self._partitions: dict[int, Partition] = {}
        self._replicas: dict[tuple[int, ...], tuple[int, ...]] = {}
        """One tuple for all partitions with the same replicas, of which there are few."""
        self._outdated: dict[tuple[str, int], int] = {}  # as of `Metadata`

    def add_all(self, response: MetadataResponse) -> None:
        """Add the whole response at once."""
        self.begin(response.cluster_id)
        for reported in response.topics:
            self.begin_topic(reported)
            for partition in reported.partitions:
                self.add_partition(partition)
            self.end_topic()

    def begin(self, cluster_id: str | None) -> None:
        """Begin a response from a cluster (None: the id is not reported)."""
        if None not in (self._old.cluster_id, cluster_id) and self._old.cluster_id != cluster_id:
            self._old = EMPTY
        known, asked = self._old.topics, self._asked
        if asked is not None:
            self._topics = {name: topic for name, topic in known.items() if self._keep(name)}
            for name in asked:
                self._topics[name] = _with_error(
                    name, known.get(name), UnknownTopicOrPartitionError
                )

    def begin_topic(self, reported: MetadataResponseTopic) -> None:
        """Begin a topic; its partitions are added one by one."""
        self._partitions = {}
        self._reported = None
        # Metadata v0 returns all topics if none was requested; skip those not requested.
        if reported.name is None or (self._asked is not None and reported.name not in self._asked):
            return
        self._reported = reported
        self._before = {}
        old = self._old.topics.get(reported.name)
        if old is not None and not _recreated(old, _topic_id(reported)):
            self._before = old.partitions

    def add_partition(self, reported: MetadataResponsePartition) -> None:
        """Add a partition of the current topic."""
        if self._reported is not None:
            known = self._before.get(reported.partition_index)
            partition = _partition(reported, self._api_version, self._replicas)
            newer = _newer(known, partition)
            if newer is known and newer.leader_epoch != partition.leader_epoch:
                newer = self._doubt(self._reported.name or "", known, partition)
            self._partitions[reported.partition_index] = newer

    def _doubt(self, name: str, known: Partition, reported: Partition) -> Partition:
        """The partition to keep after a response with an older epoch than the known one."""
        place = (name, known.partition)
        answers = self._old.outdated.get(place, 0) + 1
        if answers >= OUTDATED_ANSWERS:
            return reported
        self._outdated[place] = answers
        return known

    def end_topic(self) -> None:
        """End the current topic.

        Raises:
            KafkaProtocolError: A partition is impossible: its number is negative or far beyond the
                partition count, or its leader or epoch is below -1 ("none", "unknown").
        """
        reported = self._reported
        if reported is None or reported.name is None:
            return
        name = reported.name
        if self._partitions:
            _check(name, self._partitions)
        if reported.error_code:
            error = for_code(reported.error_code)
            self._topics[name] = _with_error(name, self._old.topics.get(name), error)
        else:
            topic = Topic(
                name=name,
                topic_id=_topic_id(reported),
                error=None,
                is_internal=reported.is_internal,
                partitions=self._partitions,
            )
            old = self._old.topics.get(name)
            self._topics[name] = old if old is not None and old == topic else topic

    def finish(
        self,
        response: MetadataResponse,
        *,
        version: int,
        current: Metadata | None = None,
    ) -> Metadata:
        """Return the snapshot.

        Args:
            response: The response; its topics are not read.
            current: The current snapshot, if leader hints may have replaced it meanwhile; its
                leaders that are newer than the response are kept.

        Raises:
            MetadataEmptyBrokerList, KafkaProtocolError: See `merge`.
        """
        old = self._old
        if not response.brokers and (old.brokers or self._api_version > 0):
            raise MetadataEmptyBrokerList(
                "The metadata lists no broker; this one may still be starting"
            )
        if current is not None and old is not EMPTY:
            self._believe(current)
        topics = self._topics
        outdated = {
            place: answers
            for place, answers in old.outdated.items()
            if self._asked is not None and place[0] not in self._asked and place[0] in topics
        }
        brokers = [Node.from_broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
        return Metadata(
            version=version,
            brokers={node.node_id: node for node in brokers},
            controller_id=max(response.controller_id, NO_CONTROLLER),
            cluster_id=response.cluster_id or old.cluster_id,
            topics=topics,
            topic_names={t.topic_id: t.name for t in topics.values() if t.topic_id is not None},
            outdated={**outdated, **self._outdated},
        )

    def _believe(self, current: Metadata) -> None:
        """Keep leader hints that arrived since the response began to be read."""
        for name, topic in current.topics.items():
            reported = self._topics.get(name)
            if reported is None or topic is self._old.topics.get(name):
                continue
            if not _recreated(topic, reported.topic_id):
                partitions = {
                    index: _newer(topic.partitions.get(index), partition)
                    for index, partition in reported.partitions.items()
                }
                self._topics[name] = reported._replace(partitions=partitions)


def _topic_id(reported: MetadataResponseTopic) -> UUID | None:
    return None if reported.topic_id == ZERO_UUID else reported.topic_id


def _recreated(old: Topic, topic_id: UUID | None) -> bool:
    """True if the id differs: the topic was deleted and recreated under its name."""
    return old.topic_id is not None and topic_id is not None and old.topic_id != topic_id


def _with_error(name: str, old: Topic | None, error: type[BrokerResponseError]) -> Topic:
    """The topic after a broker returned an error for it."""
    if old is None or error in LASTING_ERRORS:
        return Topic(name, None if old is None else old.topic_id, error)
    partitions = old.partitions
    if old.topic_id is None and error is UnknownTopicOrPartitionError:
        # Without a topic id, a recreated topic looks like the deleted one, and its epochs start
        # over: the known epochs must not block it.
        partitions = {
            p: known._replace(leader_epoch=UNKNOWN_EPOCH) for p, known in partitions.items()
        }
    return old._replace(error=error, partitions=partitions)


def _check(name: str, partitions: Mapping[int, Partition]) -> None:
    """Reject impossible partitions; `partitions` must not be empty."""
    most = len(partitions) + GAPS
    for number, partition in partitions.items():
        if (
            not 0 <= number < most
            or partition.leader < NO_LEADER
            or partition.leader_epoch < UNKNOWN_EPOCH
        ):
            raise KafkaProtocolError(
                f"The broker reported an invalid partition of topic {name!r}: number {number} "
                f"of {len(partitions)}, leader {partition.leader}, "
                f"epoch {partition.leader_epoch}"
            )


def _newer(old: Partition | None, reported: Partition) -> Partition:
    """The reported partition, unless its epoch is older than the known one. Returns the old object
    if they are equal, which saves the garbage collector work."""
    if old is None or old == reported:
        return reported if old is None else old
    return old if UNKNOWN_EPOCH < reported.leader_epoch < old.leader_epoch else reported


def _partition(
    reported: MetadataResponsePartition,
    api_version: int,
    shared: dict[tuple[int, ...], tuple[int, ...]],
) -> Partition:
    replicas, isr = tuple(reported.replica_nodes), tuple(reported.isr_nodes)
    return Partition(
        partition=reported.partition_index,
        leader=reported.leader_id,
        leader_epoch=reported.leader_epoch
        if api_version >= RELIABLE_EPOCHS_FROM
        else UNKNOWN_EPOCH,
        replicas=shared.setdefault(replicas, replicas),
        isr=shared.setdefault(isr, isr),
        offline=tuple(reported.offline_replicas),
        error=for_code(reported.error_code) if reported.error_code else None,
    )
