"""The connection of one leader link, to which its share session belongs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaConnectionError, KafkaError, UnsupportedVersionError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest
from aiokafka_lite.share.share_requests import RENEWALS_FROM

__all__ = ["LinkConnection", "version_of"]


class LinkConnection:
    """Opens connections to one leader, and reports when one was lost.

    Args:
        node_id: The leader.
        cluster: Provides its broker.
        timeout: Seconds that connecting may take.
        on_lost: Called when the connection was lost, and before a new one is used.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        timeout: float,
        on_lost: Callable[[KafkaError | None], None],
    ) -> None:
        self._node_id: Final = node_id
        self._cluster = cluster
        self._timeout = timeout
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._watcher: Callable[[KafkaError | None], None] | None = None  # its `on_close`
        self._notify_broker: Callable[[KafkaError | None], None] | None = None  # the one before

    def expect_answer(self) -> None:
        """A request was just sent to the broker."""
        self._cluster.expect_answer()

    @property
    def current(self) -> Connection:
        """The open connection.

        Raises:
            KafkaConnectionError: It was lost.
        """
        connection = self._connection
        if connection is None or connection.closed:
            raise KafkaConnectionError(f"the connection to broker {self._node_id} was lost")
        return connection

    def ready(self) -> Connection | None:
        """Return what `open` would return if no new connection is needed, otherwise None."""
        current = self._connection
        if current is None or current.closed:
            return None
        broker = self._cluster.broker(self._node_id)
        return current if broker.connected(Purpose.SHARE) is current else None

    async def open(self) -> Connection:
        """Return the open connection, or a new one.

        Raises:
            KafkaError: The broker cannot be reached, or rejects the client.
        """
        broker = self._cluster.broker(self._node_id)
        try:
            async with asyncio.timeout(self._timeout):
                connection = await broker.connection(Purpose.SHARE)
        except TimeoutError:
            node = broker.node
            raise KafkaConnectionError(
                f"Broker {node.node_id} at {node.host}:{node.port} did not accept a connection "
                f"within {self._timeout:g} s"
            ) from None
        if connection is not self._connection:
            self._watch(connection)
        return connection

    def _watch(self, connection: Connection) -> None:
        self._on_lost(None)
        self._connection = connection
        notify_broker = connection.on_close

        def on_close(error: KafkaError | None) -> None:
            if notify_broker is not None:
                notify_broker(error)
            if self._connection is connection:
                self._connection = None
                self._on_lost(error)

        self._watcher, self._notify_broker = on_close, notify_broker
        connection.on_close = on_close

    def leave(self) -> None:
        """The link ends, but the connection stays: a later link to this leader watches it again."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.on_close is self._watcher:
            connection.on_close = self._notify_broker
        self._watcher = self._notify_broker = None


def version_of(
    connection: Connection,
    request: type[ShareFetchRequest | ShareAcknowledgeRequest],
    node_id: int,
    *,
    renews: bool = False,
) -> int:
    """Return the version of a request that both sides support.

    Raises:
        UnsupportedVersionError: There is none; the message names the release that has it.
    """
    oldest = RENEWALS_FROM if renews else 0
    try:
        return connection.version_of(request, oldest=oldest)
    except UnsupportedVersionError as error:
        what, since = ("renew() (KIP-1222)", "4.2") if renews else ("Share groups", "4.1")
        raise UnsupportedVersionError(
            f"{what}: broker {node_id} is too old; Kafka {since} or newer is required"
        ) from error
