"""Broker errors about idempotent and transactional producers.

A class's docstring is Kafka's description of its code; how a client must react is in
`errors.table`.
"""

from aiokafka_lite.errors.base import BrokerResponseError

__all__ = [
    "ConcurrentTransactions",
    "DuplicateSequenceNumber",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "OutOfOrderSequenceNumber",
    "ProducerFenced",
    "TransactionAbortableError",
    "TransactionCoordinatorFenced",
    "TransactionalIdNotFoundError",
    "UnknownProducerId",
]


class OutOfOrderSequenceNumber(BrokerResponseError, code=45):
    """The broker received an out of order sequence number."""


class DuplicateSequenceNumber(BrokerResponseError, code=46):
    """The broker received a duplicate sequence number."""


class InvalidProducerEpoch(BrokerResponseError, code=47):
    """Producer attempted to produce with an old epoch."""


class InvalidTxnState(BrokerResponseError, code=48):
    """The producer attempted a transactional operation in an invalid state."""


class InvalidProducerIdMapping(BrokerResponseError, code=49):
    """The producer attempted to use a producer id which is not currently assigned to its
    transactional id.
    """


class InvalidTransactionTimeout(BrokerResponseError, code=50):
    """The transaction timeout is larger than the maximum value allowed by the broker (as
    configured by transaction.max.timeout.ms).
    """


class ConcurrentTransactions(BrokerResponseError, code=51):
    """The producer attempted to update a transaction while another concurrent operation on the
    same transaction was ongoing.
    """


class TransactionCoordinatorFenced(BrokerResponseError, code=52):
    """Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current
    coordinator for a given producer.
    """


class UnknownProducerId(OutOfOrderSequenceNumber, code=59):
    """This exception is raised by the broker if it could not locate the producer metadata
    associated with the producerId in question. This could happen if, for instance, the
    producer's records were deleted because their retention time had elapsed. Once the last
    records of the producerId are removed, the producer's metadata is removed from the broker,
    and future appends by the producer will return this exception.
    """


class ProducerFenced(BrokerResponseError, code=90):
    """There is a newer producer with the same transactionalId which fences the current one."""


class TransactionalIdNotFoundError(BrokerResponseError, code=105):
    """The transactionalId could not be found."""


class TransactionAbortableError(BrokerResponseError, code=120):
    """The server encountered an error with the transaction. The client can abort the transaction
    to continue using this transactional ID.
    """
