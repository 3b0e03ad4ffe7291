"""Bearer tokens from an OAuth token endpoint, as in Java's OAUTHBEARER client (KIP-768).

A provider is sent to Spark's executors with the client's arguments, and equals any provider with
the same attributes. Each process requests its own token, and caches and renews it as the providers
of `aiokafka_lite.oauth` do. Redirects are not followed, because they could send the secret to
another server.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.oauth.token_http import Endpoint, HttpRequest
from aiokafka_lite.oauth.token_source import Token, TokenSource

__all__ = ["ClientCredentials"]

REQUEST_TIMEOUT: Final = 10.0
"""Seconds for all attempts to get one token."""


class _Source(TokenSource):
    """The tokens of this process.

    `oauth.ClientCredentials` rejects plain http, which Spark's options allow.
    """

    def __init__(self, owner: ClientCredentials) -> None:
        super().__init__()
        self._owner = owner
        self._endpoint = Endpoint(None, None, REQUEST_TIMEOUT)

    async def fetch(self) -> Token:
        owner = self._owner
        form = {"grant_type": "client_credentials"}
        if owner.scope is not None:
            form["scope"] = owner.scope
        try:
            name = f"{owner.client_id}:{owner.client_secret}".encode()
        except UnicodeEncodeError:
            # Not chained: the original error shows the text it could not encode.
            raise AuthenticationFailedError(
                "the OAuth client's name or secret cannot be encoded in UTF-8"
            ) from None
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(name).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = HttpRequest("POST", owner.url, headers, urlencode(form).encode())
        return await self._endpoint.token(request, [owner.client_secret])


@dataclass(slots=True)
class _Kept:
    source: _Source | None = None


@dataclass(frozen=True)
class ClientCredentials(AbstractTokenProvider):
    """Requests tokens from an endpoint with a client id and secret.

    Attributes:
        url: The endpoint: https, or http if the user chooses it.
        client_id, client_secret: The client's credentials.
        scope: The requested scope; None for the endpoint's default.
        sasl_extensions: Extensions to send with the token (KIP-342).
    """

    url: str = field(repr=False)  # its query may contain a secret
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    sasl_extensions: tuple[tuple[str, str], ...] = ()
    _kept: _Kept = field(default_factory=_Kept, init=False, compare=False, repr=False)

    async def token(self) -> str:
        """Return the cached token, or a new one.

        Raises:
            AuthenticationFailedError: The endpoint refuses the request or returns no token.
            KafkaConnectionError: The endpoint does not answer.
        """
        return await self._source.token()

    def on_rejected(self, token: str) -> None:
        """Renew the token at its next use, because a broker rejected it."""
        self._source.on_rejected(token)

    @property
    def _source(self) -> _Source:
        if self._kept.source is None:
            self._kept.source = _Source(self)
        return self._kept.source

    def extensions(self) -> Mapping[str, str]:
        """Return the extensions set as `extension_NAME` in the login module's options."""
        return dict(self.sasl_extensions)

    def __reduce__(self) -> tuple[type[ClientCredentials], tuple[object, ...]]:
        # Leave out the token: a worker has another clock.
        attributes = (
            self.url,
            self.client_id,
            self.client_secret,
            self.scope,
            self.sasl_extensions,
        )
        return ClientCredentials, attributes
