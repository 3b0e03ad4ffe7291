"""Decides what an error of a produce request means for a batch: sans-IO, one function.

The broker returns a code for each partition of a request; a lost connection or an unreadable
response concerns all of them. In both cases the sender calls `reaction`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    DeliveryTimeoutError,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersionError,
)
from aiokafka_lite.producer.obstacles import Obstacle
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "NO_REASONS",
    "OF_RECORDS",
    "PRODUCER_REFUSED",
    "Reaction",
    "delivery_timed_out",
    "explain",
    "explain_each",
    "left_behind",
    "left_over",
    "reaction",
]


class Reaction(Enum):
    """What to do with a batch whose request ended in an error."""

    STORED = "stored"  # it was stored before, at an offset that the broker no longer has
    RETRY = "retry"  # send it again as it is
    RENUMBER = "renumber"  # not stored, its sequence number is invalid: begin a new numbering
    RENEW = "renew"  # not stored, the producer id is invalid: get another
    SPLIT = "split"  # it is too large for the broker: send it in pieces (KIP-126)
    FAIL = "fail"
    FATAL = "fatal"  # the producer itself is refused: fail this batch and all that follow


_NUMBER_REFUSED: Final = (OutOfOrderSequenceNumber, UnknownProducerId)
PRODUCER_REFUSED: Final = (
    ClusterAuthorizationFailedError,
    InvalidProducerIdMapping,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersionError,
)
"""Errors after which no batch of a producer with an id can succeed."""


def reaction(
    error: KafkaError, *, numbered: bool, oldest: bool, fresh: bool, count: int
) -> Reaction:
    """Decide what to do with a batch whose request ended in an error.

    Args:
        error: The broker's code as an exception, or the error of the connection.
        numbered: True if the batch carries an idempotent sequence number.
        oldest: True if all batches of its partition that were sent before it have an outcome.
        fresh: True if its number belongs to the partition's current numbering.
        count: Its records; 1 for a batch that must not be split.

    Source: Sender.canRetry, TransactionManager.canRetry and maybeTransitionToErrorState of Kafka's
    Java client; KIP-360.
    """
    if numbered:
        if isinstance(error, DuplicateSequenceNumber):
            return Reaction.STORED
        if isinstance(error, _NUMBER_REFUSED):
            # Behind a batch that must be retried, it is refused only because of that batch.
            return Reaction.RENUMBER if oldest and fresh else Reaction.RETRY
        if isinstance(error, InvalidProducerEpoch):
            return Reaction.RENEW if fresh else Reaction.RETRY
        if isinstance(error, PRODUCER_REFUSED):
            return Reaction.FATAL
    if isinstance(error, MessageSizeTooLargeError) and count > 1:
        return Reaction.SPLIT
    return Reaction.RETRY if error.retriable else Reaction.FAIL


NO_REASONS: Final[Mapping[int, str]] = {}
"""The response names no rejected records."""

OF_RECORDS: Final = (InvalidRecordError, InvalidTimestampError, MessageSizeTooLargeError)
"""Errors of single records, which the application may drop. So records that are not sent because of
one of them raise another error."""

_MAYBE: Final = "they MAY have been written: the outcome of an attempt is unknown"


def explain(
    error: KafkaError, partition: TopicPartition, size: int, count: int, *, may_be_stored: bool
) -> KafkaError:
    """Return the error that a batch's acks raise; it names the records.

    Args:
        may_be_stored: True if this attempt or an earlier one has no clear answer.
    """
    where = f"{count} record(s), {size} bytes, to partition {partition.partition} of topic "
    where += repr(partition.topic)
    text = str(error.args[0]) if error.args else ""
    if isinstance(error, MessageSizeTooLargeError):
        what = "record" if count == 1 else "batch"
        text = f"the broker rejected a {what} of this size (message.max.bytes, max.message.bytes)"
    if may_be_stored:
        where += f"; {_MAYBE}"
    explained = type(error)(f"{text}: {where}" if text else where)
    explained.ambiguous = may_be_stored
    explained.__cause__ = error.__cause__
    return explained


def explain_each(
    error: KafkaError,
    reasons: Mapping[int, str],
    partition: TopicPartition,
    count: int,
    *,
    may_be_stored: bool,
) -> list[tuple[int, KafkaError]]:
    """Return the errors of a batch that was rejected because of some of its records (KIP-467).

    The application may drop the invalid records; so the others raise another error, as in Java.

    Args:
        error: The error of the whole batch.
        reasons: Why each invalid record was rejected, by its index in the batch; not empty.
        count: The records in the batch.
        may_be_stored: True if an earlier attempt has no clear answer.

    Returns:
        Runs of records in order: the number of records, and their error.
    """
    # The code of the batch is that of only one of its records.
    kind = type(error) if len(reasons) == 1 else InvalidRecordError
    where = f" record(s) to partition {partition.partition} of topic {partition.topic!r}"
    if may_be_stored:
        where += f"; {_MAYBE}"
    runs: list[tuple[int, KafkaError]] = []
    done = 0
    first: KafkaError | None = None

    def add(many: int, made: KafkaError) -> None:
        made.ambiguous = may_be_stored
        runs.append((many, made))

    for index in [*sorted(reasons), count]:
        refused = kind(f"{reasons[index]}: 1{where}") if index < count else None
        first = first or refused
        if index > done:
            innocent = KafkaError(
                f"the broker rejected the batch because of {len(reasons)} other record(s) in it: "
                f"{index - done}{where}; {first}"
            )
            innocent.__cause__ = first
            add(index - done, innocent)
        if refused is not None:
            add(1, refused)
        done = index + 1
    return runs


def delivery_timed_out(
    partition: TopicPartition,
    count: int,
    timeout: float,
    *,
    attempts: int,
    may_be_stored: bool,
    last_error: BaseException | None,
    obstacle: Obstacle | None = None,
) -> DeliveryTimeoutError:
    """Return the error of a batch whose `delivery_timeout_ms` passed.

    Args:
        timeout: `delivery_timeout_ms`, in seconds.
        attempts: Number of times that the batch was sent.
        may_be_stored: True if an attempt has no clear answer, or none yet.
        last_error: The error of the last attempt.
        obstacle: The reason why it cannot be sent (again) now.
    """
    text = (
        f"{count} record(s) to partition {partition.partition} of topic {partition.topic!r} were "
        f"not acknowledged within {timeout:g} s of the first record of their batch "
        f"(delivery_timeout_ms), in {attempts} attempt(s): "
    )
    text += _MAYBE if may_be_stored else "they were not written"
    if last_error is not None:
        text += f"; last error: {last_error}"
    cause = last_error
    if obstacle is not None:
        text += f"; {obstacle}"
        cause = last_error or obstacle.cause
    error = DeliveryTimeoutError(text)
    error.ambiguous = may_be_stored
    error.__cause__ = cause
    return error


def left_behind(
    error: KafkaError | None, partition: TopicPartition, count: int, *, may_be_stored: bool
) -> KafkaError:
    """Return the error of a batch that is not sent because its transaction failed or was aborted.

    Args:
        error: The error of the transaction, maybe at another partition; None: the application
            aborted it.
        may_be_stored: True if an attempt has no clear answer.
    """
    text = f"{count} record(s) to partition {partition.partition} of topic {partition.topic!r} "
    text += "will not be sent again: " if may_be_stored else "were not sent: "
    text += (
        "their transaction was aborted first"
        if error is None
        else f"their transaction failed: {error}"
    )
    if may_be_stored:
        text += f"; {_MAYBE}"
    if error is None:
        left: KafkaError = TransactionAbortedError(text)
    else:
        left = (KafkaError if isinstance(error, OF_RECORDS) else type(error))(text)
    left.ambiguous = may_be_stored
    left.__cause__ = error
    return left


def left_over(error: KafkaError, partition: TopicPartition, count: int) -> KafkaError:
    """Return the error of the last pieces of a batch, which are not sent because the broker
    rejected records of an earlier piece.

    Args:
        error: The error of that piece.
    """
    left = KafkaError(
        f"{count} record(s) to partition {partition.partition} of topic {partition.topic!r} were "
        f"not sent: the broker rejected other records of their batch: {error}"
    )
    left.__cause__ = error
    return left
