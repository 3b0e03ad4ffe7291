"""SASL/OAUTHBEARER as in its RFC, and invalid tokens."""

from collections.abc import Mapping

import pytest

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
)
from aiokafka_lite.net.sasl.oauthbearer import OAuthBearer


class Provider(AbstractTokenProvider):
    def __init__(self, token: object = "abc.DEF-1==", **extensions: str) -> None:
        self._token = token
        self._extensions = extensions
        self.asked = 0
        self.rejected: list[str] = []

    async def token(self) -> str:
        self.asked += 1
        return self._token  # type: ignore[return-value]  # some of the tests give nonsense

    def extensions(self) -> Mapping[str, str]:
        return self._extensions

    def on_rejected(self, token: str) -> None:
        self.rejected.append(token)


async def test_token_and_extensions_are_requested_for_each_exchange() -> None:
    provider = Provider(traceId="1 2", org="x")
    mechanism = OAuthBearer(provider)
    for _ in range(2):
        exchange = await mechanism.begin("any")
        message = b"n,,\x01auth=Bearer abc.DEF-1==\x01traceId=1 2\x01org=x\x01\x01"
        assert next(exchange) == message
        with pytest.raises(StopIteration):
            exchange.send(b"")
    assert provider.asked == 2


async def test_refusal_is_acknowledged_and_raised() -> None:
    provider = Provider()
    exchange = await OAuthBearer(provider).begin("any")
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailedError, match="invalid_token"):
        exchange.send(b"")
    assert provider.rejected == ["abc.DEF-1=="]


async def test_an_error_of_on_rejected_does_not_hide_the_rejection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider()
    monkeypatch.setattr(provider, "on_rejected", lambda token: 1 / 0)
    exchange = await OAuthBearer(provider).begin("any")
    next(exchange)
    with pytest.raises(AuthenticationFailedError, match="revoked"):
        exchange.throw(AuthenticationFailedError("revoked"))
    assert "ZeroDivisionError" in caplog.text


async def test_provider_is_notified_of_a_rejection_without_a_reason() -> None:
    provider = Provider()
    exchange = await OAuthBearer(provider).begin("any")
    next(exchange)
    with pytest.raises(SaslAuthenticationFailed, match="no"):
        exchange.throw(SaslAuthenticationFailed("no"))
    assert provider.rejected == ["abc.DEF-1=="]


async def test_lost_connection_does_not_count_as_a_rejection() -> None:
    provider = Provider()
    exchange = await OAuthBearer(provider).begin("any")
    next(exchange)
    exchange.close()
    assert provider.rejected == []


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (Provider(""), "invalid bearer token"),
        (Provider(b"bytes"), "invalid bearer token"),
        (Provider("two words"), "invalid bearer token"),
        (Provider(auth="x"), "'auth'"),
        (Provider(a1="x"), "'a1'"),
        (Provider(a="\x01"), "illegal value"),
    ],
)
async def test_invalid_tokens_and_extensions_raise(provider: Provider, text: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=text):
        await OAuthBearer(provider).begin("any")


async def test_a_provider_that_raises_fails_the_attempt_with_a_retriable_error() -> None:
    class Away(Provider):
        async def token(self) -> str:
            raise OSError("503 Service Unavailable")

    with pytest.raises(
        KafkaConnectionError, match=r"the token provider failed: OSError.*503"
    ) as caught:
        await OAuthBearer(Away()).begin("any")
    assert isinstance(caught.value.__cause__, OSError)
