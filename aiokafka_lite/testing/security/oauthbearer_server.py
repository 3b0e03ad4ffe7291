"""OAUTHBEARER as a server speaks it (RFC 7628, KIP-255), with unsecured tokens: JWTs that nobody
signed, as a Kafka that is not configured otherwise takes them. For tests they are as good.

A token needs a `sub`, which becomes the user, and an `exp` that lies ahead by the cluster's
clock, which ends the session.
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
"""What a client answers to the reason of its refusal."""


class _Token(NamedTuple):
    """What is read of one."""

    user: str
    expires_ms: int


class OAuthBearerExchange(SaslExchange):
    """One message; or, if the token is not good, the reason, its acknowledgement, and the end.

    Args:
        clock: Tokens expire by it.
    """

    mechanism = OAUTHBEARER

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reason: str | None = None  # why the token was refused, once that was told

    def on_message(self, message: bytes) -> bytes:
        if self._reason is not None and message == _GIVEN_UP:
            raise SaslRefused(self._reason, told=True)
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
                told=True,
            )
        self.user = token.user
        self.expires_ms = token.expires_ms
        return b""

    def _read(self, serialized: str) -> _Token | None:
        """The token, if it is unsigned, whole, and good for now."""
        try:
            header, payload, *signature = serialized.split(".")
            claims = _decoded(payload)
            if _decoded(header).get("alg") != "none" or any(signature):
                return None
            token = _Token(str(claims["sub"]), round(float(claims["exp"]) * 1000))
        except (LookupError, TypeError, ValueError, OverflowError, binascii.Error):
            return None  # it is no token at all
        return token if token.user and token.expires_ms > self._clock.now_ms() else None


def _decoded(part: str) -> dict[str, Any]:
    padded = part + "=" * (-len(part) % 4)
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    if not isinstance(decoded, dict):
        raise TypeError("each part of a token must be a JSON object")
    return decoded
