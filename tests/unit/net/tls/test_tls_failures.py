"""Each way in which a TLS handshake fails has an error that says what to change."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, KafkaError
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.tls.tls_failures import explained, refused
from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority, Certificate


def options(**arguments: Any) -> ConnectionOptions:
    return connection_options(
        client_id="c",
        request_timeout=20,
        connections_max_idle_ms=None,
        sasl_mechanism="PLAIN",
        sasl_plain_username=None,
        sasl_plain_password=None,
        sasl_kerberos_service_name=None,
        sasl_kerberos_domain_name=None,
        sasl_oauth_token_provider=None,
        **{"security_protocol": "SSL", "ssl_context": None} | arguments,
    )


def serving(
    certificate: Certificate, authority: Authority | None = None, **settings: Any
) -> ssl.SSLContext:
    """The broker's side; with an authority, clients need a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    if authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.cert)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


class Listener:
    """A TLS listener that answers nothing but sends alerts, as brokers do; asyncio's sends none."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return  # closed
            accepted.settimeout(30)
            with accepted, suppress(OSError):
                encrypted = self._context.wrap_socket(
                    accepted, server_side=True, do_handshake_on_connect=False
                )
                with encrypted:
                    try:
                        encrypted.do_handshake()
                    except ssl.SSLError:
                        # A close with unread bytes would reset the connection and lose the alert.
                        encrypted.shutdown(socket.SHUT_WR)
                        while socket.socket.recv(encrypted, 4096):
                            pass

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(60)


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    listener = Listener(context)
    try:
        yield listener.port
    finally:
        # The listener waits for the client's close, which needs the event loop.
        await asyncio.to_thread(listener.close)


@asynccontextmanager
async def broker_with(context: ssl.SSLContext | None) -> AsyncIterator[int]:
    async with FakeCluster(ssl_context=context) as cluster:
        yield int(cluster.bootstrap_servers.rpartition(":")[2])


async def failure(port: int, host: str = "localhost", **arguments: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        async with asyncio.timeout(60):
            await open_connection(host, port, options(**arguments))
    return caught.value


async def test_mutual_tls_succeeds(
    authority: Authority, broker: Certificate, encrypted: Certificate
) -> None:
    async with broker_with(serving(broker, authority)) as port:
        chosen = options(
            ssl_cafile=authority.cert,
            ssl_certfile=encrypted.cert,
            ssl_keyfile=encrypted.key,
            ssl_password="hush",
        )
        connection = await open_connection("localhost", port, chosen)
        connection.close()


async def test_unknown_authority(broker: Certificate, stranger: Authority) -> None:
    async with broker_with(serving(broker)) as port:
        error = await failure(port, ssl_cafile=stranger.cert)
    assert isinstance(error, AuthenticationFailedError)
    assert "unable to get local issuer certificate" in str(error)
    assert "pass the authority that signed it as `ssl_cafile`" in str(error)


async def test_certificate_of_another_host(authority: Authority) -> None:
    other = authority.issue("other", hosts="DNS:kafka.example")
    async with broker_with(serving(other)) as port:
        error = await failure(port, ssl_cafile=authority.cert)
        assert isinstance(error, AuthenticationFailedError)
        assert "not valid for 'localhost'" in str(error)
        assert "connect to a name in the certificate" in str(error)
        error = await failure(port, "127.0.0.1", ssl_cafile=authority.cert)
        assert "connect to a name in the certificate" in str(error)
        chosen = options(ssl_cafile=authority.cert, ssl_check_hostname=False)
        connection = await open_connection("localhost", port, chosen)
        connection.close()


async def test_expired_certificate_of_the_broker(
    authority: Authority, expired: Certificate
) -> None:
    async with broker_with(serving(expired)) as port:
        error = await failure(port, ssl_cafile=authority.cert)
    assert isinstance(error, AuthenticationFailedError)
    assert "certificate has expired: renew the broker's certificate" in str(error)


async def test_authority_without_key_usage_under_strict_verification(tmp_path: Path) -> None:
    old = Authority(tmp_path / "old", key_usage=False)
    broker = old.issue("broker")
    strict = ssl.create_default_context(cafile=str(old.cert))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    async with broker_with(serving(broker)) as port:
        error = await failure(port, ssl_context=strict)
        assert isinstance(error, AuthenticationFailedError)
        assert "clear `ssl.VERIFY_X509_STRICT` in the `verify_flags`" in str(error)

        strict.verify_flags &= ~ssl.VERIFY_X509_STRICT
        for chosen in (options(ssl_context=strict), options(ssl_cafile=old.cert)):
            connection = await open_connection("localhost", port, chosen)
            connection.close()


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_client_certificate_is_required(
    version: ssl.TLSVersion, authority: Authority, broker: Certificate
) -> None:
    context = serving(broker, authority, maximum_version=version)
    async with listening(context) as port:
        error = await failure(port, ssl_cafile=authority.cert)
    if version is ssl.TLSVersion.TLSv1_3:
        assert isinstance(error, AuthenticationFailedError)
        assert "(certificate required): pass `ssl_certfile`" in str(error)
    else:
        assert "it requires a client certificate (`ssl_certfile`)" in str(error)


@pytest.mark.parametrize("version", VERSIONS)
async def test_broker_does_not_trust_the_client_certificate(
    version: ssl.TLSVersion, authority: Authority, stranger: Authority, broker: Certificate
) -> None:
    other = stranger.issue("client")
    context = serving(broker, authority, maximum_version=version)
    async with listening(context) as port:
        error = await failure(
            port, ssl_cafile=authority.cert, ssl_certfile=other.cert, ssl_keyfile=other.key
        )
    assert isinstance(error, AuthenticationFailedError)
    assert "(unknown authority): check `ssl_certfile`" in str(error)


@pytest.mark.parametrize("version", VERSIONS)
async def test_client_certificate_has_expired(
    version: ssl.TLSVersion, authority: Authority, broker: Certificate, expired: Certificate
) -> None:
    context = serving(broker, authority, maximum_version=version)
    async with listening(context) as port:
        error = await failure(
            port, ssl_cafile=authority.cert, ssl_certfile=expired.cert, ssl_keyfile=expired.key
        )
    assert isinstance(error, AuthenticationFailedError)
    assert "(certificate expired): it expired on 2021-02-03" in str(error)


async def test_tls_to_a_listener_without_tls(authority: Authority) -> None:
    async with broker_with(None) as port:
        error = await failure(port, ssl_cafile=authority.cert)
    assert "as a listener without TLS does: check security_protocol, which is SSL" in str(error)


async def test_no_tls_to_a_listener_with_tls(broker: Certificate) -> None:
    async with broker_with(serving(broker)) as port:
        error = await failure(port, security_protocol="PLAINTEXT")
    assert isinstance(error, KafkaConnectionError)
    assert "check that it is a listener for PLAINTEXT" in str(error)


async def test_no_common_tls_version(authority: Authority, broker: Certificate) -> None:
    context = serving(broker, maximum_version=ssl.TLSVersion.TLSv1_2)
    async with listening(context) as port:
        error = await failure(port, ssl_cafile=authority.cert, ssl_enabled_protocols="TLSv1.3")
    assert "have no TLS version in common: check `ssl_enabled_protocols`" in str(error)


async def test_no_common_cipher(authority: Authority, broker: Certificate) -> None:
    context = serving(broker, maximum_version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    async with listening(context) as port:
        error = await failure(
            port, ssl_cafile=authority.cert, ssl_ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"
        )
    assert "there is no cipher in common (`ssl_ciphers`)" in str(error)


@pytest.mark.parametrize("judge", [lambda error: refused("b", error, ""), explained])
def test_other_errors_are_left_to_their_own_text(
    judge: Callable[[ssl.SSLError], object],
) -> None:
    error = ssl.SSLError(1, "something")
    assert judge(error) is None
    error.reason = "DATA_LENGTH_TOO_LONG"
    assert judge(error) is None
    assert refused("b", OSError("reset"), "") is None
