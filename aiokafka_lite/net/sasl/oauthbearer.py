"""SASL/OAUTHBEARER: authentication with a token from a third party.

Source: RFC 7628; KIP-255, KIP-342 (extensions).
"""

import logging
import re
from collections.abc import Mapping
from typing import Final

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaError,
)
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.broker_text import shown
from aiokafka_lite.net.sasl.text import failed

log = logging.getLogger(__name__)

SEPARATOR: Final = "\x01"
TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""A bearer token: b64token of RFC 6750."""

_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")


class OAuthBearer:
    """Requests a token from the provider at each authentication."""

    name = "OAUTHBEARER"
    hint = ""

    def __init__(self, provider: AbstractTokenProvider) -> None:
        self._provider = provider

    async def begin(self, host: str) -> Exchange:
        """Begin an exchange with a current token.

        Raises:
            KafkaConfigurationError: The provider returned an invalid token or invalid extensions.
            KafkaConnectionError: The provider raised an exception, which is this error's cause.
        """
        try:
            token = await self._provider.token()
            extensions = self._provider.extensions()
        except KafkaError:
            raise
        except Exception as error:
            # Retriable: the token service may be temporarily unavailable.
            failure = failed("the token provider", error)
        else:
            return self._exchange(token, first_message(token, extensions))
        raise failure

    def _exchange(self, token: str, message: bytes) -> Exchange:
        try:
            refusal = yield message
            if refusal:
                # A broker that rejects the token first sends the reason. Its error follows this
                # empty response.
                yield SEPARATOR.encode()
                raise AuthenticationFailedError(
                    f"the broker refused the token: {shown(refusal.decode(errors='replace'))}"
                )
        except AuthenticationFailedError:
            try:
                self._provider.on_rejected(token)
            except Exception:
                log.warning("on_rejected() of %r failed", self._provider, exc_info=True)
            raise

    def __repr__(self) -> str:
        return "<SASL/OAUTHBEARER>"


def first_message(token: object, extensions: Mapping[str, str]) -> bytes:
    """Return the message for a token and its extensions.

    Raises:
        KafkaConfigurationError: The token or an extension cannot be encoded.
    """
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise KafkaConfigurationError("the token provider returned an invalid bearer token")
    pairs = [f"auth=Bearer {token}"]
    for name, value in extensions.items():
        if not _NAME.fullmatch(name) or name == "auth":
            raise KafkaConfigurationError(f"{name!r} cannot be the name of a SASL extension")
        if not _VALUE.fullmatch(value):
            raise KafkaConfigurationError(f"the SASL extension {name!r} has an illegal value")
        pairs.append(f"{name}={value}")
    return f"n,,{SEPARATOR}{SEPARATOR.join(pairs)}{SEPARATOR}{SEPARATOR}".encode()
