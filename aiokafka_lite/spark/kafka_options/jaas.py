"""Converts Kafka's `sasl.*` options, including the JAAS line of a login module.

Source: JaasConfig of Kafka's clients for the grammar; Java's StreamTokenizer for its quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import KafkaConfigurationError

if TYPE_CHECKING:
    from aiokafka_lite.spark.kafka_options.tokens import ClientCredentials

__all__ = ["SASL_OPTIONS", "SASL_REFUSED", "Login", "parse_jaas", "sasl_arguments"]

_OPTION: Final = "Kafka option 'sasl.jaas.config'"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})

# A quoted string with Java's escapes, a sign, or a word.
_TOKEN: Final = r"""\s*(?: "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)'
        | (?P<sign>[=;]) | (?P<word>[^\s=;"']+) )"""
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

_MODULE_OF: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}

_JAVA_ONLY: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
)
_LOGIN_CALLBACK: Final = "sasl.login.callback.handler.class"
_KNOWN_CALLBACKS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""Java's client of a token endpoint, which `ClientCredentials` replaces."""
_KNOWN_CLASSES: Final = frozenset(
    {
        *((_LOGIN_CALLBACK, known) for known in _KNOWN_CALLBACKS),
        (
            "sasl.client.callback.handler.class",
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        ),
    }
)
"""Options and Java classes that this client replaces."""

SASL_OPTIONS: Final = frozenset(
    {
        *_JAVA_ONLY,
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""The `sasl.*` options handled here, including the rejected ones."""

SASL_REFUSED: Final = frozenset(_JAVA_ONLY)
"""Those of them that are rejected."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login module and its options.

    Attributes:
        module: The last part of its class's name, such as "PlainLoginModule".
    """

    module: str
    options: Mapping[str, str] = field(repr=False)  # contains a password


def parse_jaas(text: str) -> Login:
    """Parse a login such as `org...PlainLoginModule required username="alice" password="secret";`.

    Raises:
        KafkaConfigurationError: The text is not exactly one valid login.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (True, ";"):
        raise KafkaConfigurationError(f"{_OPTION} should end with a semicolon")
    (_, module), (_, flag), *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise KafkaConfigurationError(
            f"{_OPTION} should have 'required' (or another control flag) after the login module"
        )
    if (True, ";") in rest:
        raise KafkaConfigurationError(f"{_OPTION} should hold one login module")
    options: dict[str, str] = {}
    for place in range(0, len(rest), 3):
        match rest[place : place + 3]:
            case [(False, name), (True, "="), (False, value)]:
                options[name] = value
            case wrong:
                # Do not show the text: it may be part of a password.
                raise KafkaConfigurationError(
                    f"{_OPTION} should hold name=value pairs after {flag!r}; item "
                    f"{place // 3 + 1} is not a pair ({len(wrong)} parts)"
                )
    name = module.rpartition(".")[2]
    if not name.endswith("LoginModule"):
        raise KafkaConfigurationError(f"{_OPTION} should begin with the class of a login module")
    return Login(name, options)


def sasl_arguments(options: Mapping[str, str]) -> dict[str, object]:
    """Return the `sasl_*` arguments for a protocol that begins with "SASL_".

    Args:
        options: Options by Kafka's names; those that are not about SASL are ignored.

    Raises:
        KafkaConfigurationError: An option is unsupported; the message names the alternative.
    """
    mechanism = options.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MODULE_OF:
        raise KafkaConfigurationError(
            f"Kafka option 'sasl.mechanism' should be one of {', '.join(_MODULE_OF)}, not "
            f"{mechanism!r}"
        )
    for name in _JAVA_ONLY:
        if name in options and (name, options[name]) not in _KNOWN_CLASSES:
            raise KafkaConfigurationError(
                f"Kafka option '{name}' names or needs a Java class, which cannot be loaded here. "
                f"With OAUTHBEARER, set 'kafka.sasl.oauthbearer.token.endpoint.url' instead"
            )
    login = _login(options, mechanism)
    if mechanism == "OAUTHBEARER":
        return {
            "sasl_mechanism": mechanism,
            "sasl_oauth_token_provider": _credentials(options, login),
        }
    if mechanism == "GSSAPI":
        return {"sasl_mechanism": mechanism, **_kerberos(options, login)}
    if mechanism == "AWS_MSK_IAM":
        _check_iam(login)
        return {"sasl_mechanism": mechanism}
    if login is None:
        raise KafkaConfigurationError(f"{_OPTION} must be specified with {mechanism}")
    for name in ("username", "password"):
        if name not in login.options:
            raise KafkaConfigurationError(f"{_OPTION} should name a {name!r}")
    arguments: dict[str, object] = {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login.options["username"],
        "sasl_plain_password": login.options["password"],
    }
    if mechanism != "PLAIN" and _flag(login, "tokenauth"):
        arguments["sasl_scram_tokenauth"] = True
    return arguments


def _flag(login: Login, name: str) -> bool:
    return login.options.get(name, "false").lower() == "true"


def _kerberos(options: Mapping[str, str], login: Login | None) -> dict[str, object]:
    """Return the arguments of Kerberos from the options of the JVM's Krb5LoginModule."""
    given: Mapping[str, str] = {} if login is None else login.options
    service = options.get("sasl.kerberos.service.name", given.get("serviceName"))
    if service is None:
        raise KafkaConfigurationError(
            "Kafka option 'sasl.mechanism' is GSSAPI (Kafka's default), which requires "
            "'kafka.sasl.kerberos.service.name'. For another mechanism set 'kafka.sasl.mechanism'"
        )
    arguments: dict[str, object] = {"sasl_kerberos_service_name": service}
    if "principal" in given:
        arguments["sasl_kerberos_principal"] = given["principal"]
    if login is not None and _flag(login, "useKeyTab") and "keyTab" in given:
        from aiokafka_lite.spark.kafka_options.shipped_file import ShippedFile

        path = given["keyTab"]
        arguments["sasl_kerberos_keytab"] = ShippedFile(path.removeprefix("file://"))
    if login is not None and _flag(login, "useTicketCache") and "ticketCache" in given:
        arguments["sasl_kerberos_cache"] = given["ticketCache"]
    return arguments


def _check_iam(login: Login | None) -> None:
    if login is None:
        raise KafkaConfigurationError(
            f"{_OPTION} must be specified with AWS_MSK_IAM: "
            "'software.amazon.msk.auth.iam.IAMLoginModule required;'"
        )
    for name in ("awsProfileName", "awsRoleArn"):
        if name in login.options:
            raise KafkaConfigurationError(
                f"{_OPTION} has {name!r}, which is not supported. Set AWS_PROFILE in the "
                "environment of the driver and the executors, or give them the role"
            )


def _login(options: Mapping[str, str], mechanism: str) -> Login | None:
    text = options.get("sasl.jaas.config")
    if text is None:
        return None
    login = parse_jaas(text)
    if login.module != _MODULE_OF[mechanism]:
        raise KafkaConfigurationError(
            f"{_OPTION} names {login.module}, but 'sasl.mechanism' {mechanism} requires "
            f"{_MODULE_OF[mechanism]}"
        )
    return login


def _credentials(options: Mapping[str, str], login: Login | None) -> ClientCredentials:
    url = options.get("sasl.oauthbearer.token.endpoint.url")
    if url is None:
        raise KafkaConfigurationError(
            "Kafka option 'sasl.oauthbearer.token.endpoint.url' must be specified with "
            "OAUTHBEARER: tokens are requested from it (client credentials)"
        )
    _check_endpoint(url)
    login_options = {} if login is None else login.options
    prefix = "sasl.oauthbearer.client.credentials."
    client_id = options.get(f"{prefix}client.id", login_options.get("clientId"))
    secret = options.get(f"{prefix}client.secret", login_options.get("clientSecret"))
    if client_id is None or secret is None:
        raise KafkaConfigurationError(
            f"OAUTHBEARER needs '{prefix}client.id' and '{prefix}client.secret' (or clientId and "
            "clientSecret in 'sasl.jaas.config')"
        )
    scope = options.get("sasl.oauthbearer.scope", login_options.get("scope"))
    extensions = tuple(
        sorted(
            (name.removeprefix("extension_"), value)
            for name, value in login_options.items()
            if name.startswith("extension_")
        )
    )
    from aiokafka_lite.spark.kafka_options.tokens import (
        ClientCredentials,  # rarely used, and imports asyncio
    )

    return ClientCredentials(url, client_id, secret, scope, extensions)


def _check_endpoint(url: str) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # Do not show the URL: it may contain a password.
        raise KafkaConfigurationError(
            "Kafka option 'sasl.oauthbearer.token.endpoint.url' should be an address such as "
            "'https://login.example/token'"
        )
    if "@" in parts.netloc:
        raise KafkaConfigurationError(
            "Kafka option 'sasl.oauthbearer.token.endpoint.url' cannot hold a user name or a "
            "password: use 'kafka.sasl.oauthbearer.client.credentials.client.id' and "
            "'kafka.sasl.oauthbearer.client.credentials.client.secret'"
        )


def _tokens(text: str) -> list[tuple[bool, str]]:
    """Return the text's tokens: True if the token is a sign, and its text."""
    tokens: list[tuple[bool, str]] = []
    place, text = 0, text.strip()
    while place < len(text):
        found = re.compile(_TOKEN, re.VERBOSE).match(text, place)
        if found is None:
            raise KafkaConfigurationError(
                f"{_OPTION} has a quote that is not closed, at character {place + 1}"
            )
        quoted = found["double"] if found["double"] is not None else found["single"]
        if quoted is not None:
            tokens.append((False, re.sub(r"\\(.)", _unescaped, quoted)))
        elif found["sign"] is not None:
            tokens.append((True, found["sign"]))
        else:
            tokens.append((False, found["word"]))
        place = found.end()
    return tokens


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])
