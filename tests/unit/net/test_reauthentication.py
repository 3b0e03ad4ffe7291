"""A SASL session is renewed before it expires, without losing or reordering requests (KIP-368)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.net.connection import Connection
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
from tests.unit.net.scripted import Peer

Serve = Callable[..., Any]
Connect = Callable[..., Any]

LIFETIME_MS = 100
SASL_AUTHENTICATION_FAILED = 58
HEARTBEAT = HeartbeatRequest("g", 0, "m")


async def believe(peer: Peer, lifetime_ms: int, error_code: int = 0) -> None:
    """Answer one authentication with the test mechanism."""
    header, asked = await peer.read()
    assert isinstance(asked, SaslHandshakeRequest)
    peer.answer(header, SaslHandshakeResponse(mechanisms=["PASSWORD"]))
    header, asked = await peer.read()
    assert isinstance(asked, SaslAuthenticateRequest)
    if error_code:
        peer.answer(header, SaslAuthenticateResponse(error_code, "no longer"))
        return
    peer.answer(header, SaslAuthenticateResponse(auth_bytes=b"who?"))
    header, _ = await peer.read()
    answer = SaslAuthenticateResponse(auth_bytes=b"welcome", session_lifetime_ms=lifetime_ms)
    peer.answer(header, answer)


async def answer_heartbeats(peer: Peer, *numbers: int) -> None:
    for number in numbers:
        header, asked = await peer.read()
        assert isinstance(asked, HeartbeatRequest)
        peer.answer(header, HeartbeatResponse(throttle_time_ms=number))


def options() -> dict[str, Any]:
    return {"security_protocol": "SASL_PLAINTEXT", "mechanism": Password()}


async def beat(connection: Connection) -> int:
    version = connection.versions.range_of(ApiKey.HEARTBEAT)
    assert version is not None
    return (await connection.request(HEARTBEAT, version[1])).throttle_time_ms


async def test_requests_wait_for_the_reauthentication_in_order(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await answer_heartbeats(peer, 1)
        await believe(peer, 0)
        await answer_heartbeats(peer, 2, 3, 4)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    assert await beat(connection) == 1
    await asyncio.sleep(LIFETIME_MS / 1000)
    beats = [asyncio.ensure_future(beat(connection)) for _ in range(3)]
    beats.append(asyncio.ensure_future(beat(connection)))
    beats.pop().cancel()  # a cancelled request does not delay the others
    assert await asyncio.gather(*beats) == [2, 3, 4]


async def test_throttled_requests_also_wait_for_the_reauthentication(
    serve: Serve, connect: Connect
) -> None:
    throttled_ms = 2 * LIFETIME_MS

    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await answer_heartbeats(peer, throttled_ms)
        await asyncio.sleep(throttled_ms / 1000 * 1.2)  # it throttles
        await believe(peer, 0)
        await answer_heartbeats(peer, 1, 2)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    assert await beat(connection) == throttled_ms
    held = asyncio.ensure_future(beat(connection))
    await asyncio.sleep(LIFETIME_MS / 1000)
    due = asyncio.ensure_future(beat(connection))
    assert [await held, await due] == [1, 2]


@pytest.mark.parametrize("renewing", [False, True])
async def test_request_after_close_raises(serve: Serve, connect: Connect, renewing: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    await asyncio.sleep(LIFETIME_MS / 1000)
    if renewing:
        connection.send(HEARTBEAT, 4)
    connection.close()
    async with asyncio.timeout(10):
        with pytest.raises(KafkaConnectionError, match="closed"):
            await beat(connection)


async def test_closed_connection_does_not_reauthenticate(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await answer_heartbeats(peer, 60_000)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    await beat(connection)
    held = asyncio.ensure_future(beat(connection))
    await asyncio.sleep(LIFETIME_MS / 1000)
    connection.close()
    with pytest.raises(KafkaConnectionError, match="closed"):
        await held


async def test_refused_reauthentication_closes_the_connection(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await believe(peer, 0, SASL_AUTHENTICATION_FAILED)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    await asyncio.sleep(LIFETIME_MS / 1000)
    with pytest.raises(KafkaConnectionError, match="no longer"):
        await beat(connection)
    assert connection.closed
    assert isinstance(connection.last_error, AuthenticationFailedError)


async def test_failing_mechanism_closes_the_connection(serve: Serve, connect: Connect) -> None:
    class Forgetful(Password):
        async def begin(self, host: str) -> Any:
            if self.hosts:
                raise LookupError("the token is nowhere")
            return await super().begin(host)

    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        header, _ = await peer.read()
        peer.answer(header, SaslHandshakeResponse(mechanisms=["PASSWORD"]))
        await peer.silence()

    chosen = {**options(), "mechanism": Forgetful()}
    connection = await connect(await serve(script), **chosen)
    await asyncio.sleep(LIFETIME_MS / 1000)
    with pytest.raises(KafkaConnectionError, match="the token is nowhere"):
        await beat(connection)
    assert isinstance(connection.last_error, AuthenticationFailedError)


async def test_close_during_reauthentication_fails_held_requests(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    await asyncio.sleep(LIFETIME_MS / 1000)
    held = asyncio.ensure_future(beat(connection))
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(KafkaConnectionError, match="closed"):
        await held


@pytest.mark.parametrize("ending", ["cancelled", "never"])
async def test_missing_credentials_close_the_connection(
    serve: Serve, connect: Connect, ending: str
) -> None:
    class Forgetful(Password):
        async def begin(self, host: str) -> Any:
            if not self.hosts:
                return await super().begin(host)
            if ending == "cancelled":
                raise asyncio.CancelledError
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if self.closed == 2:
                        raise  # the test has ended

    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        header, _ = await peer.read()
        peer.answer(header, SaslHandshakeResponse(mechanisms=["PASSWORD"]))
        await peer.silence()

    mechanism = Forgetful()
    chosen = {**options(), "mechanism": mechanism, "request_timeout": 0.5}
    connection = await connect(await serve(script), **chosen)
    await asyncio.sleep(LIFETIME_MS / 1000)
    before = asyncio.all_tasks()
    async with asyncio.timeout(10):
        with pytest.raises(KafkaConnectionError, match="got no credentials"):
            await beat(connection)
    assert connection.closed
    mechanism.closed = 2
    for task in asyncio.all_tasks() - before:
        task.cancel()


async def test_cancelled_reauthentication_closes_the_connection(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await peer.silence()

    connection = await connect(await serve(script), **options())
    await asyncio.sleep(LIFETIME_MS / 1000)
    held = asyncio.ensure_future(beat(connection))
    await asyncio.sleep(0)
    (renewal,) = [t for t in asyncio.all_tasks() if t.get_name().endswith("renew session")]
    renewal.cancel()  # as a program that cancels all tasks does
    async with asyncio.timeout(10):
        with pytest.raises(KafkaConnectionError, match="was cancelled"):
            await held
    assert connection.closed


async def test_connection_with_held_requests_is_not_idle(serve: Serve, connect: Connect) -> None:
    class Slow(Password):
        async def begin(self, host: str) -> Any:
            if self.hosts:
                await asyncio.sleep(0.6)
            return await super().begin(host)

    async def script(peer: Peer) -> None:
        await peer.greet()
        await believe(peer, LIFETIME_MS)
        await believe(peer, 0)
        await answer_heartbeats(peer, 1)
        await peer.silence()

    chosen = {**options(), "mechanism": Slow(), "connections_max_idle": 0.2}
    connection = await connect(await serve(script), **chosen)
    await asyncio.sleep(LIFETIME_MS / 1000)
    held = asyncio.ensure_future(beat(connection))
    await asyncio.sleep(0.01)
    assert connection.held == 1
    assert await held == 1
    assert connection.held == 0
