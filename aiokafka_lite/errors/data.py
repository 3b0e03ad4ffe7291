"""Broker errors about partitions, records and offsets, as Produce and Fetch return them.

A class's docstring is Kafka's description of its code; how a client must react is in
`errors.table`.
"""

from collections.abc import Mapping

from aiokafka_lite.errors.base import BrokerResponseError
from aiokafka_lite.errors.client_errors import KafkaTimeoutError

__all__ = [
    "CorruptRecordException",
    "FencedLeaderEpochError",
    "FetchSessionIdNotFound",
    "FetchSessionTopicIdError",
    "InconsistentTopicIdError",
    "InvalidFetchRequestError",
    "InvalidFetchSessionEpoch",
    "InvalidRecordError",
    "InvalidRequiredAcksError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaStorageError",
    "LeaderNotAvailableError",
    "ListenerNotFound",
    "LogTruncationError",
    "MessageSizeTooLargeError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderForPartitionError",
    "OffsetMovedToTieredStorageError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "RecordListTooLargeError",
    "ReplicaNotAvailableError",
    "RequestTimedOutError",
    "StaleLeaderEpochCodeError",
    "UnknownLeaderEpochError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnknownTopicTimeoutError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
]


class OffsetOutOfRangeError(BrokerResponseError, code=1):
    """The requested offset is not within the range of offsets maintained by the server."""


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated below the position: records already read are gone.

    Other records may have their offsets. The leader was elected among replicas without these
    records, or the topic was recreated. Raised with `auto_offset_reset="none"` until the
    application seeks (KIP-320). The arguments are `offsets` and `divergent_offsets`. Not in
    aiokafka.
    """

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """By partition, the offset of the next record to read."""
        return self._argument(0)

    @property
    def divergent_offsets(self) -> dict[tuple[str, int], int]:
        """By partition, the first offset at which the log differs from the records that were
        read: seek to it to miss none. Partitions without a known divergent offset are omitted."""
        return self._argument(1)

    def _argument(self, index: int) -> dict[tuple[str, int], int]:
        value = self.args[index] if index < len(self.args) else None
        return dict(value) if isinstance(value, Mapping) else {}

    def __str__(self) -> str:
        if not self.offsets:
            return super().__str__()
        where = []
        for (topic, partition), offset in self.offsets.items():
            divergent = self.divergent_offsets.get((topic, partition))
            what = (
                "none of the records read is known to exist"
                if divergent is None
                else f"the logs diverge at offset {divergent}"
            )
            where.append(f"{topic}-{partition} (at offset {offset}, {what})")
        return (
            f"[Error 1] {type(self).__name__}: records that were read no longer exist: "
            + ", ".join(where)
        )


class CorruptRecordException(BrokerResponseError, code=2):
    """This message has failed its CRC checksum, exceeds the valid size, has a null key for a
    compacted topic, or is otherwise corrupt.
    """


class UnknownTopicOrPartitionError(BrokerResponseError, code=3):
    """This server does not host this topic-partition."""


class UnknownTopicTimeoutError(KafkaTimeoutError, UnknownTopicOrPartitionError):
    """The topic did not exist until the deadline; no record was sent.

    A KafkaTimeoutError, as in Java, and an UnknownTopicOrPartitionError, as in aiokafka.
    """

    ambiguous = False


class InvalidFetchRequestError(BrokerResponseError, code=4):
    """The requested fetch size is invalid."""


class LeaderNotAvailableError(BrokerResponseError, code=5):
    """There is no leader for this topic-partition as we are in the middle of a leadership
    election.
    """


class NotLeaderForPartitionError(BrokerResponseError, code=6):
    """For requests intended only for the leader, this error indicates that the broker is not the
    current leader. For requests intended for any replica, this error indicates that the broker
    is not a replica of the topic partition.
    """


class RequestTimedOutError(BrokerResponseError, code=7):
    """The request timed out."""


class ReplicaNotAvailableError(BrokerResponseError, code=9):
    """The replica is not available for the requested topic-partition. Produce/Fetch requests and
    other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the
    broker is not a replica of the topic-partition.
    """


class MessageSizeTooLargeError(BrokerResponseError, code=10):
    """The request included a message larger than the max message size the server will accept."""


class StaleLeaderEpochCodeError(BrokerResponseError, code=13):
    """The server disconnected before a response was received."""


class InvalidTopicError(BrokerResponseError, code=17):
    """The request attempted to perform an operation on an invalid topic."""


class RecordListTooLargeError(BrokerResponseError, code=18):
    """The request included message batch larger than the configured segment size on the server."""


class NotEnoughReplicasError(BrokerResponseError, code=19):
    """Messages are rejected since there are fewer in-sync replicas than required."""


class NotEnoughReplicasAfterAppendError(BrokerResponseError, code=20):
    """Messages are written to the log, but to fewer in-sync replicas than required."""


class InvalidRequiredAcksError(BrokerResponseError, code=21):
    """Produce request specified an invalid value for required acks."""


class InvalidTimestampError(BrokerResponseError, code=32):
    """The timestamp of the message is out of acceptable range."""


class UnsupportedForMessageFormatError(BrokerResponseError, code=43):
    """The message format version on the broker does not support the request."""


class KafkaStorageError(BrokerResponseError, code=56):
    """Disk error when trying to access log file on the disk."""


class FetchSessionIdNotFound(BrokerResponseError, code=70):
    """The fetch session ID was not found."""


class InvalidFetchSessionEpoch(BrokerResponseError, code=71):
    """The fetch session epoch is invalid."""


class ListenerNotFound(BrokerResponseError, code=72):
    """There is no listener on the leader broker that matches the listener on which metadata
    request was processed.
    """


class FencedLeaderEpochError(BrokerResponseError, code=74):
    """The leader epoch in the request is older than the epoch on the broker."""


class UnknownLeaderEpochError(BrokerResponseError, code=75):
    """The leader epoch in the request is newer than the epoch on the broker."""


class UnsupportedCompressionTypeError(BrokerResponseError, code=76):
    """The requesting client does not support the compression type of given partition."""


class OffsetNotAvailableError(BrokerResponseError, code=78):
    """The leader high watermark has not caught up from a recent leader election so the offsets
    cannot be guaranteed to be monotonically increasing.
    """


class InvalidRecordError(BrokerResponseError, code=87):
    """This record has failed the validation on broker and hence will be rejected."""


class UnknownTopicIdError(BrokerResponseError, code=100):
    """This server does not host this topic ID."""


class InconsistentTopicIdError(BrokerResponseError, code=103):
    """The log's topic ID did not match the topic ID in the request."""


class FetchSessionTopicIdError(BrokerResponseError, code=106):
    """The fetch session encountered inconsistent topic ID usage."""


class OffsetMovedToTieredStorageError(BrokerResponseError, code=109):
    """The requested offset is moved to tiered storage."""
