"""The asyncio side of one broker: its listener, its connections, and the order of their answers.

A connection answers one request at a time, as Kafka does: while a fetch waits for records, or a
fault delays an answer, later requests of that connection wait behind it, and no others do.

Non-obvious:
- A dropped request leaves its connection mute: a broker never answers past a request, because
  the client takes the next answer for that of the oldest request.
- A killed broker keeps its port bound without listening, so that connecting is refused and no
  other process takes the port before it is started again.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.testing.context import CloseConnection, Delayed
from aiokafka_lite.testing.exchange import Dispatcher, Exchange
from aiokafka_lite.testing.frames import FrameReceiver
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.session import Session

__all__ = ["BrokerConnection", "BrokerServer"]

logger: Final = logging.getLogger(__name__)

BACKLOG: Final = 128


class BrokerConnection(asyncio.BufferedProtocol):
    """One client's connection to one broker."""

    def __init__(self, server: "BrokerServer", connection_id: int) -> None:
        self._server = server
        self._session = Session(connection_id)
        self._loop = asyncio.get_running_loop()
        self._receiver = FrameReceiver()
        self._pending: deque[bytes | bytearray] = deque()
        self._exchange: Exchange | None = None  # the request being answered; others wait
        self._delayed: Delayed | None = None  # what its answer waits for
        self._timer: asyncio.TimerHandle | None = None
        self._wake_handle: asyncio.Handle | None = None
        self._closed = False
        self._transport: asyncio.Transport | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._session.client_host = f"/{transport.get_extra_info('peername')[0]}"
        self._server.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._run(self._receive, nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._server.on_connection_lost(self)

    def abort(self) -> None:
        """End the connection now; nothing more is sent."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    # One request after the other

    def _run(self, step: Callable[..., None], *arguments: object) -> None:
        """Take a step that the loop asks for, then go on with the requests that wait.

        What fails otherwise than by closing is the broker's own fault, or that of a function that
        a test gave to a fault: it ends the connection and is told to the cluster.
        """
        try:
            step(*arguments)
            while self._pending and self._exchange is None and not self._closed:
                self._begin(self._pending.popleft())
        except CloseConnection as reason:
            self._close_for(reason)
        except Exception as failure:
            self._server.on_failure(failure)
            self.abort()

    def _receive(self, count: int) -> None:
        try:
            self._pending.extend(self._receiver.on_bytes(count))
        except KafkaProtocolError as error:
            raise CloseConnection(str(error)) from error

    def _begin(self, frame: bytes | bytearray) -> None:
        exchange = self._server.dispatcher.receive(frame, self._session, self._loop.time())
        self._exchange = exchange
        fault = exchange.fault
        if fault is None or fault.after_handling:
            self._handle(exchange)
        elif fault.delay:
            self._strike_later(fault.delay, exchange, None)
        else:
            self._strike(exchange, None)

    def _handle(self, exchange: Exchange) -> None:
        answer = exchange.handle()
        if isinstance(answer, Delayed):
            self._wait(answer)
        else:
            self._on_answer(exchange, answer)

    def _on_answer(self, exchange: Exchange, response: Response | None) -> None:
        """The broker has done what was asked; ``None`` if that has no response."""
        fault = exchange.fault
        if fault is None or not fault.after_handling:
            self._send(exchange, response)
        elif fault.delay:
            self._strike_later(fault.delay, exchange, response)
        else:
            self._strike(exchange, response)

    def _strike(self, exchange: Exchange, response: Response | None) -> None:
        """Let the fault have its way, before the handling or after it."""
        fault, request = exchange.fault, exchange.request
        if fault is None or request is None:
            raise RuntimeError("there is no fault to strike with")
        if fault.drop:
            return  # and never answer anything again, but stay connected
        if fault.disconnect:
            self.abort()
            return
        replacement = fault.replacement(request)
        if replacement is not None:
            self._send(exchange, replacement)
        elif fault.after_handling:
            self._send(exchange, response)
        else:
            self._handle(exchange)

    def _send(self, exchange: Exchange, response: Response | None) -> None:
        fault = exchange.fault
        if response is not None and self._transport is not None:
            if fault is not None:
                fault.finish(response)
            frame: bytes | bytearray = exchange.encode(response)
            if fault is not None and fault.tamper is not None:
                frame = fault.tamper(bytearray(frame))
            if fault is not None and fault.bytes_sent is not None:
                self._forget()
                self._transport.write(frame[: fault.bytes_sent])
                self._transport.close()
                return
            self._transport.write(frame)
        self._exchange = None

    # Waiting

    def _wait(self, delayed: Delayed) -> None:
        self._delayed = delayed
        for watchers in delayed.watched:
            watchers.add(self._wake)
        if delayed.timeout is not None:
            self._timer = self._loop.call_later(delayed.timeout, self._run, self._end_wait)

    def _wake(self) -> None:
        """Something changed: look once in this pass of the loop, however much changes in it."""
        if self._wake_handle is None:
            self._wake_handle = self._loop.call_soon(self._run, self._look_again)

    def _look_again(self) -> None:
        self._wake_handle = None
        if self._delayed is not None:
            response = self._delayed.take_if_ready()
            if response is not None:
                self._end_wait(response)

    def _end_wait(self, response: Response | None = None) -> None:
        """Answer: with what is ready, or with what there is because time is up."""
        exchange, delayed = self._exchange, self._delayed
        self._stop_waiting()
        if exchange is not None and delayed is not None:
            self._on_answer(exchange, response or delayed.take_now())

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wake_handle is not None:
            self._wake_handle.cancel()
            self._wake_handle = None
        if self._delayed is not None:
            for watchers in self._delayed.watched:
                watchers.remove(self._wake)
            self._delayed = None

    def _strike_later(self, delay: float, exchange: Exchange, response: Response | None) -> None:
        self._timer = self._loop.call_later(delay, self._run, self._strike, exchange, response)

    # The end

    def _close_for(self, reason: Exception) -> None:
        logger.info(
            "broker %d closes connection %d: %s",
            self._server.node.node_id,
            self._session.connection_id,
            reason,
        )
        self._forget()
        if self._transport is not None:
            self._transport.close()  # what was answered before is still sent

    def _forget(self) -> None:
        self._closed = True
        if self._delayed is not None:
            self._delayed.cancel()
        self._stop_waiting()
        self._pending.clear()
        self._exchange = None


class BrokerServer:
    """One broker's listener and connections. Owns its sockets; ``kill`` or ``stop`` ends them.

    Attributes:
        node: this broker; ``port`` is set when it first listens, and kept.
        dispatcher: what answers its requests.
        connections: those that are open.
        failures: what went wrong in the broker itself, or in a test's function that it called.
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
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = None  # holds the port of a killed broker
        self._all_lost: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Listen: on any free port at first, then always on the same one.

        Raises:
            OSError: the port is taken.
        """
        listening = self._reserved or self._bind()
        self._reserved = None
        self.node.port = listening.getsockname()[1]
        self._server = await asyncio.get_running_loop().create_server(
            lambda: BrokerConnection(self, self._next_connection_id()),
            sock=listening,
            backlog=BACKLOG,
            ssl=self._ssl_context,
        )

    def kill(self) -> None:
        """Close the listener and every connection, as SIGKILL does. The port stays taken."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self.cut_connections()
        try:
            self._reserved = self._bind()
        except OSError as error:  # a loop that closes sockets later; ``start`` binds then
            logger.debug("port %d is not reserved: %s", self.node.port, error)

    def cut_connections(self) -> None:
        """Abort every connection and go on listening."""
        for connection in list(self.connections):
            connection.abort()

    async def stop(self) -> None:
        """Kill it, wait until its connections are gone, and give up the port."""
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self.connections:
            self._all_lost = asyncio.get_running_loop().create_future()
            await self._all_lost

    def on_failure(self, failure: Exception) -> None:
        logger.error("broker %d failed", self.node.node_id, exc_info=failure)
        self.failures.append(failure)

    def on_connection_lost(self, connection: BrokerConnection) -> None:
        self.connections.discard(connection)
        if not self.connections and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.node.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.node.host, self.node.port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return bound
