"""Errors that the client itself raises: no broker answered with a code.

Names and parents are those of aiokafka 0.14, so that `except` clauses keep working; the flags
are Java's. What aiokafka does not have is marked as ours.
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
    """The call is not allowed in the present state, such as `send` outside of a transaction."""


class IllegalArgumentError(KafkaError, ValueError):
    """An argument whose value makes no sense; also a `ValueError`."""


class KafkaConfigurationError(KafkaError, ValueError):
    """An option, or two that contradict one another; also a `ValueError`."""


class NoBrokersAvailable(KafkaError):
    """None of the bootstrap or known brokers could be reached."""

    retriable = True
    invalid_metadata = True


class NodeNotReadyError(KafkaError):
    """There is no usable connection to the broker at this moment."""

    retriable = True


class KafkaConnectionError(KafkaError):
    """The connection could not be made, or was lost before the answer came.

    Ambiguous: a request that had been sent may have been carried out.
    """

    retriable = True
    invalid_metadata = True
    ambiguous = True


class KafkaProtocolError(KafkaError):
    """Bytes from the wire that are not what the protocol says; the connection is closed.

    Ambiguous: the request whose answer cannot be read was carried out, or not. Unlike aiokafka's
    it is not retriable: the same broker would answer the same bytes again.
    """

    ambiguous = True


class CorrelationIdError(KafkaProtocolError):
    """A response that does not belong to the oldest request in flight; the connection is closed."""

    retriable = True


class KafkaTimeoutError(KafkaError):
    """The time allowed ran out. Ambiguous: a request that was sent may have been carried out."""

    retriable = True
    ambiguous = True


class DeliveryTimeoutError(KafkaTimeoutError):
    """`delivery_timeout_ms` passed; `ambiguous` says whether the record may be stored. (ours)"""


class BufferExhaustedError(KafkaTimeoutError):
    """`buffer_memory` is used up and the caller does not wait for more. (ours; Java has it)"""

    ambiguous = False


class KafkaUnavailableError(KafkaError):
    """Kept for aiokafka's sake; not raised here."""


class Cancelled(KafkaError):
    """The operation was abandoned before it was sent."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """The connection has as many unanswered requests as it may have."""

    retriable = True


class StaleMetadata(KafkaError):
    """The metadata is too old to decide by."""

    retriable = True
    invalid_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The metadata response named no broker: the cluster is still starting."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """What the broker speaks could not be told."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker is too old for what was asked of the client as a whole."""


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


class AuthenticationMethodNotSupported(KafkaError):
    """The broker does not offer the SASL mechanism that was asked for."""


class AuthenticationFailedError(KafkaError):
    """The broker, or this client, refused the other side's credentials."""

    fatal_to_consumer = True


class UnsupportedCodecError(KafkaError):
    """A batch is compressed in a way that this client, or this broker, cannot read."""


class QuotaViolationError(KafkaError):
    """Kept for aiokafka's sake; brokers answer THROTTLING_QUOTA_EXCEEDED."""


class NoOffsetForPartitionError(KafkaError):
    """There is no committed offset and `auto_offset_reset` is "none"."""


class RecordTooLargeError(KafkaError):
    """A record is larger than a limit of the consumer's."""


class ProducerClosed(KafkaError):
    """The producer was closed before, or while, the record was waiting."""


class TransactionAbortedError(KafkaError):
    """The record was not sent: its transaction was aborted first (KIP-654). (ours; Java has it)"""


class ConsumerStoppedError(Exception):
    """The consumer was stopped; pending calls end with it too. Not a KafkaError, as in aiokafka."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args or ("the consumer was stopped: make a new one to read on",))


class IllegalOperation(Exception):
    """The configuration does not allow the call, such as a commit without a group_id.

    Not a KafkaError, as in aiokafka.
    """
