"""OAUTHBEARER with unsecured tokens: accepted and rejected tokens."""

import base64
import json
from typing import Any

import pytest

from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.security.authentication import Sasl
from aiokafka_lite.testing.security.oauthbearer_server import OAuthBearerExchange
from aiokafka_lite.testing.security.sasl_exchange import SaslRefused
from aiokafka_lite.testing.security.users import Users

NOW = 1_700_000_000


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token(header: object = {"alg": "none"}, signature: str = "", **claims: Any) -> str:
    return f"{part(header)}.{part({'sub': 'alice', 'exp': NOW + 60, **claims})}.{signature}"


def first(serialized: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {serialized}\x01{more}\x01".encode()


def exchange() -> OAuthBearerExchange:
    return OAuthBearerExchange(VirtualClock(NOW * 1000))


@pytest.mark.parametrize(
    "message",
    [
        first(token()),
        first(token().rstrip(".")),
        first(token(), "n,a=alice,"),
        first(token(), more="traceId=123\x01"),
        first(token(iat=NOW, scope=["a", "b"])),
    ],
)
def test_good_tokens(message: bytes) -> None:
    server = exchange()
    assert server.on_message(message) == b""
    assert (server.user, server.expires_ms) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    "serialized",
    [
        token(exp=NOW),
        token(exp=None),
        token(exp="soon"),
        token(exp=float("inf")),
        token(sub=""),
        token({"alg": "HS256"}),
        token(signature="c2lnbmVk"),
        token(["alg"]),
        "abc",
        "a.b",
        f"{part({'alg': 'none'})}.{part({'sub': 'alice'})}.",
    ],
)
def test_invalid_tokens_are_rejected_with_a_reason(serialized: str) -> None:
    server = exchange()
    assert server.on_message(first(serialized)) == b'{"status":"invalid_token"}'
    with pytest.raises(SaslRefused) as refused:
        server.on_message(b"\x01")
    assert refused.value.shown == '{"status":"invalid_token"}'
    assert server.user is None


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"", False),
        (b"n,,\x01auth=Basic abc\x01\x01", False),
        (b"n,,\x01host=x\x01\x01", False),
        (b"y,,\x01auth=Bearer abc\x01\x01", False),
        (first(token(), "n,a=bob,"), True),
    ],
)
def test_invalid_messages_are_rejected(message: bytes, shown: bool) -> None:
    with pytest.raises(SaslRefused) as refused:
        exchange().on_message(message)
    assert (refused.value.shown is not None) == shown


def test_the_session_ends_with_the_token() -> None:
    clock = VirtualClock(NOW * 1000)
    sasl = Sasl(
        Users(lambda: b""),
        ["OAUTHBEARER"],
        clock=clock,
        new_nonce=str,
        session_lifetime=90.0,
    )
    authentication = sasl.new_authentication()
    authentication.on_handshake("OAUTHBEARER", 1)
    clock.advance(10.0)
    assert authentication.on_message(first(token())) == (b"", "alice", 50_000)
    longer = sasl.new_authentication()
    longer.on_handshake("OAUTHBEARER", 1)
    assert longer.on_message(first(token(exp=NOW + 1000))).lifetime_ms == 90_000
