"""One broker's listener and connections: running, paused, killed or stopped.

Non-obvious: a killed broker keeps its port bound without listening, so that connections are
refused and no other process takes the port before the broker restarts.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.server.abandoned_wait import AbandonedWait
from aiokafka_lite.testing.server.client_connection import BrokerConnection, Owner
from aiokafka_lite.testing.server.request_exchange import Dispatcher
from aiokafka_lite.testing.server.socket_listener import Listener

__all__ = ["BrokerServer"]

logger: Final = logging.getLogger(__name__)


class BrokerServer(Owner):
    """Owns one broker's sockets; `kill` or `stop` closes them.

    Attributes:
        node: This broker; `port` is set when it first listens and then stays the same.
        connections: The open connections.
        failures: Exceptions raised in the broker or by a test's function that it called.
    """

    def __init__(
        self,
        node: Node,
        dispatcher: Dispatcher,
        next_connection_id: Callable[[], int],
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.node = node
        self.dispatcher = dispatcher
        self.connections: set[BrokerConnection] = set()
        self.failures: list[Exception] = []
        self._next_connection_id = next_connection_id
        self._ssl_context = ssl_context
        self._listener: Listener | None = None
        self._leaving: list[Listener] = []  # closed, but still rejecting connections
        self._abandoned: set[AbandonedWait] = set()
        self._paused = False
        self._reserved: socket.socket | None = None  # holds the port of a killed broker
        self._all_lost: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Listen on a free port the first time, then always on the same port.

        Raises:
            OSError: The port is in use.
        """
        listening = self._reserved or self._bind()
        self._reserved = None
        self.node.port = listening.getsockname()[1]
        self._listener = Listener(listening, self._new_connection, self._ssl_context)

    def kill(self) -> None:
        """Close the listener and every connection, as SIGKILL does. The port stays reserved."""
        if self._listener is None:
            return
        self._listener.close()
        self._leaving.append(self._listener)
        self._listener = None
        self._paused = False
        self.cut_connections()
        while self._abandoned:
            self._abandoned.pop().cancel()
        try:
            self._reserved = self._bind()
        except OSError as error:  # this loop closes sockets later; `start` binds then
            logger.debug(
                "Broker %d cannot reserve port %d: %s", self.node.node_id, self.node.port, error
            )

    def pause(self) -> None:
        """Suspend the broker as SIGSTOP does: old and new connections stay open but unanswered."""
        if self._listener is None or self._paused:
            return
        self._paused = True
        self._listener.pause()
        for connection in self.connections:
            connection.pause()

    def resume(self) -> None:
        """Resume a paused broker, as SIGCONT does."""
        if self._listener is None or not self._paused:
            return
        self._paused = False
        self._listener.resume()
        for connection in list(self.connections):
            connection.resume()

    def cut_connections(self) -> None:
        """Abort every connection and keep listening."""
        for connection in list(self.connections):
            connection.abort()

    async def stop(self) -> None:
        """Kill the broker, wait until its connections are closed, and release the port."""
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        while self._leaving:
            await self._leaving.pop().wait_closed()
        if self.connections:
            self._all_lost = asyncio.get_running_loop().create_future()
            await self._all_lost

    def on_failure(self, failure: Exception) -> None:
        logger.error("Broker %d raised an exception", self.node.node_id, exc_info=failure)
        self.failures.append(failure)

    def on_abandoned(self, delayed: Delayed, ends_at: float | None, session: Session) -> None:
        def on_end(wait: AbandonedWait, failure: Exception | None) -> None:
            self._abandoned.discard(wait)
            if failure is not None:
                self.on_failure(failure)
            self.dispatcher.on_disconnect(session)

        self._abandoned.add(AbandonedWait(delayed, ends_at, on_end))

    def on_connection_made(self, connection: BrokerConnection) -> None:
        self.connections.add(connection)
        if self._paused:
            connection.pause()

    def on_connection_lost(self, connection: BrokerConnection) -> None:
        self.connections.discard(connection)
        if not self.connections and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)

    def _new_connection(self) -> BrokerConnection:
        return BrokerConnection(self, self.dispatcher.new_session(self._next_connection_id()))

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.node.listens_on else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.node.listens_on, self.node.port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return bound
