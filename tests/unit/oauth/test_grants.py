"""Client credentials and JWT bearer against a token endpoint on loopback."""

import asyncio
import base64
import contextlib
import json
import logging
import math
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
)
from aiokafka_lite.oauth import ClientCredentials, HttpRequest, HttpResponse, JwtBearer
from tests.oidc_server import Answer, OidcServer, Received, success, unsigned_jwt

SECRET = "s3cr3t & more"


@pytest.fixture
def server() -> Iterator[OidcServer]:
    with OidcServer(lambda _: success("opaque", expires_in=3600)) as running:
        yield running


def make(server: OidcServer, **options: Any) -> ClientCredentials:
    return ClientCredentials(server.url, "orders", SECRET, **{"timeout": 10.0, **options})


async def test_secret_is_sent_as_basic_authorization(server: OidcServer) -> None:
    assert await make(server, scope="kafka read").token() == "opaque"
    (request,) = server.received
    assert (request.method, request.path) == ("POST", "/token")
    assert request.form == {"grant_type": "client_credentials", "scope": "kafka read"}
    pair = base64.b64decode(request.headers["Authorization"].removeprefix("Basic "))
    assert pair == f"orders:{SECRET}".encode()


async def test_credentials_are_percent_encoded_on_demand(server: OidcServer) -> None:
    await make(server, urlencode_credentials=True).token()
    pair = base64.b64decode(server.received[0].headers["Authorization"].removeprefix("Basic "))
    assert pair == b"orders:s3cr3t+%26+more"


async def test_secret_may_change(server: OidcServer) -> None:
    secrets = iter(["first", "second"])
    provider = ClientCredentials(server.url, "orders", lambda: next(secrets))
    server.answer = lambda _: success("opaque")  # without an expiry: fetched each time
    await provider.token()
    await provider.token()
    sent = [base64.b64decode(each.headers["Authorization"][6:]) for each in server.received]
    assert sent == [b"orders:first", b"orders:second"]


async def test_assertion_is_read_from_its_file_for_each_request(
    server: OidcServer, tmp_path: Path
) -> None:
    server.answer = lambda _: success("opaque")
    file = tmp_path / "assertion"
    provider = ClientCredentials(server.url, client_id="orders", client_assertion=file)
    for text in ("first\n", "second"):
        file.write_text(text)
        await provider.token()
    assert [each.form["client_assertion"] for each in server.received] == ["first", "second"]
    assert server.received[0].form["client_id"] == "orders"
    assert "Authorization" not in server.received[0].headers


async def test_jwt_bearer_exchanges_an_assertion(server: OidcServer) -> None:
    assert await JwtBearer(server.url, lambda: "signed", scope="kafka").token() == "opaque"
    assert server.received[0].form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "signed",
        "scope": "kafka",
    }


async def test_missing_assertion_file_is_named(server: OidcServer, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailedError, match=r"cannot read the assertion in .*nothing"):
        await JwtBearer(server.url, tmp_path / "nothing").token()


async def test_end_of_a_jwt_precedes_expires_in(server: OidcServer) -> None:
    server.answer = lambda _: success(unsigned_jwt(100), expires_in=9999)
    token = await make(server).fetch()
    assert 95 < token.expires_at - time.time() <= 100


async def test_id_token_is_taken_without_an_access_token(server: OidcServer) -> None:
    server.answer = lambda _: (200, {}, b'{"id_token": "identity", "expires_in": 60}')
    assert await make(server).token() == "identity"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 415, 501, 505])
async def test_final_status_is_raised_at_once_with_the_servers_reason(
    server: OidcServer, status: int
) -> None:
    reason = {"error": "invalid_client", "error_description": f"who is\n{SECRET}?"}
    server.answer = lambda _: (status, {}, json.dumps(reason).encode())
    with pytest.raises(AuthenticationFailedError) as raised:
        await make(server).token()
    assert f"{status} invalid_client: who is ***?" in str(raised.value)
    assert len(server.received) == 1


async def test_reason_in_oktas_format_is_shown(server: OidcServer) -> None:
    reason = {"errorCode": "E0000011", "errorSummary": "Invalid token provided"}
    server.answer = lambda _: (401, {}, json.dumps(reason).encode())
    with pytest.raises(AuthenticationFailedError, match="401 E0000011: Invalid token provided"):
        await make(server).token()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_other_statuses_are_retried(server: OidcServer, status: int) -> None:
    answers: list[Answer] = [(status, {}, b"busy"), (status, {}, b""), success("opaque")]
    server.answer = lambda _: answers.pop(0)
    assert await make(server).token() == "opaque"
    assert len(server.received) == 3


async def test_outage_ends_with_a_retriable_error_at_the_timeout(server: OidcServer) -> None:
    server.answer = lambda _: (503, {}, b"")
    with pytest.raises(KafkaConnectionError, match=r"no token within 2 s; last attempt: .*503"):
        await make(server, timeout=2).token()
    assert len(server.received) > 1


async def test_reason_of_an_earlier_attempt_survives_the_deadline() -> None:
    answers = [HttpResponse(503, b"")]

    async def fetch(_: HttpRequest) -> HttpResponse:
        if not answers:
            await asyncio.sleep(60)
        return answers.pop()

    source = ClientCredentials("https://login/token", "orders", SECRET, timeout=0.5, fetch=fetch)
    with pytest.raises(KafkaConnectionError, match=r"last attempt: no answer, after: 503"):
        await source.token()


async def test_requests_without_tls_load_no_certificate_authorities(
    server: OidcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        raise AssertionError("authorities were loaded")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)
    assert await make(server).token() == "opaque"


async def test_silent_server_ends_with_a_retriable_error_at_the_timeout(
    server: OidcServer,
) -> None:
    def silent(_: Received) -> Answer:
        time.sleep(1)
        return success("late")

    server.answer = silent
    with pytest.raises(KafkaConnectionError, match=r"within 0.2 s; last attempt: no answer"):
        await make(server, timeout=0.2).token()


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n", b""])
async def test_server_that_sends_a_byte_now_and_then_does_not_keep_the_thread(sent: bytes) -> None:
    """There are few threads, and they also resolve host names."""
    gone = threading.Event()

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(sent)
            while True:
                connection.sendall(b"x")
                time.sleep(0.02)
        gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with pytest.raises(KafkaConnectionError, match=r"within 2 s; last attempt: no answer"):
            await ClientCredentials(url, "orders", SECRET, timeout=2).token()
        assert await asyncio.to_thread(gone.wait, 60)


async def test_closed_port_is_retried_until_the_timeout(server: OidcServer) -> None:
    with OidcServer(lambda _: success("x")) as gone:
        url = gone.url
    with pytest.raises(KafkaConnectionError, match="refused"):
        await ClientCredentials(url, "orders", SECRET, timeout=2).token()


async def test_redirect_does_not_take_the_credentials_along(server: OidcServer) -> None:
    with OidcServer(lambda _: success("stolen")) as other:
        for status in (301, 302, 307, 308):
            server.answer = lambda _, s=status: (s, {"Location": other.url}, b"")  # type: ignore[misc]
            with pytest.raises(AuthenticationFailedError, match=str(status)):
                await make(server).token()
        assert not other.received


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"{}",
        b'{"access_token": 5}',
        b'{"access_token": "two words", "expires_in": 3600}',
        bytes(3_000_000),
    ],
    ids=range(9),
)
async def test_hostile_success_is_refused(server: OidcServer, body: bytes) -> None:
    server.answer = lambda _: (200, {}, body)
    source = make(server)
    with pytest.raises(AuthenticationFailedError, match="token endpoint"):
        await source.token()
    server.answer = lambda _: success("opaque")
    assert await source.token() == "opaque"  # nothing of the first answer is kept


@pytest.mark.parametrize(
    "expires_in", ["soon", None, [], {}, "1e400", float("nan"), 10**400], ids=range(7)
)
async def test_invalid_lifetime_does_not_keep_a_token(
    server: OidcServer, expires_in: object
) -> None:
    server.answer = lambda _: success("opaque", expires_in=expires_in)
    token = await make(server).fetch()
    assert token.value == "opaque"
    assert not math.isnan(token.expires_at)


async def test_requests_may_be_sent_by_the_application() -> None:
    sent: list[HttpRequest] = []

    async def fetch(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        if len(sent) == 1:
            raise OSError("no route")
        return HttpResponse(200, b'{"access_token": "own", "expires_in": 60}')

    provider = ClientCredentials("https://login.example/token", "orders", SECRET, fetch=fetch)
    assert await provider.token() == "own"
    assert [request.url for request in sent] == ["https://login.example/token"] * 2


@pytest.fixture
def own_certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that no authority signed, and its key."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


async def test_tls_needs_a_trusted_certificate(own_certificate: tuple[Path, Path]) -> None:
    certificate, key = own_certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with OidcServer(lambda _: success("opaque", expires_in=60), context) as server:
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert await make(server, ssl_context=trusting).token() == "opaque"
        with pytest.raises(AuthenticationFailedError, match="is not trusted: self-signed"):
            await make(server).token()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ClientCredentials("http://login.example/token", "a", "b"),
        lambda: ClientCredentials("login.example/token", "a", "b"),
        lambda: ClientCredentials("ftp://login.example/token", "a", "b"),
        lambda: ClientCredentials("https://login.example/token", "a"),
        lambda: ClientCredentials("https://login.example/token", None, "b"),
        lambda: ClientCredentials("https://x/token", "a", "b", client_assertion="file"),
        lambda: ClientCredentials("https://x/token", "a", "b", timeout=0),
    ],
)
def test_invalid_arguments_are_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(KafkaConfigurationError):
        wrong()


async def test_secrets_and_tokens_are_not_shown(
    server: OidcServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = make(server)
    with caplog.at_level(logging.DEBUG):
        token = await provider.fetch()
    request = HttpRequest("POST", server.url, {"Authorization": SECRET}, SECRET.encode())
    shown = f"{provider!r} {token!r} {request!r} {HttpResponse(200, b'opaque')!r} {caplog.text}"
    assert SECRET not in shown
    assert "opaque" not in shown
