"""What an application may implement and hand to a client: listeners and token providers."""

import abc
from collections.abc import Awaitable, Mapping
from typing import Any

from aiokafka_lite.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "AbstractTokenProvider",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ProducerInterceptor",
]


class ConsumerRebalanceListener(abc.ABC):
    """Told when the group gives partitions to this consumer or takes them away.

    Each method may be a plain function or a coroutine function; the consumer awaits it, inside the
    rebalance, before it goes on. What one raises is logged, and the rebalance goes on; when the
    consumer stops, one that takes too long is cancelled. The consumer may be used in it, but not
    read: `getone`, `getmany`, `async for` and `batches` raise IllegalStateError, because nothing is
    handed out of partitions that come or go before the method returns. A task that the method
    starts and does not wait for may read. Only for consumers that `subscribe`: an `assign` is
    nobody else's to change.
    """

    @abc.abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Awaitable[None] | None:
        """Partitions are about to be taken away, and fetching them has stopped.

        This is the place to commit what was processed, or to store offsets elsewhere: no other
        member gets the partitions before this returns (unless the session times out meanwhile).
        It is told by `stop` and `unsubscribe`, too.

        Args:
            revoked: The partitions that go; in an eager rebalance all, at the first join none.
        """

    @abc.abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were given to this consumer, and nothing of them has been handed out.

        This is the place to `seek`. Every member's `on_partitions_revoked` for them has ended.

        Args:
            assigned: The partitions that came; in an eager rebalance, as by default, all.
        """

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Awaitable[None] | None:
        """Partitions are gone already, to another member perhaps: a commit would be refused.

        Happens after a session timeout or when the member is fenced. As in Java, it does what
        `on_partitions_revoked` does unless it is overridden (KIP-429; not in aiokafka).

        Args:
            lost: The partitions that are no longer this consumer's.
        """
        return self.on_partitions_revoked(lost)


class AbstractTokenProvider(abc.ABC):
    """Gives the bearer tokens of SASL/OAUTHBEARER (KIP-255).

    A provider keeps its token until shortly before it expires: it is asked once for every
    connection and for every re-authentication.
    """

    @abc.abstractmethod
    async def token(self) -> str:
        """The token to present now; it must not have expired.

        It may take `request_timeout_ms`; then it is cancelled. That, an exception, and ending in
        CancelledError all fail this one attempt to connect or to renew the session, which is tried
        again.
        """

    def extensions(self) -> Mapping[str, str]:
        """Key-value pairs to send beside the token; none unless overridden (KIP-342)."""
        return {}


class ProducerInterceptor(abc.ABC):
    """Sees every record of a producer on its way in, and what became of it (KIP-42; ours).

    All of it runs in the producer's event loop, inside `send`: it must not block. What a method
    raises is logged; the record is not touched by it.
    """

    @abc.abstractmethod
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record is being sent.

        Args:
            record: Before its key and value are serialized and its partition is chosen.

        Returns:
            The record to send in its place, or the same.
        """

    def on_acknowledgement(  # noqa: B027 (not everybody wants to know)
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """A record was acknowledged, or will never be.

        Args:
            metadata: Where it was stored; None with `acks=0`, and when it was not.
            error: What its ack raises; None when it was acknowledged.
        """

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """The producer is closed: nothing more will come."""


class ConsumerInterceptor(abc.ABC):
    """Sees every record of a consumer before the application does, and its commits (KIP-42; ours).

    All of it runs in the consumer's event loop: it must not block. What a method raises is logged;
    the records and the commit are not touched by it.
    """

    @abc.abstractmethod
    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Records are about to be handed out.

        They come a run at a time, decoded ahead by as much as makes the cost of a call small: the
        application may seek or stop before it has read all of them.

        Args:
            records: Of one partition, in offset order, deserialized; never empty.

        Returns:
            The records to hand out: the same, or others in their place. The position moves past
            those that are left out.
        """

    def on_commit(  # noqa: B027 (not everybody wants to know)
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Offsets were committed, by the application or in its name.

        Args:
            offsets: What was committed.
        """

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """The consumer is closed: nothing more will come."""
