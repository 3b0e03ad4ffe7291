"""Errors that the client itself raises, without an error code from a broker.

Names and base classes are those of aiokafka 0.14, so that `except` clauses keep working; the
flags are Java's. Additions are marked "Not in aiokafka".
"""

from aiokafka_lite.errors.base import KafkaError

__all__ = [
    "AuthenticationFailedError",
    "AuthenticationMethodNotSupported",
    "BufferExhaustedError",
    "Cancelled",
    "CommitFailedError",
    "ConsumerStoppedError",
    "CorrelationIdError",
    "DeliveryTimeoutError",
    "IllegalArgumentError",
    "IllegalOperation",
    "IllegalStateError",
    "IncompatibleBrokerVersion",
    "KafkaConfigurationError",
    "KafkaConnectionError",
    "KafkaProtocolError",
    "KafkaTimeoutError",
    "KafkaUnavailableError",
    "MetadataEmptyBrokerList",
    "NoBrokersAvailable",
    "NoOffsetForPartitionError",
    "NodeNotReadyError",
    "PartitionsRevokedError",
    "ProducerClosed",
    "QuotaViolationError",
    "RecordTooLargeError",
    "StaleMetadata",
    "TooManyInFlightRequests",
    "TransactionAbortedError",
    "UnrecognizedBrokerVersion",
    "UnsupportedCodecError",
]


class IllegalStateError(KafkaError):
    """The call is not allowed in the current state, such as `send` outside a transaction."""


class IllegalArgumentError(KafkaError, ValueError):
    """An argument has an invalid value; also a `ValueError`."""


class KafkaConfigurationError(KafkaError, ValueError):
    """An option is invalid, or two options contradict each other; also a `ValueError`."""


class NoBrokersAvailable(KafkaError):
    """None of the bootstrap or known brokers could be reached."""

    retriable = True
    invalid_metadata = True


class NodeNotReadyError(KafkaError):
    """There is currently no usable connection to the broker."""

    retriable = True


class KafkaConnectionError(KafkaError):
    """The connection could not be made, or was lost before the response arrived.

    Ambiguous: a request already sent may have been carried out.
    """

    retriable = True
    invalid_metadata = True
    ambiguous = True


class KafkaProtocolError(KafkaError):
    """Received bytes violate the protocol; the connection is closed.

    Ambiguous: the request whose response cannot be read may have been carried out. Unlike
    aiokafka's, it is not retriable: the same broker would send the same bytes again.
    """

    ambiguous = True


class CorrelationIdError(KafkaProtocolError):
    """A response does not match the oldest request in flight; the connection is closed."""

    retriable = True


class KafkaTimeoutError(KafkaError):
    """The operation timed out. Ambiguous: a request already sent may have been carried out."""

    retriable = True
    ambiguous = True


class DeliveryTimeoutError(KafkaTimeoutError):
    """`delivery_timeout_ms` expired; `ambiguous` is True if the record may be stored.

    Not in aiokafka.
    """


class BufferExhaustedError(KafkaTimeoutError):
    """`buffer_memory` is full and the caller does not wait for space.

    Not in aiokafka; Java's client has it.
    """

    ambiguous = False


class KafkaUnavailableError(KafkaError):
    """Defined for compatibility with aiokafka; never raised."""


class Cancelled(KafkaError):
    """The operation was cancelled before its request was sent."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """The connection has reached its limit of requests in flight."""

    retriable = True


class StaleMetadata(KafkaError):
    """The metadata is too old to rely on."""

    retriable = True
    invalid_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The metadata response lists no brokers: the cluster is still starting."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """The broker's version could not be determined."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker is too old for this client's configuration."""


class CommitFailedError(KafkaError):
    """The commit came from a member that is no longer in the group."""

    def __init__(self, *args: object) -> None:
        super().__init__(
            *args
            or (
                "the group has rebalanced and given the partitions to another member: more time "
                "than max_poll_interval_ms passed between two polls, or the session timed out. "
                "Raise max_poll_interval_ms, or take fewer records a poll (max_poll_records).",
            )
        )


class PartitionsRevokedError(CommitFailedError, IllegalStateError):
    """Partitions of a commit were revoked from this consumer after their records were read.

    Also an `IllegalStateError`, which aiokafka raises.
    """


class AuthenticationMethodNotSupported(KafkaError):
    """The broker does not offer the configured SASL mechanism."""


class AuthenticationFailedError(KafkaError):
    """The broker rejected this client's credentials, or this client the broker's."""

    fatal_to_consumer = True


class UnsupportedCodecError(KafkaError):
    """A batch uses a compression codec that this client or the broker cannot read."""


class QuotaViolationError(KafkaError):
    """Defined for compatibility with aiokafka; brokers return THROTTLING_QUOTA_EXCEEDED."""


class NoOffsetForPartitionError(KafkaError):
    """The partition has no committed offset and `auto_offset_reset` is "none"."""


class RecordTooLargeError(KafkaError):
    """A record exceeds a size limit of the consumer."""


class ProducerClosed(KafkaError):
    """The producer was closed before the record was sent."""


class TransactionAbortedError(KafkaError):
    """The record was not sent because its transaction was aborted first (KIP-654).

    Not in aiokafka; Java's client has it.
    """


class ConsumerStoppedError(Exception):
    """The consumer was stopped; pending calls raise it too. Not a KafkaError, as in aiokafka."""

    def __init__(self, *args: object) -> None:
        super().__init__(
            *args or ("the consumer was stopped: create a new one to continue reading",)
        )


class IllegalOperation(Exception):
    """The configuration does not allow the call, such as a commit without a group_id.

    Not a KafkaError, as in aiokafka.
    """
