"""The exchange of SASL tokens, in requests or raw, and refusals."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from aiokafka_lite.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.unit.net.mechanisms import Password
from tests.unit.net.scripted import MODERN, Peer

Serve = Callable[..., Any]
Connect = Callable[..., Any]

BEFORE_1_0 = {
    ApiKey.HEARTBEAT: (0, 1),
    ApiKey.SASL_HANDSHAKE: (0, 0),
    ApiKey.API_VERSIONS: (0, 1),
}


async def take_mechanism(peer: Peer, version: int, error_code: int = 0) -> None:
    header, request = await peer.read()
    assert isinstance(request, SaslHandshakeRequest)
    assert header.request_api_version == version
    assert request.mechanism == "PASSWORD"
    peer.answer(header, SaslHandshakeResponse(error_code, ["PLAIN", "GSSAPI"]))


async def take_token(peer: Peer, **answer: Any) -> bytes:
    header, request = await peer.read()
    assert isinstance(request, SaslAuthenticateRequest)
    peer.answer(header, SaslAuthenticateResponse(**answer))
    return request.auth_bytes


async def answer_heartbeat(peer: Peer) -> None:
    header, request = await peer.read()
    assert isinstance(request, HeartbeatRequest)
    peer.answer(header, HeartbeatResponse(throttle_time_ms=3))
    await peer.silence()


def sasl(mechanism: Password) -> dict[str, Any]:
    return {"security_protocol": "SASL_PLAINTEXT", "mechanism": mechanism}


async def test_tokens_travel_in_requests(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        assert await take_token(peer, auth_bytes=b"who?") == b"secret"
        token = await take_token(peer, auth_bytes=b"welcome", session_lifetime_ms=90_000)
        assert token == b"again:who?"
        await answer_heartbeat(peer)

    mechanism = Password()
    connection = await connect(await serve(script), **sasl(mechanism))
    assert mechanism.hosts == ["127.0.0.1"]
    assert mechanism.closed == 1
    version = connection.version_of(HeartbeatRequest)
    response = await connection.request(HeartbeatRequest("g", 0, "m"), version)
    assert response.throttle_time_ms == 3


async def test_raw_tokens_with_brokers_before_1_0(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(BEFORE_1_0)
        await take_mechanism(peer, 0)
        assert await peer.read_frame() == b"secret"
        peer.write(b"\0\0\0\0")
        assert await peer.read_frame() == b"again:"
        peer.write(b"\0\0\0\x07welcome")
        await answer_heartbeat(peer)

    connection = await connect(await serve(script), **sasl(Password()))
    response = await connection.request(HeartbeatRequest("g", 0, "m"), 1)
    assert response.throttle_time_ms == 3


async def test_empty_frame_is_an_error_again_after_raw_tokens(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(BEFORE_1_0)
        await take_mechanism(peer, 0)
        await peer.read_frame()
        peer.write(b"\0\0\0\0")
        await peer.read_frame()
        peer.write(b"\0\0\0\x07welcome")
        await peer.read_frame()
        peer.write(b"\0\0\0\0")
        await peer.silence()

    connection = await connect(await serve(script), **sasl(Password()))
    with pytest.raises(KafkaConnectionError, match="length of 0 bytes"):
        await connection.request(HeartbeatRequest("g", 0, "m"), 1)


async def test_closed_connection_means_refused_credentials_before_1_0(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(BEFORE_1_0)
        await take_mechanism(peer, 0)
        await peer.read_frame()

    mechanism = Password()
    broker = await serve(script)
    with pytest.raises(AuthenticationFailedError, match=r"before 1\.0 refuse"):
        await connect(broker, **sasl(mechanism))
    assert mechanism.closed == 1


async def test_refused_credentials_raise_the_brokers_message(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        await take_token(peer, error_code=58, error_message="wrong password")
        await peer.silence()

    mechanism = Password()
    broker = await serve(script)
    with pytest.raises(SaslAuthenticationFailed, match="wrong password") as caught:
        await connect(broker, **sasl(mechanism))
    assert isinstance(caught.value, AuthenticationFailedError)
    assert not caught.value.retriable
    assert mechanism.closed == 1
    assert broker.accepted == 1


async def test_broker_without_proof_is_rejected(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        await take_token(peer, auth_bytes=b"who?")
        await take_token(peer, auth_bytes=b"no idea")
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(AuthenticationFailedError, match="proved nothing"):
        await connect(broker, **sasl(Password()))


async def test_unsupported_mechanism_lists_the_offered_ones(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1, error_code=33)
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(UnsupportedSaslMechanismError, match="it offers: PLAIN, GSSAPI"):
        await connect(broker, **sasl(Password()))


async def test_connection_lost_during_the_exchange(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet(MODERN)
        await take_mechanism(peer, 1)
        await peer.read()

    broker = await serve(script)
    with pytest.raises(KafkaConnectionError, match="closed the connection"):
        await connect(broker, **sasl(Password()))
    assert broker.accepted == 1  # it answered ApiVersions, so it is not an old broker


async def test_exception_of_the_mechanism_is_raised(serve: Serve, connect: Connect) -> None:
    class Broken(Password):
        async def begin(self, host: str) -> Any:
            raise LookupError("no token today")

    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(LookupError, match="no token today"):
        await connect(broker, **sasl(Broken()))


@pytest.mark.parametrize("ending", ["cancelled", "never"])
async def test_missing_credentials_time_out(serve: Serve, connect: Connect, ending: str) -> None:
    class Broken(Password):
        async def begin(self, host: str) -> Any:
            if ending == "cancelled":
                raise asyncio.CancelledError
            await asyncio.sleep(60)

    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        await peer.silence()

    broker = await serve(script)
    before = asyncio.all_tasks()
    async with asyncio.timeout(10):
        with pytest.raises(KafkaConnectionError, match="got no credentials"):
            await connect(broker, **sasl(Broken()), request_timeout=0.2)
    for task in asyncio.all_tasks() - before:
        await asyncio.wait([task], timeout=5)
        assert task.done()


async def test_cancelling_the_attempt_cancels_the_mechanism(serve: Serve, connect: Connect) -> None:
    ended: list[str] = []

    class Slow(Password):
        async def begin(self, host: str) -> Any:
            try:
                ended.append("begun")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

    async def script(peer: Peer) -> None:
        await peer.greet()
        await take_mechanism(peer, 1)
        await peer.silence()

    attempt = asyncio.ensure_future(connect(await serve(script), **sasl(Slow())))
    async with asyncio.timeout(10):
        while not ended:
            await asyncio.sleep(0.01)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        while ended != ["begun", "cancelled"]:
            await asyncio.sleep(0.01)
