"""Interfaces for applications to implement: listeners, token providers and interceptors."""

import abc
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka_lite.structs import (
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from aiokafka_lite.structs import ConsumerRecord

__all__ = [
    "AbstractTokenProvider",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ProducerInterceptor",
    "RecordDeserializer",
    "RecordSerializer",
]


class ConsumerRebalanceListener(abc.ABC):
    """Callbacks for the partitions that the group assigns to this consumer or revokes from it.

    Each method may be a plain function or a coroutine function. The consumer awaits it, within the
    rebalance, before it continues. An exception is logged, and the rebalance continues. When the
    consumer stops, a method that takes too long is cancelled. A method may call the consumer but
    not read from it: `getone`, `getmany`, `async for` and `batches` raise IllegalStateError,
    because no records of assigned or revoked partitions are returned before the method returns. A
    task that the method starts and does not await may read. Called only for consumers that
    `subscribe`: the group never changes the partitions of an `assign`.
    """

    @abc.abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions are about to be revoked; fetching from them has stopped.

        Commit processed records here, or store offsets elsewhere: no other member gets the
        partitions before this method returns (unless the session times out meanwhile).
        `stop` and `unsubscribe` call it, too.

        Args:
            revoked: The revoked partitions: all in an eager rebalance, none at the first join.
        """

    @abc.abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions were assigned, before any of their records is returned.

        Call `seek` here. Every member's `on_partitions_revoked` for them has returned.

        Args:
            assigned: The new partitions; in an eager rebalance, the default, all partitions.
        """

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions are lost: another member may own them, and a commit would fail.

        This happens after a session timeout or when the member is fenced. As in Java, it calls
        `on_partitions_revoked` unless overridden (KIP-429). Not in aiokafka.

        Args:
            lost: The partitions that this consumer no longer owns.
        """
        return self.on_partitions_revoked(lost)


class AbstractTokenProvider(abc.ABC):
    """Provides the bearer tokens for SASL/OAUTHBEARER (KIP-255).

    A provider should cache its token until shortly before it expires: `token` is called once for
    every connection and every re-authentication.
    """

    @abc.abstractmethod
    async def token(self) -> str:
        """Return the token to present now; it must not have expired.

        The call is cancelled after `request_timeout_ms`. A timeout, an exception or a
        CancelledError fails only this attempt to connect or to re-authenticate, which is retried.
        """

    def extensions(self) -> Mapping[str, str]:
        """Return key-value pairs to send with the token; none unless overridden (KIP-342)."""
        return {}

    def on_rejected(self, token: str) -> None:  # noqa: B027 (optional)
        """Called when a broker rejected a token, such as one that was revoked.

        A provider that caches its token should get a new one for later calls of `token`. Not in
        aiokafka.

        Args:
            token: The rejected token; the provider may already have a newer one.
        """


class ProducerInterceptor(abc.ABC):
    """Sees every record that a producer sends, and its outcome (KIP-42). Not in aiokafka.

    The methods run in the producer's event loop, `on_send` within `send`: they must not block. An
    exception is logged and does not affect the record.
    """

    @abc.abstractmethod
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called when a record is sent.

        Args:
            record: The record, before its key and value are serialized and its partition chosen.

        Returns:
            The record to send: the same or a replacement.
        """

    def on_acknowledgement(  # noqa: B027 (optional)
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Called when a record was acknowledged or has failed.

        Args:
            metadata: Where the record was stored; None with `acks=0` or if it failed.
            error: The exception that its ack raises; None if it was acknowledged.
        """

    def on_completion(
        self,
        record: ProducerRecord,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        """Called when a record was acknowledged or has failed; calls `on_acknowledgement` unless
        overridden.

        Args:
            record: The object that this interceptor's `on_send` returned, which may be of a
                subclass with further attributes. If `on_send` raised, the one it was called with.
            metadata: Where the record was stored; None with `acks=0` or if it failed.
            error: The exception that its ack raises; None if it was acknowledged.
        """
        self.on_acknowledgement(metadata, error)

    def _on_cancelled(self, record: ProducerRecord) -> None:  # noqa: B027 (optional)
        """Called instead of `on_completion` when the application cancelled the record's ack, for
        interceptors that must release resources. The record is delivered nevertheless."""

    def close(self) -> None:  # noqa: B027 (optional)
        """Called when the producer is closed; no further calls follow."""


class ConsumerInterceptor(abc.ABC):
    """Sees every record before the application does, and every commit (KIP-42). Not in aiokafka.

    The methods run in the consumer's event loop: they must not block. An exception is logged and
    does not affect the records or the commit.

    Attributes:
        at_delivery: If True, `on_consume` sees records when they are delivered, not ahead. Then
            `getone()` and `async for` call it for each record, which costs a few microseconds.
            With large compressed batches, which a thread decodes, it still sees up to 256 records
            ahead.
    """

    at_delivery: bool = False

    @abc.abstractmethod
    def on_consume(
        self, records: "list[ConsumerRecord[Any, Any]]"
    ) -> "list[ConsumerRecord[Any, Any]]":
        """Called when records are about to be returned to the application.

        Records come in runs, decoded ahead far enough to keep the cost of a call small: the
        application may seek or stop before it has read all of them. With `at_delivery` it gets
        them right after this call.

        Args:
            records: Records of one partition, in offset order, deserialized; never empty.

        Returns:
            The records to return to the application: the same or replacements. The position moves
            past omitted records.
        """

    def on_commit(  # noqa: B027 (optional)
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Called when offsets were committed, by the application or automatically.

        Args:
            offsets: The committed offsets.
        """

    def close(self) -> None:  # noqa: B027 (optional)
        """Called when the consumer is closed; no further calls follow."""


class RecordSerializer(abc.ABC):
    """A `key_serializer` or `value_serializer` that receives the topic and headers of its record.
    Not in aiokafka.

    It runs inside `send`, in the producer's event loop: it must not block.
    """

    @abc.abstractmethod
    def serialize(
        self, topic: str, headers: list[tuple[str, bytes | None]], data: Any
    ) -> bytes | None:
        """Serialize a key or a value.

        Args:
            topic: The record's topic.
            headers: The record's headers. Headers that are appended are sent, too.
            data: The key or the value; may be None.

        Returns:
            Its bytes; None for no key, or for a tombstone.
        """

    def __call__(self, data: Any) -> bytes | None:
        """Refuse data without a record, such as that of `create_batch`.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"{self!r} needs the topic of its record, which a batch does not have yet")


class RecordDeserializer(abc.ABC):
    """A `key_deserializer` or `value_deserializer` that receives the topic and headers of its
    record. Not in aiokafka.

    It may run ahead of the delivery of its record, in the consumer's event loop: it must not block.
    """

    @abc.abstractmethod
    def deserialize(
        self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes | None
    ) -> Any:
        """Deserialize a key or a value.

        Args:
            topic: The record's topic.
            headers: The record's headers.
            data: The key or the value; may be None.

        Returns:
            The record's `key` or `value`.
        """

    def __call__(self, data: bytes | None) -> Any:
        """Refuse data without a record.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"{self!r} needs the topic of its record")
