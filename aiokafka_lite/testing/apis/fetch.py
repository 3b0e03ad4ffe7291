"""Fetch, v0-v18: batches from an offset on, at once or as soon as there are enough.

- v0-v3: the batches are converted to message sets, as brokers before 4.0 do; v0-v2 may cut the
  first one; since v3 it comes whole even if it exceeds the limits (KIP-74);
- v4: isolation level and last stable offset; no transaction exists yet, so no aborted ones;
- v7: fetch sessions (KIP-227): every session asked for is declined by session id 0, as a full
  broker does, so each request names all its partitions;
- v9: leader epochs are checked (KIP-320); v12: a diverging epoch is told;
- v13: topics by id (KIP-516); v16: the new leader's address (KIP-951).
"""

from collections.abc import Sequence
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    FencedLeaderEpochError,
    FetchSessionIdNotFound,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.testing.context import Delayed, RequestContext
from aiokafka_lite.testing.topics import Partition, Topic
from aiokafka_lite.testing.watchers import Watchers

_TIMESTAMPS_SINCE: Final = 2  # message format v1
_WHOLE_FIRST_BATCH_SINCE: Final = 3
_BATCHES_SINCE: Final = 4
_LEADER_HINT_SINCE: Final = 16
_ZSTD_SINCE: Final = 10  # KIP-110
_LEADER_ERRORS: Final = (NotLeaderForPartitionError, FencedLeaderEpochError)
_UNKNOWN: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)
_NO_SESSION: Final = 0
_READ_COMMITTED: Final = 1


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Delayed:
    if request.session_id != _NO_SESSION and request.session_epoch > 0:
        return FetchResponse(error_code=FetchSessionIdNotFound.errno, session_id=_NO_SESSION)
    fetch = _Fetch(request, context)
    ready = fetch.take_if_ready()
    return fetch if ready is None else ready


class _Fetch(Delayed):
    """One fetch request: read at once, or each time that one of its partitions changes."""

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self._request = request
        self._context = context
        self._must_answer = False  # an error or a divergence was met: waiting would not help
        self.timeout = request.max_wait_ms / 1000
        self.watched: Sequence[Watchers] = [
            partition.watchers for asked in request.topics for partition in self._partitions(asked)
        ]

    def take_if_ready(self) -> FetchResponse | None:
        request = self._request
        if request.max_wait_ms > 0 and request.topics and self._readable() < request.min_bytes:
            return None
        return self.take_now()

    def take_now(self) -> FetchResponse:
        self._bytes_left = self._request.max_bytes
        self._nothing_read = True
        response = FetchResponse(
            session_id=_NO_SESSION,
            responses=[self._read_topic(asked) for asked in self._request.topics],
        )
        if self._context.version >= _LEADER_HINT_SINCE:
            response.node_endpoints = self._endpoints_of_leaders(response)
        return response

    def _readable(self) -> float:
        """Bytes that an answer would hold, counted without reading; infinite after an error."""
        readable = 0
        for asked in self._request.topics:
            try:
                topic = self._context.topic(asked.topic, asked.topic_id)
                for wanted in asked.partitions:
                    partition = self._partition(topic, wanted)
                    if self._diverging_epoch(partition, wanted) is not None:
                        return float("inf")
                    available = partition.log.available_bytes(wanted.fetch_offset)
                    readable += min(available, max(wanted.partition_max_bytes, 1))
            except BrokerResponseError:
                return float("inf")  # the answer tells which
        return readable

    def _read_topic(self, asked: FetchTopic) -> FetchableTopicResponse:
        try:
            topic = self._context.topic(asked.topic, asked.topic_id)
        except BrokerResponseError as error:
            refused = [_refused(wanted.partition, error) for wanted in asked.partitions]
            return FetchableTopicResponse(
                topic=asked.topic, topic_id=asked.topic_id, partitions=refused
            )
        return FetchableTopicResponse(
            topic=asked.topic,
            topic_id=asked.topic_id,
            partitions=[self._read(topic, wanted) for wanted in asked.partitions],
        )

    def _read(self, topic: Topic, wanted: FetchPartition) -> PartitionData:
        try:
            partition = self._partition(topic, wanted)
            diverging = self._diverging_epoch(partition, wanted)
            records = b"" if diverging else self._records(partition, wanted)
        except BrokerResponseError as error:
            refused = _refused(wanted.partition, error)
            if self._context.version >= _LEADER_HINT_SINCE and isinstance(error, _LEADER_ERRORS):
                leader_id, leader_epoch = topic.leader_of(wanted.partition)
                refused.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
            return refused
        log = partition.log
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=[] if self._request.isolation_level == _READ_COMMITTED else None,
            records=records,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    def _partition(self, topic: Topic, wanted: FetchPartition) -> Partition:
        """The partition, if this broker leads it and the offset is one that may be read from."""
        partition = self._context.led_partition(
            topic, wanted.partition, wanted.current_leader_epoch
        )
        if self._context.version < _ZSTD_SINCE and topic.config("compression.type") == "zstd":
            raise UnsupportedCompressionTypeError(f"Fetch before v{_ZSTD_SINCE} knows no zstd")
        log = partition.log
        if not log.start_offset <= wanted.fetch_offset <= log.end_offset:
            raise OffsetOutOfRangeError(
                f"{partition} has no offset {wanted.fetch_offset}, but"
                f" {log.start_offset} to {log.end_offset}"
            )
        return partition

    def _diverging_epoch(
        self, partition: Partition, wanted: FetchPartition
    ) -> EpochEndOffset | None:
        """Where the client's history leaves this log's, if it does (KIP-595)."""
        if wanted.last_fetched_epoch < 0:
            return None
        epoch, end = partition.log.end_of_epoch(wanted.last_fetched_epoch)
        if epoch < 0:
            raise OffsetOutOfRangeError(
                f"{partition} does not know the epoch {wanted.last_fetched_epoch} that was fetched"
            )
        if epoch == wanted.last_fetched_epoch and end >= wanted.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end)

    def _records(self, partition: Partition, wanted: FetchPartition) -> Buffer:
        version = self._context.version
        max_bytes = max(0, min(wanted.partition_max_bytes, self._bytes_left))
        records: Buffer = partition.log.read(
            wanted.fetch_offset,
            max_bytes,
            at_least_one=self._nothing_read or version < _WHOLE_FIRST_BATCH_SINCE,
        )
        if version < _BATCHES_SINCE and records:
            from aiokafka_lite.testing.conversion import to_message_set  # rare: import late

            magic = 0 if version < _TIMESTAMPS_SINCE else 1
            records = to_message_set(records, wanted.fetch_offset, magic)
            if version < _WHOLE_FIRST_BATCH_SINCE:
                records = records[:max_bytes]
        self._bytes_left -= len(records)
        self._nothing_read = self._nothing_read and not records
        return records

    def _partitions(self, asked: FetchTopic) -> list[Partition]:
        """Those of the partitions asked for that exist, whoever leads them."""
        try:
            partitions = self._context.topic(asked.topic, asked.topic_id).partitions
        except BrokerResponseError:
            return []  # the request is answered at once, with the error
        return [
            partitions[wanted.partition]
            for wanted in asked.partitions
            if 0 <= wanted.partition < len(partitions)
        ]

    def _endpoints_of_leaders(self, response: FetchResponse) -> list[NodeEndpoint]:
        """Where the new leaders live that the refused partitions name."""
        leaders = {
            partition.current_leader.leader_id
            for topic in response.responses
            for partition in topic.partitions
            if partition.error_code
        }
        nodes = [self._context.state.nodes[leader] for leader in sorted(leaders) if leader >= 0]
        return [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ]


def _refused(index: int, error: BrokerResponseError) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error.errno,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if isinstance(error, _UNKNOWN) else None,  # as Kafka does
        records=b"",
    )
