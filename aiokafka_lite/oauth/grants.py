"""OAuth 2.0 grants for machines: client credentials and JWT bearer.

Source: RFC 6749 section 4.4, RFC 7523; KIP-768, KIP-1139, KIP-1258.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote_plus, urlencode

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConfigurationError
from aiokafka_lite.oauth.token_http import Endpoint, Fetch, HttpRequest, check_url, shown_url
from aiokafka_lite.oauth.token_source import Token, TokenSource, check_path

__all__ = ["Assertion", "ClientCredentials", "JwtBearer", "read_assertion"]

Assertion: TypeAlias = str | Path | Callable[[], str]
"""A signed JWT: the path of a file that holds it, read for each request; or a function that
returns it."""

_FORM: Final = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Accept": "application/json",
}
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def read_assertion(assertion: Assertion) -> str:
    """Return an assertion.

    Raises:
        AuthenticationFailedError: The file cannot be read, or is empty.
    """
    if callable(assertion):
        return assertion()
    try:
        found = Path(assertion).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise AuthenticationFailedError(
            f"cannot read the assertion in {assertion}: {error}"
        ) from error
    if not found:
        raise AuthenticationFailedError(f"the assertion file {assertion} is empty")
    return found


class ClientCredentials(TokenSource):
    """Tokens by the client credentials grant, from any OAuth 2.0 server. Not in aiokafka.

    Args:
        token_url: The server's token endpoint; https, unless it is on this machine.
        client_id: The client's id. Optional with an assertion.
        client_secret: The client's secret, or a function that returns the current one.
        client_assertion: A signed JWT in place of the secret (KIP-1258): a file's path, or a
            function that returns it.
        scope: Space-separated scopes to request.
        urlencode_credentials: Percent-encode id and secret in the Authorization header, as
            RFC 6749 says and few servers expect (Java's
            `sasl.oauthbearer.header.urlencode`).
        extensions: As in `TokenSource`.
        ssl_context: TLS configuration for the endpoint; by default the system's authorities.
        timeout: Seconds for all attempts to get one token.
        fetch: Sends the HTTP requests; by default `urllib` in a thread.

    Raises:
        KafkaConfigurationError: The URL is not https; secret and assertion are both given, or
            neither; or the assertion's path is itself a JWT.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str | None = None,
        client_secret: str | Callable[[], str] | None = None,
        *,
        client_assertion: Assertion | None = None,
        scope: str | None = None,
        urlencode_credentials: bool = False,
        extensions: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        fetch: Fetch | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        self._url = check_url("token_url", token_url)
        check_path("client_assertion", client_assertion)
        if (client_secret is None) == (client_assertion is None):
            raise KafkaConfigurationError("pass either `client_secret` or `client_assertion`")
        if client_secret is not None and client_id is None:
            raise KafkaConfigurationError("`client_secret` requires `client_id`")
        self._client_id = client_id
        self._secret = client_secret
        self._assertion = client_assertion
        self._scope = scope
        self._urlencode = urlencode_credentials
        self._endpoint = Endpoint(fetch, ssl_context, timeout)

    async def fetch(self) -> Token:
        """Request a token.

        Raises:
            AuthenticationFailedError: The server refused the client; the message has its reason.
            KafkaConnectionError: The server did not answer within the timeout.
        """
        form = {"grant_type": "client_credentials"}
        headers = dict(_FORM)
        if self._assertion is not None:
            hidden = read_assertion(self._assertion)
            secrets = [hidden]
            form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": hidden}
            if self._client_id is not None:
                form["client_id"] = self._client_id
        else:
            name, hidden = self._client_id or "", _value(self._secret)
            pair = f"{name}:{hidden}"
            if self._urlencode:
                pair = f"{quote_plus(name)}:{quote_plus(hidden)}"
            pair = base64.b64encode(pair.encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
            secrets = [pair, hidden, quote_plus(hidden)]
        if self._scope is not None:
            form["scope"] = self._scope
        request = HttpRequest("POST", self._url, headers, urlencode(form).encode())
        return await self._endpoint.token(request, secrets)

    def __repr__(self) -> str:
        return f"<ClientCredentials {self._client_id!r} at {shown_url(self._url)}>"


class JwtBearer(TokenSource):
    """Tokens in exchange for a signed JWT (KIP-1139). Not in aiokafka.

    Args:
        token_url: The server's token endpoint; https, unless it is on this machine.
        assertion: The signed JWT: a file's path, read for each request, or a function that
            returns it.
        scope: Space-separated scopes to request.
        extensions, ssl_context, timeout, fetch: As in `ClientCredentials`.

    Raises:
        KafkaConfigurationError: The URL is not https, or the path is itself a JWT.
    """

    def __init__(
        self,
        token_url: str,
        assertion: Assertion,
        *,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        fetch: Fetch | None = None,
    ) -> None:
        super().__init__(extensions=extensions)
        check_path("assertion", assertion)
        self._url = check_url("token_url", token_url)
        self._assertion = assertion
        self._scope = scope
        self._endpoint = Endpoint(fetch, ssl_context, timeout)

    async def fetch(self) -> Token:
        """Request a token; raises as `ClientCredentials.fetch`."""
        hidden = read_assertion(self._assertion)
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": hidden}
        if self._scope is not None:
            form["scope"] = self._scope
        request = HttpRequest("POST", self._url, _FORM, urlencode(form).encode())
        return await self._endpoint.token(request, [hidden])

    def __repr__(self) -> str:
        return f"<JwtBearer at {shown_url(self._url)}>"


def _value(secret: str | Callable[[], str] | None) -> str:
    return secret() if callable(secret) else secret or ""
