"""Bearer tokens from an endpoint: requested once, kept for most of their lifetime."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.spark.kafka_options import tokens
from aiokafka_lite.spark.kafka_options.tokens import ClientCredentials


class Endpoint(HTTPServer):
    """A token endpoint with given responses, which records its requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str | None, dict[str, list[str]]]] = []
        self.location = "http://127.0.0.1:9/"
        self.url = f"http://127.0.0.1:{self.server_port}/token"


class Asked(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        self.server.asked.append((self.headers["Authorization"], {}))
        self.send_response(404)
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], parse_qs(body)))
        status, answer = self.server.answers.pop(0)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing in a test's output."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _token(text: str, life: int) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": text, "expires_in": life}).encode()


async def test_a_token_is_cached_for_its_lifetime(endpoint: Endpoint) -> None:
    endpoint.answers = [_token("one", 3600)]
    provider = ClientCredentials(endpoint.url, "me", "p:w", "read write")
    assert [await provider.token(), await provider.token()] == ["one", "one"]
    name = base64.b64encode(b"me:p:w").decode()
    form = {"grant_type": ["client_credentials"], "scope": ["read write"]}
    assert endpoint.asked == [(f"Basic {name}", form)]


async def test_an_expired_token_is_requested_again(endpoint: Endpoint) -> None:
    endpoint.answers = [_token("one", 0), _token("two", 0)]
    provider = ClientCredentials(endpoint.url, "me", "secret")
    assert [await provider.token(), await provider.token()] == ["one", "two"]
    assert "scope" not in endpoint.asked[0][1]


@pytest.mark.parametrize(
    "answer",
    [(302, b""), (401, b"{}"), (200, b"no json"), (200, b"{}"), (200, b'{"access_token": 7}')],
)
async def test_invalid_token_responses_are_errors(
    endpoint: Endpoint, answer: tuple[int, bytes]
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(AuthenticationFailedError, match="the token endpoint http"):
        await ClientCredentials(endpoint.url, "me", "secret").token()


async def test_an_unreachable_endpoint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "REQUEST_TIMEOUT", 0.3)
    with pytest.raises(KafkaConnectionError, match="returned no token within"):
        await ClientCredentials("http://127.0.0.1:9/token", "me", "secret").token()


async def test_redirect_does_not_send_the_secret_to_another_server(endpoint: Endpoint) -> None:
    endpoint.answers = [(302, b""), _token("one", 3600)]
    endpoint.location = endpoint.url
    with pytest.raises(AuthenticationFailedError, match="302"):
        await ClientCredentials(endpoint.url, "me", "secret").token()
    assert len(endpoint.asked) == 1


async def test_a_token_stays_in_use_while_its_renewal_fails(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.answers = [_token("one", 100), (401, b"{}")]
    provider = ClientCredentials(endpoint.url, "me", "secret")
    assert await provider.token() == "one"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 90)
    assert await provider.token() == "one"
    assert len(endpoint.asked) == 2


async def test_a_rejected_token_is_replaced(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.answers = [_token("one", 3600), _token("two", 3600)]
    provider = ClientCredentials(endpoint.url, "me", "secret")
    assert await provider.token() == "one"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 11)
    provider.on_rejected("one")
    assert await provider.token() == "two"


async def test_no_secret_in_the_error_of_a_token(endpoint: Endpoint) -> None:
    endpoint.answers = [(401, b"hush")]
    asked = ClientCredentials(f"{endpoint.url}?key=quiet", "me", "hush")
    with pytest.raises(AuthenticationFailedError, match="the token endpoint http") as refused:
        await asked.token()
    shown = f"{refused.value!r} {asked!r} {refused.value.__cause__!r}"
    assert "hush" not in shown
    assert "quiet" not in shown


async def test_an_unencodable_secret_is_not_shown() -> None:
    asked = ClientCredentials("http://127.0.0.1:9/token", "me", "hush\udc80")
    with pytest.raises(AuthenticationFailedError, match="cannot be encoded") as refused:
        await asked.token()
    assert "hush" not in repr(refused.value)
    assert refused.value.__cause__ is None
