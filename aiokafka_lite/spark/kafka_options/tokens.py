"""Bearer tokens from an OAuth token endpoint: what Java's OAUTHBEARER client does (KIP-768).

A provider travels to Spark's executors within the client's arguments, and equals any other of the
same client: each process asks for a token of its own and keeps it until shortly before its end.
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
"""Seconds, of connecting and of each read."""

KEEP: Final = 0.8
"""The part of a token's life in which it is presented, as with Java's refresh window."""

DEFAULT_LIFE: Final = 300.0
"""Seconds that a token is taken to live whose endpoint does not tell."""


@dataclass(slots=True)
class _Kept:
    token: str = ""
    until: float = 0.0  # a monotonic instant


@dataclass(frozen=True)
class ClientCredentials(AbstractTokenProvider):
    """Asks a token endpoint with a client's own name and secret.

    Attributes:
        url: The endpoint, https (or http, where that is wanted).
        client_id, client_secret: Who asks.
        scope: What for; None asks for the endpoint's default.
        sasl_extensions: Pairs to send beside the token (KIP-342).
    """

    url: str = field(repr=False)  # its query may hold a secret
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    sasl_extensions: tuple[tuple[str, str], ...] = ()
    _kept: _Kept = field(default_factory=_Kept, init=False, compare=False, repr=False)

    async def token(self) -> str:
        """The token that is kept, or a new one.

        Raises:
            AuthenticationFailedError: The endpoint refuses, cannot be reached, or answers with
                something that is no token.
        """
        kept = self._kept
        if time.monotonic() >= kept.until:
            loop = asyncio.get_running_loop()
            kept.token, life = await lookup_threads.run(loop, self._ask)
            kept.until = time.monotonic() + KEEP * life
        return kept.token

    def extensions(self) -> Mapping[str, str]:
        """Of `extension_NAME` in the login module's options."""
        return dict(self.sasl_extensions)

    def _ask(self) -> tuple[str, float]:
        # Here, since every process of every query reads this module, and few want a token.
        import urllib.error
        import urllib.parse
        import urllib.request
        from http.client import HTTPException

        form = {"grant_type": "client_credentials"}
        if self.scope is not None:
            form["scope"] = self.scope
        where = self.url.partition("?")[0]  # what follows may be a secret
        try:
            name = f"{self.client_id}:{self.client_secret}".encode()
        except UnicodeEncodeError:
            # Not as its cause: that error shows what it could not encode.
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
                told = json.load(answer)
            token, life = told["access_token"], told.get("expires_in", DEFAULT_LIFE)
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # its answer keeps the connection
            raise AuthenticationFailedError(f"No token from {where}: {error!r}") from error
        if not isinstance(token, str) or not isinstance(life, int | float):
            raise AuthenticationFailedError(f"No token from {where}: not an RFC 6749 response")
        return token, float(life)

    def __reduce__(self) -> tuple[type[ClientCredentials], tuple[object, ...]]:
        # The token stays here: a worker's clock is another one.
        told = (self.url, self.client_id, self.client_secret, self.scope, self.sasl_extensions)
        return ClientCredentials, told
