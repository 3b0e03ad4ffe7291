"""The SASL step of a connection: the transport of tokens, not their content.

A `Mechanism` makes the tokens: a generator that yields the client's tokens and receives the
broker's. This module carries them in SaslAuthenticate requests or, to brokers before 1.0, as raw
bytes with a length prefix.

Source: KIP-43 (SaslHandshake), KIP-152 (SaslAuthenticate), KIP-368 (session lifetime).
"""

import asyncio
from collections.abc import Generator
from typing import Final, Protocol, TypeAlias

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, for_code
from aiokafka_lite.net.broker_text import shown
from aiokafka_lite.net.slow_exchange import SlowExchange
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.protocol.versions import BrokerVersions

LONGEST_LIST: Final = 300
"""Maximum number of characters of a broker's list of mechanisms in an error."""
LONGEST_REASON: Final = 1000
"""Maximum number of characters of a broker's reason in an error."""

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's tokens, receives the broker's, and returns when the exchange is complete.

It raises AuthenticationFailedError if the broker's token is not valid. If the broker rejects the
credentials, its error is thrown in. An exchange with expensive steps is a `SlowExchange`.
"""


class Unanswered(bytes):
    """A client's last token, to which brokers return no token.

    SaslAuthenticate answers it with an empty token; bare tokens end with it.
    """

    __slots__ = ()


class Mechanism(Protocol):
    """A SASL mechanism with its credentials; it serves any number of connections."""

    @property
    def name(self) -> str:
        """The mechanism's name on the wire, such as "SCRAM-SHA-512"."""
        ...

    @property
    def hint(self) -> str:
        """Appended to the broker's text if it refuses the credentials: another possible cause."""
        ...

    async def begin(self, host: str) -> Exchange:
        """Begin an exchange with the broker at `host`; may take time, for example to fetch a token.

        `authenticate` bounds that time, and converts a cancellation from inside into an error.
        """
        ...


class Channel(Protocol):
    """The part of a connection that this step uses."""

    @property
    def host(self) -> str: ...
    @property
    def versions(self) -> BrokerVersions: ...
    async def request(self, request: RequestOf[ResponseT], version: int) -> ResponseT: ...
    async def exchange_raw(self, token: bytes) -> bytes: ...
    def send_raw(self, token: bytes) -> None: ...


async def authenticate(channel: Channel, mechanism: Mechanism, timeout: float) -> float | None:
    """Authenticate this client to the broker.

    Args:
        channel: The connection; each of its requests has its own deadline.
        mechanism: The SASL mechanism.
        timeout: Seconds within which the mechanism must fetch its credentials, and each expensive
            step must end.

    Returns:
        Seconds until the session expires; None if it does not.

    Raises:
        AuthenticationFailedError: (or its subclass for the broker's code) the broker rejected the
            credentials or does not offer the mechanism.
        KafkaConnectionError: The connection was lost, or the mechanism got no credentials in time.
        Exception: An exception of the mechanism itself.

    Cancellation: leaves the connection half authenticated: close it.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    if channel.versions.supports(ApiKey.SASL_AUTHENTICATE):
        await _choose(channel, mechanism, 1)
        exchange = await _begin(mechanism, channel.host, timeout)
        return await _exchange_requests(channel, exchange, mechanism.hint, deadline)
    if channel.versions.supports(ApiKey.SASL_HANDSHAKE):
        await _choose(channel, mechanism, 0)
    # Brokers 0.9 support GSSAPI only, and no SaslHandshake to choose it.
    exchange = await _begin(mechanism, channel.host, timeout)
    await _exchange_raw(channel, exchange, mechanism.name, deadline)
    return None


async def _begin(mechanism: Mechanism, host: str, timeout: float) -> Exchange:
    """Let the mechanism fetch its credentials in a separate task.

    This runs application code. A task separates a cancellation from inside that code, which is an
    ordinary failure, from a cancellation of the caller. Code that ignores cancellation does not
    block the caller.
    """
    beginning = asyncio.ensure_future(mechanism.begin(host))
    try:
        await asyncio.wait([beginning], timeout=timeout)
        if not beginning.done():
            raise KafkaConnectionError(
                f"{mechanism!r} got no credentials within {timeout:g} s (request_timeout_ms)"
            )
        if beginning.cancelled():
            raise KafkaConnectionError(f"{mechanism!r} got no credentials: its task was cancelled")
        return beginning.result()
    finally:
        if not beginning.done():
            beginning.add_done_callback(_ignore_outcome)
            beginning.cancel()


def _ignore_outcome(task: asyncio.Future[Exchange]) -> None:
    """Retrieve the outcome of an abandoned task, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


async def _choose(channel: Channel, mechanism: Mechanism, version: int) -> None:
    """Agree on the mechanism; version 1 announces SaslAuthenticate, version 0 raw tokens."""
    response = await channel.request(SaslHandshakeRequest(mechanism.name), version)
    if response.error_code:
        offered = shown(", ".join(response.mechanisms), LONGEST_LIST) or "none"
        raise for_code(response.error_code)(
            f"{channel.host} refused the SASL mechanism {mechanism.name}; it offers: {offered}"
        )


async def _exchange_requests(
    channel: Channel, exchange: Exchange, hint: str, deadline: float
) -> float | None:
    version = channel.versions.pick(SaslAuthenticateRequest)
    lifetime = 0
    try:
        token = await _advance(exchange, None, deadline)
        while token is not None:
            response = await channel.request(SaslAuthenticateRequest(token), version)
            if response.error_code:
                reason = response.error_message or f"{channel.host} refused the credentials"
                reason = shown(reason, LONGEST_REASON)
                error = for_code(response.error_code)(f"{reason}{hint}")
                exchange.throw(error)  # the exchange may act on it, for example drop a token
                raise error
            lifetime = response.session_lifetime_ms
            if isinstance(token, Unanswered):
                break
            token = await _advance(exchange, response.auth_bytes, deadline)
        return lifetime / 1000 if lifetime > 0 else None
    finally:
        exchange.close()


async def _exchange_raw(
    channel: Channel, exchange: Exchange, mechanism: str, deadline: float
) -> None:
    try:
        token = await _advance(exchange, None, deadline)
        while token is not None:
            if isinstance(token, Unanswered):
                channel.send_raw(token)
                break
            try:
                answer = await channel.exchange_raw(token)
            except KafkaConnectionError as error:
                raise AuthenticationFailedError(
                    f"{channel.host} closed the connection during {mechanism}: brokers before 1.0 "
                    "refuse credentials this way"
                ) from error
            token = await _advance(exchange, answer, deadline)
    finally:
        exchange.close()


async def _advance(exchange: Exchange, answer: bytes | None, deadline: float) -> bytes | None:
    """Return the client's next token after the broker's; None when the exchange is complete."""
    if isinstance(exchange, SlowExchange) and (answer is not None or exchange.slow_start):
        return await exchange.advance(answer, deadline)
    try:
        return next(exchange) if answer is None else exchange.send(answer)
    except StopIteration:
        return None
