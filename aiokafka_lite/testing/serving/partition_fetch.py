"""Checks and reads the partitions of one fetch request.

Source: Kafka's `KafkaApis.handleFetchRequest`, `ReplicaManager.readFromLog`,
`Partition.readRecords`, `DelayedFetch` and `RackAwareReplicaSelector` (KIP-392).
"""

from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    LeaderIdAndEpoch,
    PartitionData,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.fetch_sessions import SessionPartition
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.topics import Partition, Topic

__all__ = ["REFUSED_UNREAD", "FetchReader", "Look"]

REFUSED_UNREAD: Final = (
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    TopicAuthorizationFailedError,
)
"""Errors found before reading a log; they do not end the wait of a fetch."""

_TIMESTAMPS_SINCE: Final = 2  # message format v1
_WHOLE_FIRST_BATCH_SINCE: Final = 3
_BATCHES_SINCE: Final = 4
_ZSTD_SINCE: Final = 10  # KIP-110
_FOLLOWERS_SINCE: Final = 11  # KIP-392
_LEADER_HINT_SINCE: Final = 16
_LEADER_ERRORS: Final = (NotLeaderForPartitionError, FencedLeaderEpochError)
_READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_RACK_AWARE: Final = "RackAwareReplicaSelector"


class Look(NamedTuple):
    """The result of checking a partition without reading it.

    Attributes:
        partition: The partition; None if it cannot be read.
        readable: Number of bytes that a response would contain.
        urgent: True if waiting for more is useless.
    """

    partition: Partition | None
    readable: int
    urgent: bool


class FetchReader:
    """Checks and reads partitions for one fetch request.

    Args:
        request: The request.
        context: Its context.
    """

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._context = context
        version = context.version
        replica_id = max(request.replica_id, request.replica_state.replica_id)
        self.from_follower = replica_id != _CONSUMER
        self._replica_id = replica_id
        self._committed = request.isolation_level == _READ_COMMITTED and not self.from_follower
        self._needs_leader = self.from_follower or version < _FOLLOWERS_SINCE
        self._rack = "" if self._needs_leader else request.rack_id
        if self._rack and not context.state.broker_config("replica.selector.class").endswith(
            _RACK_AWARE
        ):
            self._rack = ""
        self.max_bytes = min(
            request.max_bytes, context.state.broker_config.integer("fetch.max.bytes")
        )
        self._struck = context.is_struck
        self.begin()

    def begin(self) -> None:
        """Start a new round of checks or reads, with size limits reset and no cached topics."""
        self._bytes_left = self.max_bytes
        self._nothing_read = True
        self._last: tuple[str, Topic] | None = None  # adjacent partitions often share a topic

    @property
    def looks_at_all(self) -> bool:
        """True if a partition's response may change without a change in the partition."""
        context = self._context
        return bool(self._rack) or self._struck or context.state.authorizer is not None

    def look(self, fetched: SessionPartition) -> Look:
        """Return what reading a partition would give, without reading it."""
        wanted = fetched.wanted
        try:
            topic = self._topic(fetched)
        except REFUSED_UNREAD:
            return Look(None, 0, self._is_struck(fetched))
        try:
            partition = self._replica(topic, fetched)
            if self._preferred_replica(partition, wanted) >= 0:
                return Look(partition, 0, True)
            self._check_epoch(partition, wanted)
            if self._diverging_epoch(partition, wanted) is not None:
                return Look(partition, 0, True)
            self._check_offset(partition, wanted)
        except BrokerResponseError:
            return Look(None, 0, True)  # the response contains the error
        below = partition.last_stable_offset if self._committed else None
        available = partition.log.available_bytes(wanted.fetch_offset, below)
        return Look(partition, min(available, max(wanted.partition_max_bytes, 1)), False)

    def read(self, fetched: SessionPartition) -> tuple[PartitionData, Partition | None]:
        """Return a partition's part of the response, and the partition if there is no error."""
        wanted = fetched.wanted
        try:
            topic = self._topic(fetched)
        except REFUSED_UNREAD as error:
            return _refused(wanted.partition, error, []), None
        try:
            partition = self._replica(topic, fetched)
            return self._read(partition, wanted), partition
        except UnsupportedCompressionTypeError as error:
            return _refused(wanted.partition, error, []), None
        except BrokerResponseError as error:
            refused = _refused(wanted.partition, error, None)
            if self._context.version >= _LEADER_HINT_SINCE and isinstance(error, _LEADER_ERRORS):
                refused.current_leader = LeaderIdAndEpoch(*topic.leader_of(wanted.partition))
            return refused, None

    def _read(self, partition: Partition, wanted: FetchPartition) -> PartitionData:
        log = partition.log
        preferred = self._preferred_replica(partition, wanted)
        self._check_epoch(partition, wanted)
        diverging = None if preferred >= 0 else self._diverging_epoch(partition, wanted)
        records: Buffer = b""
        aborted = None
        if preferred < 0 and diverging is None:
            self._check_offset(partition, wanted)
            max_bytes = max(0, min(wanted.partition_max_bytes, self._bytes_left))
            records = self._records(partition, wanted, max_bytes)
            if self._committed:
                aborted = self._aborted(partition, wanted.fetch_offset, len(records), max_bytes)
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted,
            preferred_read_replica=preferred,
            records=records,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    # Checks

    def _topic(self, fetched: SessionPartition) -> Topic:
        """Return the topic of a partition, if both exist and the client may read it."""
        state = self._context.state
        name, key = fetched.name, fetched.key[0]
        if name is None and isinstance(key, UUID) and key in state.topics_by_id:
            name = fetched.name = state.topics_by_id[key].name
        if name is None:
            raise UnknownTopicIdError(f"topic id {key} does not exist")
        if self._last is None or self._last[0] != name:
            self._last = name, self._allowed_topic(name)
        topic = self._last[1]
        if not 0 <= fetched.key[1] < len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"partition {name}-{fetched.key[1]} does not exist")
        return topic

    def _allowed_topic(self, name: str) -> Topic:
        if not self.from_follower:
            self._context.authorize(Operation.READ, Resource.TOPIC, name)
        elif not self._context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            raise TopicAuthorizationFailedError("a follower's fetch requires CLUSTER_ACTION")
        topic = self._context.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
        return topic

    def _is_struck(self, fetched: SessionPartition) -> bool:
        """Return True if a fault injects an error for a partition."""
        try:
            self._context.check(fetched.name, fetched.key[1])
        except BrokerResponseError:
            return True
        return False

    def _replica(self, topic: Topic, fetched: SessionPartition) -> Partition:
        """Return the partition, if this broker has a replica of it."""
        if self._struck:
            self._context.check(topic.name, fetched.key[1])
        partition = topic.partitions[fetched.key[1]]
        node_id = self._context.node_id
        if node_id not in partition.replicas:
            raise NotLeaderForPartitionError(f"broker {node_id} has no replica of {partition}")
        if isinstance(fetched.key[0], UUID) and fetched.key[0] != topic.topic_id:
            raise InconsistentTopicIdError(f"topic {topic.name} now has the id {topic.topic_id}")
        if self._context.version < _ZSTD_SINCE and topic.config("compression.type") == "zstd":
            raise UnsupportedCompressionTypeError(
                f"Fetch before v{_ZSTD_SINCE} does not support zstd"
            )
        return partition

    def _check_epoch(self, partition: Partition, wanted: FetchPartition) -> None:
        partition.check_epoch(wanted.current_leader_epoch)
        if self._needs_leader and partition.leader != self._context.node_id:
            raise NotLeaderForPartitionError(
                f"broker {self._context.node_id} does not lead {partition}"
            )
        if self.from_follower and self._replica_id not in partition.replicas:
            detail = f"broker {self._replica_id} is not a replica of {partition}"
            if wanted.current_leader_epoch >= 0:
                raise UnknownLeaderEpochError(detail)
            raise NotLeaderForPartitionError(detail)

    def _check_offset(self, partition: Partition, wanted: FetchPartition) -> None:
        log = partition.log
        if not log.start_offset <= wanted.fetch_offset <= log.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {wanted.fetch_offset} of {partition} is out of range"
                f" [{log.start_offset}, {log.end_offset}]"
            )

    def _diverging_epoch(
        self, partition: Partition, wanted: FetchPartition
    ) -> EpochEndOffset | None:
        """Return where the client's log diverges from this one, or None (KIP-595)."""
        if wanted.last_fetched_epoch < 0:
            return None
        log = partition.log
        epoch, end = log.end_of_epoch(wanted.last_fetched_epoch)
        if epoch < 0 or wanted.fetch_offset < log.start_offset:
            raise OffsetOutOfRangeError(
                f"the log of {partition} has no last fetched epoch {wanted.last_fetched_epoch},"
                f" or starts after offset {wanted.fetch_offset}"
            )
        if epoch == wanted.last_fetched_epoch and end >= wanted.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end)

    def _preferred_replica(self, partition: Partition, wanted: FetchPartition) -> int:
        """Return an in-sync replica in the client's rack; -1 if there is none but the leader."""
        node_id = self._context.node_id
        if not self._rack or partition.leader != node_id:
            return -1
        log, nodes = partition.log, self._context.state.nodes
        if (
            nodes[node_id].rack == self._rack
            or not log.start_offset <= wanted.fetch_offset <= log.end_offset
        ):
            return -1
        near = [
            replica
            for replica in partition.isr
            if nodes[replica].alive and nodes[replica].rack == self._rack
        ]
        return max(near, default=-1)  # all are equally up to date, so the id decides

    # The records

    def _records(self, partition: Partition, wanted: FetchPartition, max_bytes: int) -> Buffer:
        version = self._context.version
        records: Buffer = partition.log.read(
            wanted.fetch_offset,
            max_bytes,
            at_least_one=self._nothing_read or version < _WHOLE_FIRST_BATCH_SINCE,
            below=partition.last_stable_offset if self._committed else None,
        )
        if version < _BATCHES_SINCE and records:
            from aiokafka_lite.testing.log.conversion import to_message_set  # rare: import late

            magic = 0 if version < _TIMESTAMPS_SINCE else 1
            records = to_message_set(records, wanted.fetch_offset, magic)
            if version < _WHOLE_FIRST_BATCH_SINCE:
                records = records[:max_bytes]
        self._bytes_left -= len(records)
        self._nothing_read = self._nothing_read and not records
        return records

    def _aborted(
        self, partition: Partition, offset: int, size: int, max_bytes: int
    ) -> list[AbortedTransaction] | None:
        """Return the aborted transactions in the read range; None in the same cases as Kafka."""
        if offset >= partition.last_stable_offset:
            return []
        if not size and max_bytes:
            return None  # a batch exists, but does not fit
        end = partition.log.upper_bound(offset, size)
        found = partition.aborted_between(offset, end)
        return [AbortedTransaction(producer_id, first) for producer_id, first in found]


def _refused(
    index: int, error: BrokerResponseError, aborted: list[AbortedTransaction] | None
) -> PartitionData:
    """Return an error response; `aborted` is empty or null in the same cases as in Kafka."""
    return PartitionData(
        partition_index=index,
        error_code=error.errno,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=aborted,
        records=b"",
    )
