"""The SASL step of a connection: whose turn it is, not what is said.

What is said is a `Mechanism`: a generator that yields this client's tokens and is sent the
broker's. Here they are carried: inside SaslAuthenticate requests, or bare, each behind its length
only, to brokers before 1.0.

Source: KIP-43 (SaslHandshake), KIP-152 (SaslAuthenticate), KIP-368 (session lifetime).
"""

import asyncio
from collections.abc import Generator
from typing import Protocol, TypeAlias

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, for_code
from aiokafka_lite.net.slow_exchange import SlowExchange
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.protocol.versions import BrokerVersions

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's tokens, is sent the broker's, and returns once the client is content.

It raises AuthenticationFailedError when the broker's token proves nothing. An
exchange with expensive steps is a `SlowExchange`.
"""


class Mechanism(Protocol):
    """One way to prove who this client is; it serves any number of connections."""

    @property
    def name(self) -> str:
        """As brokers call it: "SCRAM-SHA-512"."""
        ...

    async def begin(self, host: str) -> Exchange:
        """A new exchange with the broker at `host`; may take time, to fetch a token for example.

        `authenticate` bounds that time, and turns a cancellation from inside into an error.
        """
        ...


class Channel(Protocol):
    """What a connection offers to this step."""

    @property
    def host(self) -> str: ...
    @property
    def versions(self) -> BrokerVersions: ...
    async def request(self, request: RequestOf[ResponseT], version: int) -> ResponseT: ...
    async def exchange_raw(self, token: bytes) -> bytes: ...


async def authenticate(channel: Channel, mechanism: Mechanism, patience: float) -> float | None:
    """Prove to the broker who this client is.

    Args:
        channel: The connection; each of its requests has a deadline of its own.
        mechanism: What to say.
        patience: Seconds that the mechanism may take to begin, that is to fetch its credentials.

    Returns:
        Seconds until the broker wants to be told again; None when it does not.

    Raises:
        AuthenticationFailedError: (or the broker's code for it, a subclass) it was not believed,
            or it does not offer the mechanism.
        KafkaConnectionError: The connection was lost; or the mechanism had nothing to say in time.
        Exception: What the mechanism itself raised.

    Cancellation: leaves the connection half authenticated: close it.
    """
    if channel.versions.supports(ApiKey.SASL_AUTHENTICATE):
        await _choose(channel, mechanism, 1)
        exchange = await _begin(mechanism, channel.host, patience)
        return await _exchange_requests(channel, exchange)
    if channel.versions.supports(ApiKey.SASL_HANDSHAKE):
        await _choose(channel, mechanism, 0)
    # Brokers 0.9 know GSSAPI only, and no SaslHandshake to choose it by.
    exchange = await _begin(mechanism, channel.host, patience)
    try:
        await _exchange_raw(channel, exchange)
    except KafkaConnectionError as error:
        raise AuthenticationFailedError(
            f"{channel.host} closed the connection during {mechanism.name}, which is how brokers "
            "before 1.0 refuse credentials"
        ) from error
    return None


async def _begin(mechanism: Mechanism, host: str, patience: float) -> Exchange:
    """Have the mechanism fetch its credentials, in a task of its own.

    That code is the application's. A task keeps apart a cancellation that comes from inside it,
    which is a failure like any other, from one of whoever waits here; and code that does not react
    to being cancelled holds up nobody.
    """
    beginning = asyncio.ensure_future(mechanism.begin(host))
    try:
        await asyncio.wait([beginning], timeout=patience)
        if not beginning.done():
            raise KafkaConnectionError(
                f"{mechanism!r} got no credentials within {patience:g} s (request_timeout_ms)"
            )
        if beginning.cancelled():
            raise KafkaConnectionError(f"{mechanism!r} got no credentials: it was cancelled")
        return beginning.result()
    finally:
        if not beginning.done():
            beginning.add_done_callback(_ignore_outcome)
            beginning.cancel()


def _ignore_outcome(task: asyncio.Future[Exchange]) -> None:
    """Look at the outcome of a task that was given up, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


async def _choose(channel: Channel, mechanism: Mechanism, version: int) -> None:
    """Agree on the mechanism; version 1 announces SaslAuthenticate, version 0 bare tokens."""
    response = await channel.request(SaslHandshakeRequest(mechanism.name), version)
    if response.error_code:
        offered = ", ".join(response.mechanisms) or "none"
        raise for_code(response.error_code)(
            f"{channel.host} refused the SASL mechanism {mechanism.name}; it offers: {offered}"
        )


async def _exchange_requests(channel: Channel, exchange: Exchange) -> float | None:
    version = channel.versions.pick(SaslAuthenticateRequest)
    lifetime = 0
    try:
        token = await _advance(exchange, None)
        while token is not None:
            response = await channel.request(SaslAuthenticateRequest(token), version)
            if response.error_code:
                raise for_code(response.error_code)(
                    response.error_message or f"{channel.host} refused the credentials"
                )
            lifetime = response.session_lifetime_ms
            token = await _advance(exchange, response.auth_bytes)
        return lifetime / 1000 if lifetime > 0 else None
    finally:
        exchange.close()


async def _exchange_raw(channel: Channel, exchange: Exchange) -> None:
    try:
        token = await _advance(exchange, None)
        while token is not None:
            token = await _advance(exchange, await channel.exchange_raw(token))
    finally:
        exchange.close()


async def _advance(exchange: Exchange, answer: bytes | None) -> bytes | None:
    """The client's next token after the broker's answer; None when the exchange is complete."""
    if isinstance(exchange, SlowExchange) and answer is not None:
        return await exchange.advance(answer)
    try:
        return next(exchange) if answer is None else exchange.send(answer)
    except StopIteration:
        return None
