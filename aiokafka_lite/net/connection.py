"""A connection to one broker: requests in, futures of responses out.

`open_connection` opens it. After that `send` is synchronous: it encodes, queues, and returns a
future. Requests sent during one pass of the event loop are written together, except that a request
on an idle connection is written at once.

A connection fails as a whole: when the socket is lost, a response is overdue or out of order, or
bytes are malformed. Then every pending future gets KafkaConnectionError, `on_close` is called, and
nothing more can be sent. The caller reconnects.

Non-obvious:
- One timer watches all deadlines and idleness (see `deadline_timer`), at no cost per response.
- A cancelled future keeps its place in the order; only its response is not decoded. A future that
  fails and is never awaited does not warn.
- Each future gets its own exception object: a shared one would collect the tracebacks of all
  awaiting callers.
- Large responses are views into memory that is reused automatically as soon as the last view is
  gone (see `buffers`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import KafkaConnectionError, KafkaError, KafkaProtocolError
from aiokafka_lite.net.connection_errors import chained, hung_up_hint, lost_error
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.deadline_timer import Alarm
from aiokafka_lite.net.dial import dial, expired_certificate
from aiokafka_lite.net.frames import Frame, FrameReceiver
from aiokafka_lite.net.handshake import decode
from aiokafka_lite.net.in_flight import RAW, InFlight, Pending, Promise
from aiokafka_lite.net.throttle import Throttle, responds_before_throttling, throttle_of
from aiokafka_lite.net.tls.tls_failures import refused
from aiokafka_lite.net.traffic import Traffic
from aiokafka_lite.net.transport import FrameTransport
from aiokafka_lite.protocol.framing import RequestInPieces, encode_request
from aiokafka_lite.protocol.message import Message, RequestOf, Response, ResponseT
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.protocol.versions import BrokerVersions

if TYPE_CHECKING:
    from aiokafka_lite.net.reauthentication import Renewal

log = logging.getLogger(__name__)

LAST_CORRELATION_ID: Final = 2**31 - 1
AT_ONCE: Final = 1.0
"""Seconds within which a listener disconnects a client with wrong security settings."""


class Connection:
    """A connection, made and opened only by `open_connection`.

    Attributes:
        host: Host as dialed.
        port: Port as dialed.
        versions: API versions of the broker.
        last_error: Why it was closed; None while open and after a deliberate close.
        answered_at: Loop time of the last response, or of the connection's beginning.
        asked_at: Loop time of the request that ended the last idle time.
        traffic: Counts its requests and bytes; its owner may replace it.
        on_close: Called once with `last_error` when the connection closes.
    """

    def __init__(self, host: str, port: int, options: ConnectionOptions) -> None:
        self.host = host
        self.port = port
        self.versions = BrokerVersions({})
        self.last_error: KafkaError | None = None
        self.on_close: Callable[[KafkaError | None], None] | None = None
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._receiver = FrameReceiver(options.max_response_bytes, options.buffers)
        self._transport = FrameTransport(self._receiver, self._on_frame, self._on_lost)
        self._in_flight = InFlight()
        self._leaving = InFlight()  # requests without a response, until the socket has taken them
        self._correlation_id = 0
        self._greeted_by = 0  # the last correlation id used to open the connection
        self._closed = False
        self._guessed = False  # the versions
        self._renewal: Renewal | None = None
        self._throttle = Throttle(self._loop)
        self.traffic = Traffic()
        self._last_used = self.answered_at = self.asked_at = self._loop.time()
        self._alarm = Alarm(self._loop, self._on_alarm)

    # Opening, in the order of these methods

    async def dial(self, timeout: float | None = None) -> None:
        """Connect the socket and, with TLS, complete the handshake. `timeout` is that of
        `dial.dial`."""
        await dial(self.host, self.port, self._options, self._transport, timeout=timeout)

    def begin_handshake(self, *, largest: int | None = None) -> None:
        """Begin to send requests; responses may have up to `largest` bytes, if it is given."""
        options = self._options
        if largest is not None:
            self._receiver.limit = min(largest, options.max_response_bytes)
        if options.connections_max_idle is not None:
            self._alarm.arm(self._last_used + options.connections_max_idle)

    def on_versions(self, versions: BrokerVersions, *, guessed: bool) -> None:
        """The versions of the broker are known, or `guessed` because it did not answer."""
        self.versions = versions
        self._guessed = guessed

    def on_authenticated(self, renewal: Renewal) -> None:
        """The broker accepted this client; `renewal` renews the session."""
        self._renewal = renewal

    def on_open(self) -> None:
        """Any request may be sent now.

        Raises:
            KafkaConnectionError: The connection was lost meanwhile.
        """
        self._receiver.limit = self._options.max_response_bytes
        if self._closed:
            # It was lost after the last response, before the opening coroutine resumed.
            raise self._lost_error()
        self._greeted_by = self._correlation_id

    # Sending

    def send(
        self,
        request: RequestOf[ResponseT],
        version: int,
        *,
        timeout: float | None = None,
        past_held: bool = False,
    ) -> asyncio.Future[ResponseT]:
        """Send a request and return a future of its response.

        It does not wait: check `writable` or await `drain` first to bound the queue.

        Args:
            request: The body. It is encoded at once; the data that it refers to may change as soon
                as this returns.
            version: Version to encode it in; see `version_of`.
            timeout: Seconds until a missing response fails the whole connection; by default the
                option `request_timeout`.
            past_held: Skip the queue of held requests, because this request renews the session
                that they wait for. Requests are also held while the broker throttles (KIP-219);
                their timeout starts afterwards.

        Returns:
            A future of the response. It fails with KafkaConnectionError if the connection is or
            gets closed, and with KafkaProtocolError if the response cannot be read. Cancelling it
            drops the response, not the request.

        Raises:
            UnsupportedVersionError: The version cannot express the request.
        """
        future: asyncio.Future[ResponseT] = self._loop.create_future()
        correlation_id = self._next_correlation_id()
        data = encode_request(request, version, correlation_id, self._options.client_id)
        response = request.response
        pending = self._pend(
            request.name, request.api_key, version, correlation_id, response, timeout, future
        )
        if past_held or not self._hold(pending, data, expect_response=True):
            self._post(pending, data, expect_response=True)
        return future

    def send_for(
        self,
        promise: Promise,
        request: RequestInPieces | RequestOf[Response],
        version: int,
        *,
        timeout: float | None = None,
        expect_response: bool = True,
    ) -> None:
        """Send a request whose response goes straight to a promise.

        For hot paths: it saves the future, and the event loop's pass between the response and the
        future's callbacks.

        Args:
            promise: Resolved like the future of `send`, maybe before this returns. Without a
                response it gets None once the socket has taken the request.
            request, version, timeout: As for `send`.
            expect_response: False for a produce request with acks=0, which gets no response.
        """
        correlation_id = self._next_correlation_id()
        client_id = self._options.client_id
        reader: RequestInPieces | type[Response]
        if isinstance(request, RequestInPieces):
            pieces, reader = request.encode_frame(version, correlation_id, client_id), request
        else:
            pieces = [encode_request(request, version, correlation_id, client_id)]
            reader = request.response
        pending = self._pend(
            request.name, request.api_key, version, correlation_id, reader, timeout, promise
        )
        if self._hold(pending, pieces, expect_response=expect_response):
            return
        if self._closed or not expect_response:
            self._post(pending, b"".join(pieces), expect_response=expect_response)
        else:
            idle = not self._in_flight
            if idle:
                self.asked_at = self._last_used
            self._in_flight.append(pending)
            self.traffic.on_request(sum(map(len, pieces)), self._last_used)
            self._transport.write_pieces(pieces, at_once=idle)

    async def request(
        self, request: RequestOf[ResponseT], version: int, *, timeout: float | None = None
    ) -> ResponseT:
        """Send a request and await its response. See `send`.

        Cancellation: drops the response, not the request.
        """
        return await self.send(request, version, timeout=timeout)

    async def exchange_raw(self, token: bytes) -> bytes:
        """Send and receive raw bytes with a length prefix, for SASL with brokers before 1.0."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        pending = self._pend("a SASL token", -1, 0, RAW, None, None, future)
        if self._closed:
            self._fail(pending)
        else:
            self._receiver.smallest = 0
            self._in_flight.append(pending)
            self._transport.write(len(token).to_bytes(4, "big") + token)
        try:
            return await future
        finally:
            self._receiver.smallest = 4

    def send_raw(self, token: bytes) -> None:
        """Send raw bytes with a length prefix that get no response; see `exchange_raw`."""
        if not self._closed:
            self._transport.write(len(token).to_bytes(4, "big") + token)

    def version_of(
        self,
        request: type[Message] | RequestOf[Response],
        latest: int | None = None,
        oldest: int = 0,
    ) -> int:
        """Return the newest version of a request that both sides support.

        Args:
            request: The request or its class.
            latest: Newest version that the caller can use; None for any.
            oldest: Oldest version that the caller can use.

        Raises:
            UnsupportedVersionError: There is none.
        """
        return self.versions.pick(request, latest, oldest)

    def on_throttled(self, seconds: float) -> None:
        """Begin a throttle of this many seconds, found in a response that the connection did not
        decode itself (KIP-219)."""
        if responds_before_throttling(self.versions):
            self._throttle.begin(seconds, self._in_flight)

    # State

    @property
    def listens(self) -> bool:
        """True if the broker does not throttle; otherwise requests are held for a while."""
        return not self._throttle.holds()

    async def until_listening(self) -> None:
        """Wait until the broker does not throttle, or the connection is closed.

        Cancellation: stops the wait.
        """
        while not self.listens:
            over: asyncio.Future[None] = self._loop.create_future()
            self._throttle.hold(partial(_resolve, over))
            await over

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their response."""
        return len(self._in_flight)

    def silent_for(self, now: float) -> float | None:
        """Seconds since the last answer, or since the oldest request might have been answered,
        whichever is later; None if no answer is awaited, or the broker throttles.

        A request whose timeout is longer than `request_timeout` may be held for the difference, as
        a fetch is until there are records.
        """
        if not self._in_flight or self._throttle.holds():
            return None
        oldest = self._in_flight[0]
        held = max(oldest.deadline - oldest.sent_at - self._options.request_timeout, 0.0)
        return max(now - max(self.answered_at, oldest.sent_at) - held, 0.0)

    @property
    def held(self) -> int:
        """Number of requests held by a throttle or a re-authentication."""
        return self._throttle.held + (0 if self._renewal is None else self._renewal.held)

    @property
    def writable(self) -> bool:
        """True if a request sent now leaves soon, because the socket has taken earlier ones."""
        return not self._closed and self._transport.writable

    @property
    def closed(self) -> bool:
        """True if the connection is closed."""
        return self._closed

    async def drain(self) -> None:
        """Wait until the connection is writable.

        Raises:
            KafkaConnectionError: It is closed.
        """
        await self._transport.drain()
        if self._closed:
            raise self._lost_error()

    # Closing

    def close(self, error: KafkaError | None = None) -> None:
        """Close the connection; idempotent.

        Every pending request fails with KafkaConnectionError. Without an error, requests already
        sent are still flushed to the socket, for two seconds at most.

        Args:
            error: The reason; None for a deliberate close.
        """
        if self._closed:
            return
        self._closed = True
        self.last_error = error
        log.debug(
            "%s: closing the connection to %s: %s",
            self._options.client_id,
            self,
            error or "no longer needed",
        )
        self._alarm.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        self._throttle.cancel()
        if error is None:
            self._transport.close()
        else:
            self._transport.abort()
            if self._guessed:
                # The next connection detects the versions again.
                self._options.known.forget(self.host, self.port)
        self._fail_all(self._in_flight)
        if error is not None:
            self._fail_all(self._leaving)  # otherwise the transport is still sending them
        if self.on_close is not None:
            self.on_close(error)

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `close`. Cancellation: stops the wait."""
        await self._transport.wait_lost()

    # Inside

    def _next_correlation_id(self) -> int:
        last = self._correlation_id
        self._correlation_id = last + 1 if last < LAST_CORRELATION_ID else 0
        return self._correlation_id

    def _hold(
        self, pending: Pending, data: bytes | bytearray | list[Buffer], *, expect_response: bool
    ) -> bool:
        """Hold a request that must not be sent now, its timeout paused, or return False."""
        if self._closed:
            return False  # a closed connection would never release it
        throttled = self._throttle.holds()
        renewal = self._renewal
        if not throttled and (renewal is None or not renewal.holds()):
            return False
        whole = b"".join(data) if isinstance(data, list) else data
        time_left = pending.deadline - self._loop.time()

        def post() -> None:
            self._last_used = pending.sent_at = self._loop.time()
            pending.deadline = self._last_used + time_left
            self._alarm.arm(pending.deadline)
            self._post(pending, whole, expect_response=expect_response)

        def renew_first() -> None:
            if renewal is not None and not self._closed and renewal.holds():
                renewal.hold(post)
            else:
                post()

        if throttled:
            # In this order: otherwise, requests held here would be sent during the
            # re-authentication.
            self._throttle.hold(renew_first)
        elif renewal is not None:
            renewal.hold(post)
        return True

    def _post(self, pending: Pending, data: bytes | bytearray, *, expect_response: bool) -> None:
        if self._closed:
            self._fail(pending)
            return
        self.traffic.on_request(len(data), self._last_used)
        if expect_response:
            idle = not self._in_flight
            if idle:
                self.asked_at = self._last_used
            self._in_flight.append(pending)
            self._transport.write(data, at_once=idle)
        else:
            self._leaving.append(pending)
            self._transport.write(data, self._on_written)

    def _pend(
        self,
        name: str,
        api_key: int,
        version: int,
        correlation_id: int,
        response: type[Response] | RequestInPieces | None,
        timeout: float | None,
        promise: Promise,
    ) -> Pending:
        self._last_used = now = self._loop.time()
        deadline = now + (self._options.request_timeout if timeout is None else timeout)
        if deadline < self._alarm.at:
            self._alarm.arm(deadline)
        return Pending(name, api_key, version, correlation_id, response, deadline, promise, now)

    def _on_frame(self, frame: Frame) -> None:
        self._last_used = self.answered_at = now = self._loop.time()
        try:
            pending = self._in_flight.take_answered(frame)
        except KafkaProtocolError as error:
            self.close(chained(type(error)(f"{self}: {error.args[0]}"), error))
            return
        self.traffic.on_response(len(frame) + 4, now - pending.sent_at, now)
        future = pending.future
        if future.done():
            return  # cancelled: the response is dropped
        response: object = None
        try:
            reader = pending.response
            if reader is None:
                response = bytes(frame)
            elif isinstance(reader, type):
                response = decode(frame, reader, pending.version)
                if seconds := throttle_of(response, self.versions):
                    self._throttle.begin(seconds, self._in_flight)
            else:
                response = reader.read_response(frame, pending.version)
        except Exception as error:
            # No decoder error, bugs included, may leave the caller waiting or let the stream
            # continue unnoticed.
            text = f"{self}: the response to {pending} cannot be read: {error}"
            pending.fail(chained(KafkaProtocolError(text), error))
            self.close(chained(KafkaProtocolError(text), error))
            return
        future.set_result(response)

    def _on_written(self) -> None:
        pending = self._leaving.popleft()
        if not pending.future.done():
            pending.future.set_result(None)

    def _on_lost(self, reason: Exception | None) -> None:
        if isinstance(reason, KafkaProtocolError):
            self.close(chained(type(reason)(f"{self}: {reason.args[0]}"), reason))
        elif not self._greeted_by and (refusal := self._refusal(reason)) is not None:
            # With TLS 1.3, a broker checks the certificate after the client's handshake.
            self.close(chained(refusal, reason))
        elif reason is None:
            hint = self._hint()
            self.close(KafkaConnectionError(f"{self}: the broker closed the connection{hint}"))
        else:
            hint = self._hint()
            error = KafkaConnectionError(f"{self}: the connection was lost: {reason}{hint}")
            self.close(chained(error, reason))
        self._fail_all(self._leaving)

    def _refusal(self, reason: Exception | None) -> KafkaError | None:
        """The error for a broker that refuses this client's certificate, or None."""
        return refused(str(self), reason, expired_certificate(self._options))

    def _hint(self) -> str:
        """Return a hint for a connection that ends before its first response."""
        options = self._options
        if not self._in_flight or options.sasl or not self._greeted_by:
            return ""
        if self._in_flight[0].correlation_id != self._greeted_by + 1:
            return ""
        if self._loop.time() - self._last_used > AT_ONCE:
            return ""
        return hung_up_hint(options)

    def _fail_all(self, queue: InFlight) -> None:
        for pending in queue.take_all():
            self._fail(pending)

    def _fail(self, pending: Pending) -> None:
        """Fail one future because the connection is closed."""
        if not pending.future.done():
            pending.fail(self._lost_error())

    def _lost_error(self) -> KafkaConnectionError:
        return lost_error(str(self), self.last_error)

    def _on_alarm(self) -> None:
        """Check for overdue requests and for an idle connection."""
        now = self._loop.time()
        for queue in (self._in_flight, self._leaving):
            overdue = queue.overdue(now)
            if overdue is not None:
                if queue is self._in_flight:
                    what = f"was not answered within {now - overdue.sent_at:.3g} s"
                else:
                    what = "could not be sent before its timeout"
                self.close(KafkaConnectionError(f"{self}: {overdue} {what}"))
                return
            deadline = queue.next_deadline()
            if deadline is not None:
                self._alarm.arm(deadline)
        max_idle = self._options.connections_max_idle
        if max_idle is None:
            return
        if self._in_flight or self._leaving or self.held or not self.listens:
            # Idle from now on, at the earliest; held requests count as in flight.
            self._alarm.arm(now + max_idle)
        elif now - self._last_used >= max_idle:
            log.debug(
                "%s: the connection to %s was idle for %g s",
                self._options.client_id,
                self,
                max_idle,
            )
            self.close()
        else:
            self._alarm.arm(self._last_used + max_idle)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.in_flight} in flight"
        return f"<Connection to {self}: {state}>"


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
