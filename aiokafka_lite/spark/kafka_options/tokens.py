"""Bearer tokens from an OAuth token endpoint, as in Java's OAUTHBEARER client (KIP-768).

A provider is sent to Spark's executors with the client's arguments, and equals any other with the
same attributes. Each process requests its own token and keeps it until shortly before it expires.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiokafka_lite._threads import lookup_threads
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import AuthenticationFailedError

__all__ = ["ClientCredentials"]

REQUEST_TIMEOUT: Final = 10.0
"""Timeout in seconds of connecting and of each read."""

KEEP: Final = 0.8
"""The fraction of a token's lifetime in which it is used, as Java's refresh window factor."""

DEFAULT_LIFE: Final = 300.0
"""Assumed lifetime in seconds of a token if the endpoint does not return one."""


@dataclass(slots=True)
class _Kept:
    token: str = ""
    until: float = 0.0  # a monotonic instant


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
            AuthenticationFailedError: The endpoint rejects the request, is unreachable, or does not
                return a token.
        """
        kept = self._kept
        if time.monotonic() >= kept.until:
            loop = asyncio.get_running_loop()
            kept.token, life = await lookup_threads.run(loop, self._ask)
            kept.until = time.monotonic() + KEEP * life
        return kept.token

    def extensions(self) -> Mapping[str, str]:
        """Return the extensions set as `extension_NAME` in the login module's options."""
        return dict(self.sasl_extensions)

    def _ask(self) -> tuple[str, float]:
        # Imported here: every process of every query imports this module, but few need a token.
        import urllib.error
        import urllib.parse
        import urllib.request
        from http.client import HTTPException

        form = {"grant_type": "client_credentials"}
        if self.scope is not None:
            form["scope"] = self.scope
        where = self.url.partition("?")[0]  # the query may contain a secret
        try:
            name = f"{self.client_id}:{self.client_secret}".encode()
        except UnicodeEncodeError:
            # Not chained: the original error shows the text it could not encode.
            raise AuthenticationFailedError(
                f"No token from {where}: the client's name or secret cannot be encoded in UTF-8"
            ) from None
        try:
            request = urllib.request.Request(
                self.url,
                data=urllib.parse.urlencode(form).encode(),
                headers={
                    "Accept": "application/json",
                    "Authorization": "Basic " + base64.b64encode(name).decode(),
                    "Content-Type": "application/x-www-form-urlencoded",
                },
            )
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT) as answer:
                reply = json.load(answer)
            token, life = reply["access_token"], reply.get("expires_in", DEFAULT_LIFE)
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # its response keeps the connection open
            raise AuthenticationFailedError(f"No token from {where}: {error!r}") from error
        if not isinstance(token, str) or not isinstance(life, int | float):
            raise AuthenticationFailedError(f"No token from {where}: not an RFC 6749 response")
        return token, float(life)

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
