"""aiokafka's `sasl_*` arguments, checked as aiokafka checks them, made into a mechanism."""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.authenticate import Mechanism
from aiokafka_lite.net.sasl.oauthbearer import OAuthBearer
from aiokafka_lite.net.sasl.plain import Plain
from aiokafka_lite.net.sasl.scram import Scram

MECHANISMS: Final = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def choose(security_protocol: str, arguments: Mapping[str, object]) -> Mechanism | None:
    """The mechanism that a client's arguments ask for; None without SASL.

    Args:
        security_protocol: One of the four, checked before.
        arguments: Every `sasl_` argument, by name.

    Raises:
        ValueError: No name or password where one is needed, in aiokafka's words.
        KafkaConfigurationError: (a ValueError) an unknown mechanism, no token provider, or
            GSSAPI, which is not there yet.
        TypeError: A name or password that is no str.
    """
    mechanism = arguments["sasl_mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise KafkaConfigurationError(
            f"only {', '.join(MECHANISMS)} are supported as `sasl_mechanism`, not {mechanism!r}"
        )
    username = _text(arguments, "sasl_plain_username")
    password = _text(arguments, "sasl_plain_password")
    provider = arguments["sasl_oauth_token_provider"]
    if not security_protocol.startswith("SASL_"):
        return None
    if mechanism == "GSSAPI":
        raise KafkaConfigurationError("`sasl_mechanism` GSSAPI is not there yet")
    if mechanism == "OAUTHBEARER":
        if not isinstance(provider, AbstractTokenProvider):
            raise KafkaConfigurationError(
                "OAUTHBEARER needs a `sasl_oauth_token_provider` that implements"
                " aiokafka_lite.abc.AbstractTokenProvider"
            )
        return OAuthBearer(provider)
    if username is None or password is None:
        raise ValueError(
            f"sasl_plain_username and sasl_plain_password required for {mechanism} sasl"
        )
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram("SHA-512" if mechanism.endswith("512") else "SHA-256", username, password)


def _text(arguments: Mapping[str, object], name: str) -> str | None:
    value = arguments[name]
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {type(value).__name__}")
    return value
