"""The server side of OAUTHBEARER (RFC 7628, KIP-255), with unsecured tokens.

These are unsigned JWTs, which Kafka accepts by default. A token needs a `sub`, which becomes the
user, and an `exp` in the future of the cluster's clock, at which the session expires.
"""

import base64
import binascii
import json
import re
from typing import Any, Final, NamedTuple

from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.security.sasl_exchange import SaslExchange, SaslRefused

__all__ = ["OAUTHBEARER", "OAuthBearerExchange"]

OAUTHBEARER: Final = "OAUTHBEARER"

_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[^\x00=,]|=2C|=3D)+))?,\x01(?P<pairs>.*\x01)\x01", re.DOTALL
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_.+/=a-zA-Z0-9]+) *", re.IGNORECASE)
_GIVEN_UP: Final = b"\x01"
"""The client's acknowledgement of its rejection."""


class _Token(NamedTuple):
    """The parts of a token that are used."""

    user: str
    expires_ms: int


class OAuthBearerExchange(SaslExchange):
    """A single message; for an invalid token, the reason and its acknowledgement follow.

    Args:
        clock: The clock of token expiry.
    """

    mechanism = OAUTHBEARER

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reason: str | None = None  # why the token was rejected, once sent to the client

    def on_message(self, message: bytes) -> bytes:
        if self._reason is not None and message == _GIVEN_UP:
            raise SaslRefused(self._reason, shown=True)
        first = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if first is None:
            raise SaslRefused("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.partition("=")[::2] for pair in first["pairs"].split("\x01"))
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise SaslRefused("Invalid OAUTHBEARER client first message: no bearer token")
        token = self._read(bearer["token"])
        if token is None:
            self._reason = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._reason.encode()
        if first["authorization_id"] not in (None, token.user):
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id"
                f" ({first['authorization_id']}) that is different from the token's principal name"
                f" ({token.user})",
                shown=True,
            )
        self.user = token.user
        self.expires_ms = token.expires_ms
        return b""

    def _read(self, serialized: str) -> _Token | None:
        """Return the token if it is unsigned, complete and currently valid, else None."""
        try:
            header, payload, *signature = serialized.split(".")
            claims = _decoded(payload)
            if _decoded(header).get("alg") != "none" or any(signature):
                return None
            token = _Token(str(claims["sub"]), round(float(claims["exp"]) * 1000))
        except (LookupError, TypeError, ValueError, OverflowError, binascii.Error):
            return None  # not a token
        return token if token.user and token.expires_ms > self._clock.now_ms() else None


def _decoded(part: str) -> dict[str, Any]:
    padded = part + "=" * (-len(part) % 4)
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    if not isinstance(decoded, dict):
        raise TypeError("each part of a token must be a JSON object")
    return decoded
