"""The producer's transaction methods, as a base class of `AIOKafkaProducer`."""

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
    """Begins and ends transactions.

    A transaction holds records of several partitions, and offsets of groups. Consumers with
    `isolation_level="read_committed"` see all of it or nothing.

    There are three kinds of errors. Retriable ones are retried internally. After an abortable
    error the transaction must be aborted: until then every call except `abort_transaction` raises
    the same error, and afterwards the producer can be used again. After a fatal error, such as
    `ProducerFenced`, every call raises it, `abort_transaction` included: stop this producer. Its
    open transaction is aborted by the next producer with the same `transactional_id`, or by the
    cluster after `transaction_timeout_ms`.
    """

    _loop: asyncio.AbstractEventLoop
    _options: ProducerOptions
    _transactions: TransactionDriver | None = None

    async def begin_transaction(self) -> None:
        """Begin a transaction, so that records can be sent. Sends no request.

        Raises:
            IllegalOperation: There is no `transactional_id`, or a transaction is open or being
                ended.
            IllegalStateError: The producer was not started.
            ProducerClosed: The producer was stopped.
            ProducerFenced: Another producer took over the `transactional_id`: stop this one.
            KafkaError: The previous transaction failed and must be aborted; or a fatal error.
        """
        self._driver().begin()

    async def commit_transaction(self) -> None:
        """Deliver the transaction's records, then commit it.

        A record of `send_threadsafe` that still waits for its topic or for memory is not part of
        the transaction: its future fails.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            ProducerFenced: Another producer took over the `transactional_id`, or the transaction
                took longer than `transaction_timeout_ms`: stop this one.
            KafkaTimeoutError: The commit takes longer than `max_block_ms`. It continues; call
                this again to wait for it.
            KafkaError: A record could not be stored, or offsets could not be sent: abort the
                transaction. Or a fatal error, which `abort_transaction` raises too.

        Cancellation: stops the wait; the commit continues.
        """
        driver = self._driver()
        self._take_handed_over()
        await driver.commit(self._deadline())

    async def abort_transaction(self) -> None:
        """Abort the transaction.

        Records that still wait to be sent are dropped: their acks raise TransactionAbortedError.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            KafkaTimeoutError: The abort takes longer than `max_block_ms`. It continues; call this
                again to wait for it.
            KafkaError: A fatal error, such as ProducerFenced: stop the producer.

        Cancellation: stops the wait; the abort continues.
        """
        await self._driver().abort(self._deadline())

    def transaction(self) -> "TransactionContext":
        """Return a transaction as a context manager: `async with producer.transaction(): ...`.

        It commits at the end. An exception, one of the commit included, aborts the transaction
        and propagates. After a fatal error (the producer was fenced) there is nothing to abort.
        """
        return TransactionContext(self)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata],
        group_id: str | GroupMetadata,
    ) -> None:
        """Commit a group's offsets with the transaction: those its output was computed from.

        Lingering batches are sent at once.

        Args:
            offsets: For each partition, the offset of the next record to read; or a tuple (offset,
                metadata) with any text.
            group_id: The result of `AIOKafkaConsumer.group_metadata()`: the group then refuses a
                consumer that has lost its partitions (KIP-447). Or the group's name, with which
                no consumer is refused.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            ValueError: `group_id` is neither; or `offsets` is not such a dict, or is empty.
            TypeError: A key is not a TopicPartition, or metadata is not a str.
            CommitFailedError: The consumer is no longer a member of the group; or, since the read
                that the offsets belong to, it gave up one of the partitions or read it again from
                the committed offset: abort.
            GroupAuthorizationFailedError: The principal may not use the group: abort.
            FencedInstanceIdError: Another process has the consumer's `group_instance_id`: abort.
            KafkaTimeoutError: The request takes longer than `max_block_ms`. It continues, and a
                commit waits for it.
            KafkaError: An error after which the transaction must be aborted; or a fatal error.

        Cancellation: stops the wait; the offsets stay part of the transaction.
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
        """Raise unless this is the producer's own process and event loop."""
        raise NotImplementedError

    def _take_handed_over(self) -> None:
        """Append the records that other threads handed over, up to the first that must wait."""
        raise NotImplementedError

    def _check_open(self) -> None:
        """Raise if the producer is not started, or was stopped."""
        raise NotImplementedError


class TransactionContext:
    """One transaction, begun and ended by `async with`.

    Args:
        producer: The producer of the transaction.
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
            await self._abort()  # aiokafka leaves the transaction open here
            raise

    async def _abort(self) -> None:
        """Abort the transaction, if one is open."""
        driver = self._producer._transactions
        state = None if driver is None else driver.machine.state
        if state is _S.IN_TRANSACTION or state is _S.ABORTABLE_ERROR:
            await self._producer.abort_transaction()


def _group(value: object) -> GroupMetadata:
    if isinstance(value, GroupMetadata):
        return value
    if not isinstance(value, str) or not value:
        raise IllegalArgumentError(
            "`group_id` should be a group's name or the result of a consumer's group_metadata(), "
            f"not {value!r}"
        )
    return GroupMetadata(wire_string("group_id", value), -1, "", None)
