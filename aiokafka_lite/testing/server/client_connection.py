"""One client's connection to one broker, and the order of its responses.

A connection processes one request at a time, as in Kafka: later requests wait while a fetch waits
for records, a fault delays a response, or a throttle mutes the connection.

Non-obvious:
- A dropped request leaves its connection mute: a broker never skips a request, because the client
  matches the next response to its oldest request.
- As in Kafka, a connection accepts no further request from a client that does not read its
  responses, and stops reading while many requests wait. This bounds its memory.
- While paused, due events (a timer, an awaited change) are held and run in the same order after
  `resume`.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, cast

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.context import CloseConnection, Delayed
from aiokafka_lite.testing.server.request_exchange import Dispatcher, Exchange
from aiokafka_lite.testing.server.request_frames import (
    LARGEST_REQUEST,
    LARGEST_TOKEN,
    FrameReceiver,
)
from aiokafka_lite.testing.server.socket_listener import Guest

__all__ = ["BrokerConnection", "Owner"]

logger: Final = logging.getLogger(__name__)

MOST_WAITING: Final = 4 * 1024 * 1024
"""Bytes of waiting requests beyond which the connection stops reading."""
FRAME_COST: Final = 64
"""Bytes counted for each waiting request in addition to its size."""


class Owner(ABC):
    """The broker that a connection belongs to.

    Attributes:
        dispatcher: Processes the connection's requests.
    """

    dispatcher: Dispatcher

    @abstractmethod
    def on_connection_made(self, connection: "BrokerConnection") -> None: ...

    @abstractmethod
    def on_connection_lost(self, connection: "BrokerConnection") -> None: ...

    @abstractmethod
    def on_failure(self, failure: Exception) -> None:
        """Report an exception from the broker or from a test's function that it called."""

    @abstractmethod
    def on_abandoned(self, delayed: Delayed, ends_at: float | None, session: Session) -> None:
        """Complete a request whose client has disconnected, then release the connection.

        Args:
            delayed: The request.
            ends_at: When it times out, on the event loop's clock; None if it has no timeout.
            session: The session of the closed connection.
        """


class BrokerConnection(Guest):
    """An accepted connection."""

    def __init__(self, owner: Owner, session: Session) -> None:
        self._owner = owner
        self._session = session
        self._throttles = owner.dispatcher.throttles
        self._loop = asyncio.get_running_loop()
        self._receiver = FrameReceiver()
        self._pending: deque[bytes | bytearray] = deque()
        self._waiting = 0  # their size in bytes
        self._exchange: Exchange | None = None  # the request being answered; others wait
        self._delayed: Delayed | None = None  # what its response waits for
        self._timer: asyncio.TimerHandle | None = None
        self._wake_handle: asyncio.Handle | None = None
        self._held: list[tuple[Callable[..., None], tuple[object, ...]]] | None = None  # paused
        self._congested = False  # the client does not read its responses
        self._reading = True
        self._closed = False
        self._transport: asyncio.Transport | None = None

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._closed:
            self._transport.abort()
        peer = transport.get_extra_info("peername")
        if peer is not None:  # None: the client reset the connection before it was accepted
            self._session.client_host = f"/{peer[0]}"
            self._session.port = peer[1]
        certificate = transport.get_extra_info("peercert")
        if certificate:
            from aiokafka_lite.testing.security.certificates import principal_of

            self._session.principal = principal_of(certificate)
        self._owner.on_connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._run(self._receive, nbytes)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self._run(self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._owner.on_connection_lost(self)

    # Called by the owner

    def abort(self) -> None:
        """Close the connection now without sending anything more."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading and answering, but stay connected."""
        if self._held is None and self._transport is not None:
            self._held = []
            self._read_as_fits()

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._held is None or self._transport is None:
            return
        held, self._held = self._held, None
        for step, arguments in held:
            self._run(step, *arguments)
        self._run(self._go_on)

    # Requests in order

    def _run(self, step: Callable[..., None], *arguments: object) -> None:
        """Run a step requested by the event loop, then process the waiting requests.

        Any exception but `CloseConnection` is a bug in the broker or in a function that a test
        gave to a fault: it closes the connection and is reported to the cluster.
        """
        if self._held is not None:
            self._held.append((step, arguments))
            return
        if self._closed:
            return
        try:
            step(*arguments)
            while self._may_begin():
                frame = self._pending.popleft()
                self._waiting -= len(frame) + FRAME_COST
                self._begin(frame)
            self._read_as_fits()
        except CloseConnection as reason:
            self._close_for(reason)
        except Exception as failure:
            self._owner.on_failure(failure)
            self.abort()

    def _may_begin(self) -> bool:
        """Return True if the next request may be processed."""
        return bool(
            self._pending and self._exchange is None and not self._congested and not self._closed
        )

    def _go_on(self) -> None:
        """An empty step: `_run` then processes the waiting requests."""

    def _read_as_fits(self) -> None:
        """Read, unless the broker is paused or too many requests wait."""
        reads = self._held is None and self._waiting <= MOST_WAITING
        if reads == self._reading or self._closed or self._transport is None:
            return
        self._reading = reads
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _receive(self, count: int) -> None:
        authentication = self._session.authentication
        if authentication is not None:
            self._receiver.largest = LARGEST_REQUEST if authentication.is_done else LARGEST_TOKEN
        try:
            frames = self._receiver.on_bytes(count)
        except KafkaProtocolError as error:
            raise CloseConnection(str(error)) from error
        self._pending.extend(frames)
        self._waiting += sum(map(len, frames)) + FRAME_COST * len(frames)

    def _begin(self, frame: bytes | bytearray) -> None:
        exchange = self._owner.dispatcher.receive(frame, self._session, self._loop.time())
        self._exchange = exchange
        fault = exchange.fault
        if fault is None or fault.after_handling:
            self._handle(exchange)
        elif fault.delay:
            self._strike_later(fault.delay, exchange, None)
        else:
            self._strike(exchange, None)

    def _handle(self, exchange: Exchange) -> None:
        if self._throttles.active:
            started = perf_counter()
            answer = exchange.handle()
            exchange.busy = perf_counter() - started
        else:
            answer = exchange.handle()
        if isinstance(answer, Delayed):
            self._wait(answer)
        else:
            self._on_answer(exchange, answer)

    def _on_answer(self, exchange: Exchange, response: Response | None) -> None:
        """Handle the broker's response; None if the request has no response."""
        fault = exchange.fault
        if fault is None or not fault.after_handling:
            self._send(exchange, response)
        elif fault.delay:
            self._strike_later(fault.delay, exchange, response)
        else:
            self._strike(exchange, response)

    def _strike(self, exchange: Exchange, response: Response | None) -> None:
        """Apply the fault, before or after the request is handled."""
        fault, request = exchange.fault, exchange.request
        if fault is None or request is None:
            raise RuntimeError("no fault applies to this request")
        if fault.drop:
            return  # stay connected, but never answer again
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
        if fault is not None and response is not None:
            fault.finish(response)
        muted = self._throttle(exchange, response) if self._throttles.active else 0.0
        if response is not None and self._transport is not None:
            frame: bytes | bytearray = exchange.encode(response)
            if fault is not None and fault.tamper is not None:
                frame = fault.tamper(bytearray(frame))
            if fault is not None and fault.bytes_sent is not None:
                self._write_and_close(frame[: fault.bytes_sent])
                return
            if exchange.ends_connection:
                self._write_and_close(frame)
                return
            self._transport.write(frame)
        elif fault is not None and fault.bytes_sent is not None:
            self._write_and_close(b"")  # no response to truncate; only close the connection
            return
        if muted:
            self._timer = self._loop.call_later(muted, self._run, self._unmute)
        else:
            self._exchange = None

    # Throttling

    def _throttle(self, exchange: Exchange, response: Response | None) -> float:
        """Record quota use, set the response's throttle time, and return the mute time in seconds.

        The response is sent at once: current clients wait for the throttle time it contains, and
        older clients find the connection muted (KIP-219).
        """
        from aiokafka_lite.protocol.messages.fetch import FetchResponse  # rare: import late

        seen = exchange.seen
        size = seen.size
        if isinstance(response, FetchResponse):
            size = len(exchange.encode(response))
        throttle = self._throttles.charge(
            seen.api_key, seen.principal, seen.client_id or "", size, exchange.busy
        )
        if throttle.ms and response is not None:
            if throttle.empties_fetch and isinstance(response, FetchResponse):
                response.responses = []
                response.node_endpoints = []
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle.ms
        return throttle.ms / 1000

    def _unmute(self) -> None:
        self._timer = None
        self._exchange = None

    # Waiting

    def _wait(self, delayed: Delayed) -> None:
        self._delayed = delayed
        for watchers in delayed.watched:
            watchers.add(self._wake)
        if delayed.timeout is not None:
            self._timer = self._loop.call_later(delayed.timeout, self._run, self._end_wait)

    def _wake(self) -> None:
        """Schedule one check in this loop iteration, however many changes occur in it."""
        if self._wake_handle is None:
            self._wake_handle = self._loop.call_soon(self._run, self._look_again)

    def _look_again(self) -> None:
        self._wake_handle = None
        if self._delayed is not None:
            response = self._delayed.take_if_ready()
            if response is not None:
                self._end_wait(response)

    def _end_wait(self, response: Response | None = None) -> None:
        """Send the response: the complete one, or at the timeout whatever is available."""
        exchange, delayed = self._exchange, self._delayed
        self._stop_waiting()
        if exchange is not None and delayed is not None:
            exchange.ends_connection = delayed.ends_connection
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

    # Closing

    def _close_for(self, reason: Exception) -> None:
        logger.info("Closing connection %d: %s", self._session.connection_id, reason)
        self._write_and_close(b"")

    def _write_and_close(self, frame: bytes | bytearray) -> None:
        """Write a frame and close the connection after sending all earlier responses."""
        self._forget()
        if self._transport is not None:
            self._transport.write(frame)
            self._transport.close()

    def _forget(self) -> None:
        if self._closed:
            return
        self._closed = True
        delayed = self._delayed
        ends_at = None if self._timer is None else self._timer.when()
        outlives = delayed is not None and delayed.outlives_connection and self._held is None
        self._held = None
        self._stop_waiting()
        self._pending.clear()
        self._exchange = None
        try:
            if delayed is not None and outlives:
                self._owner.on_abandoned(delayed, ends_at, self._session)
                return
            if delayed is not None:
                delayed.cancel()
            self._owner.dispatcher.on_disconnect(self._session)
        except Exception as failure:
            self._owner.on_failure(failure)
