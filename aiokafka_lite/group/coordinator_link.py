"""Finds a group's coordinator and sends requests to it.

The cluster caches the coordinator, also for the group's commits. Requests use the broker's
connections: `GROUP` for heartbeats and joins, `COMMIT` for requests that must not queue behind
those.

A coordinator may take a long time to answer a join. It may also be frozen with an open connection,
while another broker has replaced it. So a `CoordinatorWatch` asks other brokers while a response is
overdue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinator_watch import CoordinatorWatch
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf
from aiokafka_lite.errors import (
    GroupCoordinatorNotAvailableError,
    KafkaConnectionError,
)
from aiokafka_lite.group.membership import Send
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.message import Response

__all__ = ["CoordinatorLink"]

SILENT_FOR: Final = 5.0
"""Seconds without a response before other brokers are asked for the coordinator, and between two
look-ups."""

_PURPOSES: Final = (Purpose.GROUP, Purpose.COMMIT)


class CoordinatorLink:
    """Sends requests to the coordinator of one group.

    Args:
        cluster: The group's cluster.
        group_id: The group's name.
        spawn: Starts a task with a name.
        loop: The event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        spawn: Callable[[Coroutine[object, object, None], str], object],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._loop = loop
        self._watch = CoordinatorWatch(cluster, SILENT_FOR, spawn, loop)
        self._broker: Broker | None = None
        self._connections: dict[Purpose, Connection] = {}  # last used

    @property
    def lost(self) -> bool:
        """True if a connection to the coordinator broke since it was found."""
        return any(
            connection.closed and connection.last_error is not None
            for connection in self._connections.values()
        )

    async def find(self, deadline: float) -> None:
        """Find the coordinator; the one found before is discarded.

        Args:
            deadline: In loop time.

        Raises:
            KafkaTimeoutError: The coordinator was not found in time.
            GroupAuthorizationFailedError: Raised at once.
        """
        before = self._broker
        if before is not None:
            # Unless a commit has found a new one meanwhile.
            self._cluster.coordinators.forget(CoordinatorKind.GROUP, self._group_id, before.node_id)
        route = CoordinatorOf(self._group_id)
        self._broker = await route.find(self._cluster, -1, deadline)
        self._connections.clear()
        if before is not None and before is not self._broker:
            self._leave(
                before,
                KafkaConnectionError(
                    f"{before} is no longer the coordinator of group {self._group_id}"
                ),
            )

    async def ask(self, step: Send) -> Response:
        """Send a request and wait for its response.

        Raises:
            KafkaConnectionError: The connection failed, or the response timed out; a timeout closes
                the connection, because later requests would queue behind this one.
            UnsupportedVersionError: The coordinator supports no suitable version.
            KafkaError: The broker is no longer reachable.

        Cancellation: stops the wait; the request may have been sent.
        """
        if self._broker is None:
            raise GroupCoordinatorNotAvailableError(
                f"the coordinator of group {self._group_id} is unknown"
            )
        loop = self._loop
        deadline = loop.time() + step.timeout
        broker = self._cluster.broker(self._broker.node_id)  # raises if it is not live
        purpose = Purpose.COMMIT if step.apart else Purpose.GROUP
        try:
            async with asyncio.timeout_at(deadline):
                connection = await broker.connection(purpose)
        except TimeoutError:
            raise KafkaConnectionError(
                f"{broker}: not connected within {step.timeout:g} s"
            ) from None
        self._connections[purpose] = connection
        version = connection.version_of(step.request_class, oldest=step.oldest)
        answer = connection.send(
            step.request_for(version), version, timeout=max(deadline - loop.time(), 0.0)
        )
        leave = partial(self._leave, broker)
        self._watch.watch(CoordinatorKind.GROUP, self._group_id, broker.node_id, answer, leave)
        return await answer

    def close(self) -> None:
        """Stop watching the coordinator. Idempotent."""
        self._watch.close()

    def _leave(self, broker: Broker, error: KafkaConnectionError) -> None:
        """Another broker is now the coordinator: stop waiting for this one, which may not respond
        for as long as a rebalance may take."""
        for purpose in _PURPOSES:
            connection = broker.connected(purpose)
            if connection is not None:
                connection.close(error)
