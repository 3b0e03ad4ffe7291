"""Checks aiokafka's `sasl_*` arguments as aiokafka does and makes a mechanism from them.

A mechanism is imported only when it is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Final, Literal

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaConfigurationError

if TYPE_CHECKING:
    from aiokafka_lite.net.authenticate import Mechanism

MECHANISMS: Final = (
    "PLAIN",
    "GSSAPI",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "AWS_MSK_IAM",
)

_OF_ONE: Final = {
    "sasl_kerberos_principal": "GSSAPI",
    "sasl_kerberos_keytab": "GSSAPI",
    "sasl_kerberos_cache": "GSSAPI",
    "sasl_scram_tokenauth": "SCRAM",
    "sasl_aws_credentials": "AWS_MSK_IAM",
    "sasl_aws_region": "AWS_MSK_IAM",
}
"""Options that only one mechanism uses, and the beginning of its name."""


def choose(security_protocol: str, arguments: Mapping[str, object]) -> Mechanism | None:
    """Return the mechanism that a client's arguments select; None without SASL.

    Args:
        security_protocol: One of the four protocols, already checked.
        arguments: Every `sasl_` argument, by name.

    Raises:
        ValueError: A required user name or password is missing, with aiokafka's message.
        KafkaConfigurationError: (a ValueError) the mechanism is unknown, the token provider is
            missing, or an option is empty or given for another mechanism.
        TypeError: A text is not a str.
    """
    mechanism = arguments["sasl_mechanism"]
    if mechanism is None and not security_protocol.startswith("SASL_"):
        mechanism = "PLAIN"  # settings classes often default to None; ignored below
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise KafkaConfigurationError(
            f"only {', '.join(MECHANISMS)} are supported as `sasl_mechanism`, not {mechanism!r}"
        )
    username = _text(arguments, "sasl_plain_username")
    password = _text(arguments, "sasl_plain_password")
    provider = arguments["sasl_oauth_token_provider"]
    if not security_protocol.startswith("SASL_"):
        return None
    tokenauth = arguments.get("sasl_scram_tokenauth", False)
    if not isinstance(tokenauth, bool):
        raise TypeError(f"`sasl_scram_tokenauth` should be a bool, not {type(tokenauth).__name__}")
    for name, owner in _OF_ONE.items():
        if arguments.get(name) not in (None, False) and not mechanism.startswith(owner):
            raise KafkaConfigurationError(
                f"`{name}` requires `sasl_mechanism` {owner}, not {mechanism}"
            )
    if mechanism == "GSSAPI":
        return _gssapi(arguments)
    if mechanism == "AWS_MSK_IAM":
        return _aws_msk_iam(arguments)
    if mechanism == "OAUTHBEARER":
        if not isinstance(provider, AbstractTokenProvider):
            raise KafkaConfigurationError(
                "OAUTHBEARER requires a `sasl_oauth_token_provider` that implements"
                " aiokafka_lite.abc.AbstractTokenProvider"
            )
        from aiokafka_lite.net.sasl.oauthbearer import OAuthBearer

        return OAuthBearer(provider)
    if username is None or password is None:
        raise ValueError(
            f"sasl_plain_username and sasl_plain_password required for {mechanism} sasl"
        )
    if mechanism == "PLAIN":
        from aiokafka_lite.net.sasl.plain import Plain

        return Plain(username, password)
    from aiokafka_lite.net.sasl.scram import Scram

    algorithm: Literal["SHA-256", "SHA-512"] = "SHA-512" if mechanism.endswith("512") else "SHA-256"
    return Scram(algorithm, username, password, tokenauth)


def _aws_msk_iam(arguments: Mapping[str, object]) -> Mechanism:
    from aiokafka_lite.net.aws.aws_credentials import AwsCredentials
    from aiokafka_lite.net.sasl.aws_msk_iam import AwsMskIam

    credentials = arguments.get("sasl_aws_credentials")
    if not (credentials is None or isinstance(credentials, AwsCredentials)):
        if not callable(credentials):
            raise TypeError(
                "`sasl_aws_credentials` should be aiokafka_lite.oauth.AwsCredentials, or a "
                f"function that returns them, not {type(credentials).__name__}"
            )
        return AwsMskIam(credentials, _text(arguments, "sasl_aws_region"))
    return AwsMskIam(credentials, _text(arguments, "sasl_aws_region"))


def _gssapi(arguments: Mapping[str, object]) -> Mechanism:
    from aiokafka_lite.net.gss import KerberosLogin
    from aiokafka_lite.net.sasl.gssapi import Gssapi
    from aiokafka_lite.net.sasl.text import encoded

    keytab = arguments.get("sasl_kerberos_keytab")
    if isinstance(keytab, PathLike):
        arguments = {**arguments, "sasl_kerberos_keytab": fspath(keytab)}
    service, domain, principal, keytab, cache = (
        _named(arguments, f"sasl_kerberos_{name}")
        for name in ("service_name", "domain_name", "principal", "keytab", "cache")
    )
    if service is None:
        raise KafkaConfigurationError(
            "GSSAPI requires `sasl_kerberos_service_name`, the name of the brokers' service"
        )
    for name, value in (("service", service), ("domain", domain), ("principal", principal)):
        encoded(value or "", f"Kerberos {name}")
    return Gssapi(KerberosLogin(principal, keytab, cache), service, domain)


def _named(arguments: Mapping[str, object], name: str) -> str | None:
    """Return a text for C's functions, which end at a NUL."""
    value = _text(arguments, name)
    if value is not None and (not value or "\0" in value):
        raise KafkaConfigurationError(f"`{name}` should not be empty or contain NUL")
    return value


def _text(arguments: Mapping[str, object], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {type(value).__name__}")
    return value
