"""The part of the producer's face that is about transactions.

A base class of `AIOKafkaProducer`, apart only to keep both readable.
"""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiokafka_lite._arguments import offsets_to_commit, wire_string
from aiokafka_lite.errors import IllegalArgumentError, IllegalOperation, KafkaError
from aiokafka_lite.group.membership import GroupMetadata
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.transactions.transaction_driver import TransactionDriver
from aiokafka_lite.producer.transactions.transaction_states import TransactionState
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionCalls", "TransactionContext"]

_S = TransactionState


class TransactionCalls:
    """Begins and ends transactions: records of several partitions, and offsets of a group, that
    consumers with `isolation_level="read_committed"` see all or none.

    What may be wrong is of three kinds. What passes is tried again inside. After most of the rest
    the transaction has to be aborted, and the producer goes on: until then every call raises the
    same error again, but `abort_transaction`. After the others, such as `ProducerFenced`,
    every call raises the error, `abort_transaction` too: stop this producer; what it left open,
    its successor with the same `transactional_id` aborts, or the cluster does after
    `transaction_timeout_ms`.
    """

    _loop: asyncio.AbstractEventLoop
    _options: ProducerOptions
    _transactions: TransactionDriver | None = None

    async def begin_transaction(self) -> None:
        """Begin a transaction: records may be sent now. Nothing is asked of the cluster yet.

        Raises:
            IllegalOperation: There is no `transactional_id`; or a transaction is open, or being
                ended.
            IllegalStateError: The producer was not started.
            ProducerClosed: The producer was stopped.
            ProducerFenced: Another producer has its `transactional_id`: stop this one.
            KafkaError: What the transaction before has to be aborted for; or what is wrong for
                good.
        """
        self._driver().begin()

    async def commit_transaction(self) -> None:
        """Send all that was sent in the transaction, and commit it. A record of `send_threadsafe`
        that still waits for its topic, or for memory, is not part of it: its future fails.

        Raises:
            IllegalOperation: There is no `transactional_id`; or no transaction is open.
            ProducerFenced: Another producer has its `transactional_id`, or the transaction took
                longer than `transaction_timeout_ms`: stop this one.
            KafkaTimeoutError: Not done within `max_block_ms`. The commit goes on; call this
                again to wait on.
            KafkaError: A record could not be stored, or offsets not be sent, ...: the transaction
                can only be aborted. Or what is wrong for good: `abort_transaction` tells.

        Cancellation: stops the wait; the commit goes on.
        """
        driver = self._driver()
        self._take_handed_over()
        await driver.commit(self._deadline())

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that wait to be sent are not: their acks raise
        TransactionAbortedError.

        Raises:
            IllegalOperation: There is no `transactional_id`; or no transaction is open.
            KafkaTimeoutError: Not done within `max_block_ms`. The abort goes on; call this again
                to wait on.
            KafkaError: The producer is at its end, such as ProducerFenced: stop it.

        Cancellation: stops the wait; the abort goes on.
        """
        await self._driver().abort(self._deadline())

    def transaction(self) -> "TransactionContext":
        """A transaction as a context: `async with producer.transaction(): ...`.

        It is committed at the end. An exception aborts it and goes on, one of the commit's own
        too; but where the producer is at its end (it was fenced), nothing is left to abort.
        """
        return TransactionContext(self)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata],
        group_id: str | GroupMetadata,
    ) -> None:
        """Commit a group's offsets with the transaction: how far what is sent in it was made from.
        What lingers is sent along.

        Args:
            offsets: By partition the offset of the next record to read; with (offset, metadata)
                any text of yours.
            group_id: What `AIOKafkaConsumer.group_metadata()` gives: then a consumer that has lost
                its partitions to another one is refused (KIP-447). Or the group's name, which
                refuses nobody.

        Raises:
            IllegalOperation: There is no `transactional_id`; or no transaction is open.
            ValueError: The group is neither; or `offsets` is no such dict, or empty.
            TypeError: A key is no TopicPartition, or metadata no str.
            CommitFailedError: The consumer has lost its place in the group; or it gave up one of
                the partitions, or read it again from the committed offset, after the read that the
                offsets are of: abort.
            GroupAuthorizationFailedError: Not allowed: abort.
            FencedInstanceIdError: Another process has the consumer's `group_instance_id`: abort.
            KafkaTimeoutError: Not done within `max_block_ms`; it goes on, and a commit waits for
                it.
            KafkaError: What the transaction can only be aborted for; or what is wrong for good.

        Cancellation: stops the wait; the offsets belong to the transaction.
        """
        driver = self._driver()
        driver.machine.check_open("send offsets")
        group = _group(group_id)
        await driver.send_offsets(offsets_to_commit(offsets), group, self._deadline())

    def _driver(self) -> TransactionDriver:
        if self._transactions is None:
            raise IllegalOperation("You need to configure transactional_id to use transactions")
        self._check_home()
        self._check_open()
        return self._transactions

    def _deadline(self) -> float:
        return self._loop.time() + self._options.max_block

    def _check_home(self) -> None:
        """Raise unless the producer may be used here."""
        raise NotImplementedError

    def _take_handed_over(self) -> None:
        """Take the records that other threads handed over, as far as they need not wait."""
        raise NotImplementedError

    def _check_open(self) -> None:
        """Raise if the producer is not started, or was stopped."""
        raise NotImplementedError


class TransactionContext:
    """One transaction, begun and ended by `async with`.

    Args:
        producer: Whose.
    """

    def __init__(self, producer: TransactionCalls) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            await self._abort()
            return
        try:
            await self._producer.commit_transaction()
        except KafkaError:
            await self._abort()  # aiokafka leaves that to be done
            raise

    async def _abort(self) -> None:
        """Abort, if there is something to abort."""
        driver = self._producer._transactions
        state = None if driver is None else driver.machine.state
        if state is _S.IN_TRANSACTION or state is _S.ABORTABLE_ERROR:
            await self._producer.abort_transaction()


def _group(value: object) -> GroupMetadata:
    if isinstance(value, GroupMetadata):
        return value
    if not isinstance(value, str) or not value:
        raise IllegalArgumentError(
            "`group_id` should be a group's name, or what a consumer's group_metadata() gives, "
            f"not {value!r}"
        )
    return GroupMetadata(wire_string("group_id", value), -1, "", None)
