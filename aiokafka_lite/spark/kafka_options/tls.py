"""Converts Kafka's `ssl.*` options to the TLS arguments of the clients.

The arguments are plain values, so they can be sent with a task and compared: a worker sees that
the next task can reuse its connections. The files are those of the machine that connects, as with
Java, and are read again when they change.

Source: SslConfigs and DefaultSslEngineFactory of Kafka's clients (KIP-651 for PEM).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.errors import KafkaConfigurationError

__all__ = ["TLS_OPTIONS", "TLS_REFUSED", "tls_arguments"]

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

_JAVA_ONLY: Final = (
    "ssl.cipher.suites",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)

_OWN: Final = {
    "ssl.cadata": "ssl_cadata",
    "ssl.cafile": "ssl_cafile",
    "ssl.certfile": "ssl_certfile",
    "ssl.check.hostname": "ssl_check_hostname",
    "ssl.ciphers": "ssl_ciphers",
    "ssl.keyfile": "ssl_keyfile",
    "ssl.password": "ssl_password",
}
"""The clients' own names of the same settings, as kafka-python has them."""

_SAME: Final = {
    "ssl.cadata": ("ssl.truststore.location", "ssl.truststore.certificates"),
    "ssl.cafile": ("ssl.truststore.location", "ssl.truststore.certificates"),
    "ssl.certfile": ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
    "ssl.check.hostname": ("ssl.endpoint.identification.algorithm",),
    "ssl.keyfile": ("ssl.keystore.location", "ssl.keystore.key"),
    "ssl.password": ("ssl.key.password",),
}
"""Java's options that exclude each of them."""

TLS_OPTIONS: Final = frozenset(
    {
        *_JAVA_ONLY,
        *_OWN,
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Every `ssl.*` option of Kafka's clients and of this one."""

TLS_REFUSED: Final = frozenset({*_JAVA_ONLY, "ssl.keystore.password", "ssl.truststore.password"})
"""Those of them that do not apply to PEM and OpenSSL."""


def tls_arguments(options: Mapping[str, str]) -> dict[str, object]:
    """Return the clients' arguments for Kafka's options.

    Args:
        options: Options by Kafka's names; those that are not about TLS are ignored.

    Raises:
        KafkaConfigurationError: An option works only in Java (the message names the alternative),
            or options contradict each other.
    """
    for name in _JAVA_ONLY:
        if name in options:
            raise KafkaConfigurationError(
                f"Kafka option '{name}' is specific to Java and is not supported: this client uses "
                "OpenSSL, with its own ciphers and algorithms. Leave it out"
            )
    for store in ("truststore", "keystore"):
        _check_store(options, store)
    if "ssl.truststore.location" in options and "ssl.truststore.certificates" in options:
        raise _both("ssl.truststore.location", "ssl.truststore.certificates")
    chain, key = options.get("ssl.keystore.certificate.chain"), options.get("ssl.keystore.key")
    if "ssl.keystore.location" in options and (chain is not None or key is not None):
        raise _both("ssl.keystore.location", "ssl.keystore.certificate.chain")
    if (chain is None) != (key is None):
        raise KafkaConfigurationError(
            "Kafka options 'ssl.keystore.certificate.chain' and 'ssl.keystore.key' must be set "
            "together"
        )
    arguments: dict[str, object] = {}
    for name, argument in (
        ("ssl.truststore.location", "ssl_cafile"),
        ("ssl.truststore.certificates", "ssl_cadata"),
        ("ssl.keystore.location", "ssl_certfile"),
        ("ssl.key.password", "ssl_password"),
    ):
        if name in options:
            arguments[argument] = options[name]
    if chain is not None and key is not None:
        arguments["ssl_certfile"] = f"{key.strip()}\n{chain.strip()}\n"
    if not _checks_hostname(options):
        arguments["ssl_check_hostname"] = False
    versions = _versions(options)
    if versions != _VERSIONS:
        arguments["ssl_enabled_protocols"] = versions
    return arguments | _own_arguments(options)


def _own_arguments(options: Mapping[str, str]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for name, argument in _OWN.items():
        if name not in options:
            continue
        for other in _SAME.get(name, ()):
            if other in options:
                raise _both(name, other)
        arguments[argument] = options[name]
    if "ssl_check_hostname" in arguments:
        checks = options["ssl.check.hostname"].strip().lower()
        if checks not in ("true", "false"):
            raise KafkaConfigurationError(
                f"Kafka option 'ssl.check.hostname' should be true or false, not {checks!r}"
            )
        arguments["ssl_check_hostname"] = checks == "true"
    return arguments


def _check_store(options: Mapping[str, str], store: str) -> None:
    """Reject a key store that is not PEM: JKS, Java's default, or PKCS12."""
    inline = ("certificates",) if store == "truststore" else ("certificate.chain", "key")
    parts = [f"ssl.{store}.{part}" for part in ("location", "password", *inline)]
    if f"ssl.{store}.type" not in options and not any(part in options for part in parts):
        return
    kind = options.get(f"ssl.{store}.type", "JKS")
    if kind.upper() != "PEM":
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.{store}.type' is {kind!r}, but only PEM is supported: only Java "
            "reads JKS and PKCS12 stores. Convert the store (`keytool -importkeystore "
            "-srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12`, then `openssl "
            f"pkcs12 -in STORE.p12 -out STORE.pem`), and set 'kafka.ssl.{store}.type' to PEM "
            f"and 'kafka.ssl.{store}.location' to that file"
        )
    if f"ssl.{store}.password" in options:
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.{store}.password' cannot be set with PEM (set 'ssl.key.password' "
            "for an encrypted private key)"
        )


def _both(one: str, other: str) -> KafkaConfigurationError:
    return KafkaConfigurationError(f"Kafka options '{one}' and '{other}' are mutually exclusive")


def _versions(options: Mapping[str, str]) -> tuple[str, ...]:
    enabled = options.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    named = sorted(each.strip() for each in enabled.split(",") if each.strip())
    for each in named or [enabled]:
        if each not in _VERSIONS:
            raise KafkaConfigurationError(
                f"Kafka option 'ssl.enabled.protocols' should name {' and '.join(_VERSIONS)}, "
                f"not {each!r}"
            )
    protocol = options.get("ssl.protocol", "TLS")  # "TLS" sets no limit, as in Java
    if protocol not in (*_VERSIONS, "TLS"):
        raise KafkaConfigurationError(
            f"Kafka option 'ssl.protocol' should be one of {', '.join(_VERSIONS)}, not {protocol!r}"
        )
    return tuple(dict.fromkeys(named))


def _checks_hostname(options: Mapping[str, str]) -> bool:
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in ("https", ""):
        raise KafkaConfigurationError(
            "Kafka option 'ssl.endpoint.identification.algorithm' should be 'https', or empty to "
            f"check no name, not {algorithm!r}"
        )
    return algorithm != ""
