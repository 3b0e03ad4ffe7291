"""HTTP requests to token endpoints, in a thread with `urllib`, or by a function of the application.

Source: RFC 6749 sections 4.4 and 5; KIP-768 for what is retried; Okta's error format.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from aiokafka_lite._threads import lookup_threads
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
)
from aiokafka_lite.net.sasl.oauthbearer import TOKEN
from aiokafka_lite.oauth.token_source import Token, jwt_times

__all__ = ["Endpoint", "Fetch", "HttpRequest", "HttpResponse", "check_url", "shown_url"]

MAX_BODY: Final = 1024 * 1024
"""Bytes of a response that are read; a token has a few thousand."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
_SHOWN: Final = 300  # characters of an error's text
_OK: Final = (200, 201)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to a token endpoint. Headers and body may hold secrets and are not shown.

    Attributes:
        method: "GET" or "POST".
        url: The endpoint.
        headers: Names and values.
        body: None for GET.
        timeout: Seconds that the request may take.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a token endpoint. The body may hold a token and is not shown.

    Attributes:
        status: The HTTP status.
        body: The whole body.
    """

    status: int
    body: bytes = field(repr=False)


Fetch: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request. An OSError or TimeoutError that it raises is retried."""


class _Connections:
    """The connections of one request, which the event loop can end.

    A socket's timeout bounds each read, but not all of them together: a server that sends a byte
    now and then would keep the thread for days, and there are few of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies: list[socket.socket] = []  # TLS takes over the sockets themselves
        self._ended = False

    def of(self, kind: Callable[..., Any]) -> Callable[..., Any]:
        """Return the constructor of a `http.client` connection whose socket is noted here."""

        def make(host: str, **options: Any) -> Any:
            connection = kind(host, **options)
            connection._create_connection = self._connect
            return connection

        return make

    def _connect(self, *args: Any) -> socket.socket:
        connected = socket.create_connection(*args)
        with self._lock:
            if self._ended:
                connected.close()
                raise TimeoutError("the request was abandoned")
            self._copies.append(connected.dup())
        return connected

    def end(self) -> None:
        """End the connections, and each call that reads from one."""
        with self._lock:
            self._ended = True
            copies, self._copies = self._copies, []
        for copy in copies:
            with contextlib.suppress(OSError):  # the server was faster
                copy.shutdown(socket.SHUT_RDWR)
            copy.close()


class _Http(urllib.request.HTTPHandler):
    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, *args: Any, **options: Any) -> Any:
        return super().do_open(self._connections.of(http_class), *args, **options)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, connections: _Connections, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._connections = connections

    def do_open(self, http_class: Any, *args: Any, **options: Any) -> Any:
        return super().do_open(self._connections.of(http_class), *args, **options)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the credentials to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_url(name: str, url: object, *, internal: bool = False) -> str:
    """Check the URL of a token endpoint.

    Args:
        internal: True for a cloud's metadata service, which has no TLS.

    Raises:
        TypeError: Not a str.
        KafkaConfigurationError: Not an http(s) URL; or not https, and not on this machine.
    """
    if not isinstance(url, str):
        raise TypeError(f"`{name}` should be a str, not {url!r}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KafkaConfigurationError(f"`{name}` should be an https:// URL, not {url!r}")
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not (internal or local):
        raise KafkaConfigurationError(
            f"`{name}` should be an https:// URL: {url!r} would send credentials in the clear"
        )
    return url


class Endpoint:
    """A token endpoint.

    Args:
        fetch: Sends the requests; None: `urllib` in a thread, which honors the environment's
            proxies.
        ssl_context: TLS configuration of `urllib`; None: the system's certificate authorities.
        timeout: Seconds for all attempts together.
        proxied: False to ignore the environment's proxies.
    """

    def __init__(
        self,
        fetch: Fetch | None,
        ssl_context: ssl.SSLContext | None,
        timeout: float,
        *,
        proxied: bool = True,
    ) -> None:
        if timeout <= 0:
            raise KafkaConfigurationError(f"`timeout` should be positive, not {timeout!r}")
        self._fetch = self._with_urllib if fetch is None else fetch
        self._ssl_context = ssl_context
        self._timeout = timeout
        self._proxied = proxied

    async def request(self, request: HttpRequest, secrets: Iterable[str] = ()) -> dict[str, Any]:
        """Return the JSON object of a successful response; retry what may succeed later.

        Args:
            secrets: Texts that are removed from error messages, in case the server repeats them.

        Raises:
            AuthenticationFailedError: The server refused the request for good, or its certificate
                is not trusted.
            KafkaConnectionError: No attempt succeeded within the timeout.
        """
        where = shown_url(request.url)
        secrets = [*secrets, request.url.partition("?")[2]]
        deadline = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        problem = before = ""
        while True:
            before = problem
            left = max(deadline - time.monotonic(), 0.001)
            attempt = HttpRequest(
                request.method, request.url, request.headers, request.body, min(left, 10.0)
            )
            try:
                response = await asyncio.wait_for(self._fetch(attempt), left)
            except (OSError, TimeoutError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise AuthenticationFailedError(
                        f"the certificate of the token endpoint {where} is not trusted: "
                        f"{reason.verify_message}; pass `ssl_context` for a private authority"
                    ) from error
                shown = str(reason) or type(reason).__name__
                if isinstance(reason, TimeoutError):
                    # The deadline cuts the last attempt short: an earlier error is more
                    # informative.
                    shown = f"no answer, after: {before}" if before else "no answer"
                    if before.startswith("no answer"):
                        shown = before
                problem = _plain(shown, secrets)
            else:
                if response.status in _OK:
                    return _object(where, response.body)
                problem = _plain(f"{response.status} {_error_text(response.body)}", secrets)
                if _is_final(response.status):
                    raise AuthenticationFailedError(
                        f"the token endpoint {where} refused the request: {problem}"
                    )
            if time.monotonic() + pause >= deadline:
                raise KafkaConnectionError(
                    f"the token endpoint {where} returned no token within "
                    f"{self._timeout:g} s; last attempt: {problem}"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def token(self, request: HttpRequest, secrets: Iterable[str] = ()) -> Token:
        """Return the token of a successful response.

        Raises:
            AuthenticationFailedError, KafkaConnectionError: As `request`; or the response has no
                token, or one that cannot be sent. It must not be kept: no broker would reject it.
        """
        where = shown_url(request.url)
        token = token_of(where, await self.request(request, secrets))
        if not TOKEN.fullmatch(token.value):
            raise AuthenticationFailedError(
                f"the token endpoint {where} returned an invalid bearer token"
            )
        return token

    async def _with_urllib(self, request: HttpRequest) -> HttpResponse:
        loop, connections = asyncio.get_running_loop(), _Connections()
        try:
            return await lookup_threads.run(loop, self._open, request, connections)
        finally:
            connections.end()

    def _open(self, request: HttpRequest, connections: _Connections) -> HttpResponse:
        context = self._ssl_context
        if context is None and urlsplit(request.url).scheme == "http":
            # From Python 3.12 on, the default handler of https loads all certificate authorities at
            # once, which takes 25 ms. A context without any trusts no server.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        handlers: list[urllib.request.BaseHandler] = [
            _NoRedirects(),
            _Http(connections),
            _Https(connections, context),
        ]
        if not self._proxied:
            handlers.append(urllib.request.ProxyHandler({}))
        opener = urllib.request.build_opener(*handlers)
        made = urllib.request.Request(
            request.url, request.body, dict(request.headers), method=request.method
        )
        try:
            with opener.open(made, timeout=request.timeout) as response:
                return HttpResponse(response.status, response.read(MAX_BODY))
        except urllib.error.HTTPError as error:
            with error:
                return HttpResponse(error.code, error.read(MAX_BODY))


def shown_url(url: str) -> str:
    """Return a URL without its query, which may contain a secret."""
    return url.partition("?")[0]


def token_of(url: str, answer: Mapping[str, Any]) -> Token:
    """Return the token of a decoded response.

    Raises:
        AuthenticationFailedError: It has none.
    """
    value = answer.get("access_token") or answer.get("id_token")
    if not isinstance(value, str):
        raise AuthenticationFailedError(
            f"the token endpoint {url} returned neither `access_token` nor `id_token`"
        )
    issued, expires = jwt_times(value)
    if expires is None:
        try:
            lifetime = float(answer["expires_in"])
        except (KeyError, TypeError, ValueError, OverflowError):
            lifetime = math.nan
        # If it is unknown, the token is fetched for each authentication.
        expires = time.time() + (0.0 if math.isnan(lifetime) else lifetime)
    return Token(value, expires, issued)


def _is_final(status: int) -> bool:
    return (300 <= status <= 415 and status != 408) or status in (501, 505)


def _object(url: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AuthenticationFailedError(f"the token endpoint {url} did not return a JSON object")
    return found


def _error_text(body: bytes) -> str:
    """Return what an error response says, in OAuth's format or Okta's; "" for any other."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    names = ("error", "error_description", "errorCode", "errorSummary")
    return ": ".join(found[name] for name in names if isinstance(found.get(name), str))


def _plain(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets and control characters, of bounded length."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
