"""Clients reach brokers through proxies of each kind, and misbehaving proxies fail in time."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
)
from aiokafka_lite.net import dial as dialling
from aiokafka_lite.net.dial import lookup_threads
from aiokafka_lite.net.route import tunnel
from aiokafka_lite.net.route.racing import AddressInfo
from aiokafka_lite.testing import FakeCluster
from tests.proxies import ProxyServer

SCHEMES = ["socks5", "http", "https"]


@pytest.fixture
def serving(tls_files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls_files)
    return context


@pytest.fixture(autouse=True)
def trusted(tls_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the certificate one of the system's, for HTTPS proxies."""
    make = ssl.create_default_context
    monkeypatch.setattr(
        tunnel.ssl, "create_default_context", lambda: make(cafile=str(tls_files[0]))
    )


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_records_pass_through_a_proxy(
    scheme: str, tls: bool, serving: ssl.SSLContext, tls_files: tuple[Path, Path]
) -> None:
    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": tls_files[0]}
    async with (
        FakeCluster(topics={"t": 1}, ssl_context=serving if tls else None) as cluster,
        ProxyServer(scheme, credentials="ann:p@ss", context=serving) as proxy,
    ):
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "proxy_url": proxy.url("ann:p%40ss"),
            **(options if tls else {}),
        }
        partition = TopicPartition("t", 0)
        async with AIOKafkaProducer(**options) as producer, AIOKafkaConsumer(**options) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            values = [bytes([number]) * 50_000 for number in range(20)]
            for value in values:
                await producer.send("t", value)
            await producer.flush()
            assert [(await consumer.getone()).value for _ in values] == values
        assert {f"{host}:{port}" for host, port in proxy.asked} == {cluster.bootstrap_servers}
        assert proxy.accepted >= 3


async def test_the_proxy_resolves_names(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    run = lookup_threads.run

    def watched(loop: Any, function: Any, *args: Any) -> Any:
        looked_up.append(args[0])
        return run(loop, function, *args)

    monkeypatch.setattr(lookup_threads, "run", watched)
    async with FakeCluster(topics={"t": 1}) as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        route = lambda host, port: ("127.0.0.1", port)  # noqa: E731
        async with (
            ProxyServer("socks5", route=route) as proxy,
            AIOKafkaProducer(
                bootstrap_servers=f"broker.invalid:{port}", proxy_url=proxy.url()
            ) as producer,
        ):
            await producer.send_and_wait("t", b"tea")
            assert proxy.asked[0] == ("broker.invalid", port)
    assert set(looked_up) == {"localhost"}


async def start(proxy: ProxyServer, credentials: str | None = None, **options: Any) -> KafkaError:
    producer = AIOKafkaProducer(
        bootstrap_servers="broker.invalid:9092", proxy_url=proxy.url(credentials), **options
    )
    try:
        async with asyncio.timeout(60):
            await producer.start()
    except KafkaError as error:
        return error
    finally:
        await producer.stop()
    raise AssertionError("the producer started")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_wrong_credentials_are_final_and_not_shown(
    scheme: str, serving: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with ProxyServer(scheme, credentials="ann:right", context=serving) as proxy:
        for credentials in ("ann:hush", None):
            error = await start(proxy, credentials)
            assert isinstance(error, AuthenticationFailedError)
            assert "hush" not in repr(error) + caplog.text


@asynccontextmanager
async def serving_with(serve: Any) -> AsyncIterator[int]:
    """The port of a server."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_silent_proxy_times_out(scheme: str, serving: ssl.SSLContext) -> None:
    async with ProxyServer(scheme, silent=True, context=serving) as proxy:
        error = await start(proxy, socket_connection_setup_timeout_ms=300)
    assert isinstance(error, KafkaConnectionError)
    assert "no answer within 0.3 s" in str(error)
    assert "through the proxy" in str(error)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("answer", [b"", b"\0", b"nonsense" * 100, b"\5\0\5\0\0\1"])
async def test_lying_proxy_is_an_error(scheme: str, answer: bytes, serving: ssl.SSLContext) -> None:
    async with ProxyServer(scheme, answer=answer, context=serving) as proxy:
        error = await start(proxy, socket_connection_setup_timeout_ms=500)
    assert isinstance(error, KafkaConnectionError)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", ["hangs up", "reaches another server"])
async def test_another_address_of_the_proxy_takes_over(
    scheme: str, fault: str, serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        FakeCluster(topics={"t": 1}) as cluster,
        serving_with(hang_up) as other,
        ProxyServer(
            scheme,
            context=serving,
            route=lambda host, port: ("127.0.0.1", 1 if fault == "hangs up" else other),
        ) as broken,
        ProxyServer(scheme, context=serving) as proxy,
    ):

        async def resolved(*_: object) -> list[AddressInfo]:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", each.port))
                for each in (broken, proxy)
            ]

        monkeypatch.setattr(dialling, "resolve", resolved)
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            proxy_url=proxy.url(),
            bootstrap_timeout_ms=5000,
        ) as producer:
            await producer.send_and_wait("t", b"tea")
        assert broken.accepted
        assert proxy.accepted


async def test_unreachable_proxy_is_named() -> None:
    async with ProxyServer("http") as proxy:
        pass_port = proxy.port
    producer = AIOKafkaProducer(
        bootstrap_servers="broker.invalid:9092", proxy_url=f"http://ann:hush@127.0.0.1:{pass_port}"
    )
    with pytest.raises(KafkaConnectionError, match="through the proxy http://127") as caught:
        await producer.start()
    await producer.stop()
    assert "hush" not in str(caught.value)


async def test_untrusted_proxy_is_an_error(
    serving: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tunnel.ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    async with ProxyServer("https", context=serving) as proxy:
        error = await start(proxy)
    assert isinstance(error, AuthenticationFailedError)
    assert "the certificate of the proxy https://localhost:" in str(error)
    assert "pass a context that trusts it as `proxy_ssl_context`" in str(error)


async def test_context_of_an_https_proxy(
    serving: ssl.SSLContext, tls_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(tls_files[0])
    monkeypatch.setattr(
        ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    async with (
        FakeCluster(topics={"t": 1}) as cluster,
        ProxyServer("https", context=serving) as proxy,
        AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            proxy_url=proxy.url(),
            proxy_ssl_context=trusting,
        ) as producer,
    ):
        await producer.send_and_wait("t", b"v")
        assert proxy.asked


@pytest.mark.parametrize(
    ("url", "context", "error", "text"),
    [
        (None, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), KafkaConfigurationError, "`proxy_url`"),
        (
            "http://p",
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            KafkaConfigurationError,
            "requires an https:// proxy",
        ),
        ("https://p", "ca.pem", TypeError, "should be an ssl.SSLContext, not 'ca.pem'"),
    ],
)
async def test_unusable_context_of_a_proxy_is_refused(
    url: str | None, context: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        AIOKafkaProducer(proxy_url=url, proxy_ssl_context=context)
