"""Dialling: name resolution, trying each address, socket options, and TLS verification."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from aiokafka_lite._threads import NoThreadError, lookup_threads
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.net import dial as dialling
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.dial import dial, resolve
from tests.unit.net.scripted import Peer, ScriptedBroker

Serve = Callable[..., Any]
AddressInfo = tuple[int, int, int, str, Any]


class Receiver(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            asyncio.Transport, transport
        )  # uvloop's class is not a subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)

    async def close(self) -> None:
        assert self.transport is not None
        self.transport.abort()
        async with asyncio.timeout(5):
            await self.lost


async def listen(peer: Peer) -> None:
    await peer.silence()


def closed_port() -> int:
    """An unused port on loopback."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def addresses(monkeypatch: pytest.MonkeyPatch, *wanted: tuple[str, int]) -> None:
    """Resolve every name to these addresses."""

    async def resolve_so(host: str, port: int, timeout: float) -> list[AddressInfo]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in wanted]

    monkeypatch.setattr(dialling, "resolve", resolve_so)


async def test_first_accepting_address_is_used(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker: ScriptedBroker = await serve(listen)
    addresses(monkeypatch, ("127.0.0.1", closed_port()), ("127.0.0.1", broker.port))
    receiver = Receiver()
    await dial("two.example", 9092, ConnectionOptions(), receiver)
    assert receiver.transport is not None
    assert receiver.transport.get_extra_info("peername")[1] == broker.port
    await receiver.close()


async def test_error_lists_every_failed_address(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses(monkeypatch, ("127.0.0.1", closed_port()), ("127.0.0.2", closed_port()))
    with pytest.raises(KafkaConnectionError) as caught:
        await dial("two.example", 9092, ConnectionOptions(), Receiver())
    assert "cannot connect to two.example:9092" in str(caught.value)
    assert "127.0.0.1: " in str(caught.value)
    assert "127.0.0.2: " in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


async def test_unresponsive_address_times_out(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker: ScriptedBroker = await serve(listen)
    with socket.socket() as full:
        # With a full backlog, further connections are neither accepted nor refused.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        queued = [socket.socket() for _ in range(3)]
        try:
            for each in queued:
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            addresses(monkeypatch, full.getsockname(), ("127.0.0.1", broker.port))
            receiver = Receiver()
            await dial("slow.example", 9092, ConnectionOptions(connect_timeout=0.1), receiver)
            assert receiver.transport is not None
            assert receiver.transport.get_extra_info("peername")[1] == broker.port
            await receiver.close()
            addresses(monkeypatch, full.getsockname())
            with pytest.raises(KafkaConnectionError, match=r"no answer within 0\.1 s"):
                await dial("slow.example", 9092, ConnectionOptions(connect_timeout=0.1), Receiver())
            with pytest.raises(KafkaConnectionError, match=r"no answer within 0\.05 s"):
                await dial("slow.example", 9092, ConnectionOptions(), Receiver(), timeout=0.05)
        finally:
            for each in queued:
                each.close()


async def test_socket_options_are_set(serve: Serve) -> None:
    broker: ScriptedBroker = await serve(listen)
    receiver = Receiver()
    options = ConnectionOptions(send_buffer_bytes=50_000, receive_buffer_bytes=60_000)
    await dial("127.0.0.1", broker.port, options, receiver)
    assert receiver.transport is not None
    connected = receiver.transport.get_extra_info("socket")
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    # Linux doubles the requested size.
    assert 50_000 <= connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 100_000
    assert 60_000 <= connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 120_000
    await receiver.close()


async def test_numeric_addresses_are_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("looked up")

    monkeypatch.setattr(lookup_threads, "run", refuse)
    assert (await resolve("127.0.0.1", 9092, 1))[0][4] == ("127.0.0.1", 9092)
    assert (await resolve("::1", 9092, 1))[0][4][:2] == ("::1", 9092)


async def test_names_are_resolved() -> None:
    assert ("127.0.0.1", 9092) in [info[4] for info in await resolve("localhost", 9092, 5)]


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "Name unknown"), UnicodeError("label too long")]
)
async def test_unresolvable_name_raises(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise error

    # No resolver is used, because there may be none.
    monkeypatch.setattr(dialling, "_look_up", fail)
    with pytest.raises(KafkaConnectionError, match=r"cannot resolve 'no\.example'"):
        await resolve("no.example", 9092, 5)


async def test_slow_resolver_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(dialling, "_look_up", lambda *args: answered.wait(60))
    try:
        with pytest.raises(KafkaConnectionError, match=r"cannot resolve 'no\.example'"):
            await resolve("no.example", 9092, 0.05)
    finally:
        answered.set()


async def test_lookup_without_a_thread_raises_a_connection_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: object) -> asyncio.Future[None]:
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(NoThreadError("can't start new thread"))
        return refused

    monkeypatch.setattr(lookup_threads, "run", refuse)
    with pytest.raises(KafkaConnectionError, match="can't start new thread"):
        await resolve("no.example", 9092, 5)


async def test_untrusted_certificate_is_an_authentication_error(
    serve: Serve, server_tls: ssl.SSLContext
) -> None:
    broker: ScriptedBroker = await serve(listen, context=server_tls)
    options = ConnectionOptions(
        security_protocol="SSL", ssl_context=ssl.create_default_context(), connect_timeout=5
    )
    with pytest.raises(AuthenticationFailedError, match="is not trusted"):
        await dial("localhost", broker.port, options, Receiver())


async def test_certificate_for_another_host_is_rejected(
    serve: Serve,
    server_tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker: ScriptedBroker = await serve(listen, context=server_tls)
    options = ConnectionOptions(security_protocol="SSL", ssl_context=client_tls)
    addresses(monkeypatch, ("127.0.0.1", broker.port))
    with pytest.raises(AuthenticationFailedError, match="is not trusted"):
        await dial("other.example", broker.port, options, Receiver())


async def test_tls_to_a_plaintext_listener_fails(serve: Serve, client_tls: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(100)
        peer.write(b"\0\0\0\x04what")

    broker: ScriptedBroker = await serve(script)
    options = ConnectionOptions(security_protocol="SSL", ssl_context=client_tls, connect_timeout=5)
    with pytest.raises(KafkaConnectionError, match="cannot connect"):
        await dial("localhost", broker.port, options, Receiver())


async def test_unfinished_tls_handshake_times_out(serve: Serve, client_tls: ssl.SSLContext) -> None:
    broker: ScriptedBroker = await serve(listen)
    options = ConnectionOptions(
        security_protocol="SSL", ssl_context=client_tls, connect_timeout=0.1
    )
    with pytest.raises(KafkaConnectionError, match="cannot connect"):
        async with asyncio.timeout(5):
            await dial("127.0.0.1", broker.port, options, Receiver())


async def test_cancelled_dial_closes_the_socket(serve: Serve, client_tls: ssl.SSLContext) -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.silence()
        gone.set()

    broker: ScriptedBroker = await serve(script)
    options = ConnectionOptions(security_protocol="SSL", ssl_context=client_tls)
    dialled = asyncio.create_task(dial("127.0.0.1", broker.port, options, Receiver()))
    async with asyncio.timeout(5):
        while broker.accepted == 0:
            await asyncio.sleep(0.001)
        dialled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialled
        await gone.wait()
